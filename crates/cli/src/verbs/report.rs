//! `report RUN…`, and the page that every run writes.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use storebench_report::{
    INDEX_MARK, IndexedRun, Life, PAGE_MARK, Recorded, ReportError, Subject, index, markdown, page, picture,
};
use storebench_results::RESULT_FILE;
use storebench_results::summary::summary;
#[cfg(feature = "tables")]
use storebench_results::{Column, Table};

use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::output::{layout, print};
use crate::outputs::{refuse_existing, write_or_print, write_text};

/// The name of a run's own page.
pub(super) const PAGE: &str = "report.html";
/// The name of an index in a folder of runs.
const INDEX: &str = "index.html";

pub(crate) fn report(args: &ReportArgs) -> Result<u8, Failure> {
    if args.tables.is_some() {
        return tables(&args.runs);
    }
    if args.full {
        for run in &args.runs {
            print(&summary(&storebench_results::read_run(run).map_err(Failure::bad_input)?, layout()))?;
        }
        return Ok(0);
    }
    if let Some(file) = &args.picture {
        return write_picture(&args.runs, file, args.force);
    }
    if let Some(file) = args.output.as_ref().filter(|file| file.as_os_str() != "-") {
        refuse_existing(file, args.force)?;
    }
    if args.runs.iter().any(|run| is_folder_of_runs(run)) {
        return write_index(args);
    }
    let runs =
        args.runs.iter().map(|run| Recorded::open(run)).collect::<Result<Vec<_>, _>>().map_err(Failure::bad_input)?;
    let subject = Subject::of(runs);
    if args.markdown {
        print(&markdown(&subject))?;
        return Ok(0);
    }
    let file = match (&args.output, args.runs.as_slice()) {
        (Some(file), _) => file.clone(),
        (None, [run]) if run.is_dir() => run.join(PAGE),
        (None, [run]) => run.with_file_name(PAGE),
        (None, _) => return Err(Failure::bad_input("several runs make one page; name the file with -o FILE")),
    };
    let text = page(&subject, Life::Written).map_err(Failure::bad_input)?;
    // A run's own page may be replaced.
    write_or_print(&file, &text, args.force || args.output.is_none())?;
    Ok(0)
}

/// Whether this folder is not a run, but has run folders in it.
fn is_folder_of_runs(path: &Path) -> bool {
    path.is_dir() && !path.join(RESULT_FILE).exists() && !runs_in(path).is_empty()
}

/// The run folders in a folder.
fn runs_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut runs: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.join(RESULT_FILE).exists()).collect();
    runs.sort();
    runs
}

/// Writes an index of the runs in folders.
fn write_index(args: &ReportArgs) -> Result<u8, Failure> {
    if args.markdown {
        return Err(Failure::bad_input("--markdown shows runs, not a folder of runs; name the runs"));
    }
    let file = match (&args.output, args.runs.as_slice()) {
        (Some(file), _) => file.clone(),
        (None, [folder]) => folder.join(INDEX),
        (None, _) => return Err(Failure::bad_input("several folders make one index; name the file with -o FILE")),
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut runs = Vec::new();
    for path in &args.runs {
        let found = if is_folder_of_runs(path) { runs_in(path) } else { vec![path.clone()] };
        for run in found {
            let name =
                run.file_name().map_or_else(|| run.display().to_string(), |name| name.to_string_lossy().into_owned());
            let page = run.join(PAGE);
            let result = storebench_results::read_run(&run).map_err(|error| error.to_string());
            // A copy leaves no page. One that cannot be made has no link.
            let has_page = page.exists() || result.is_ok() && write_page(&run).is_ok();
            let report = has_page.then(|| address(folder, &page)).flatten();
            runs.push(IndexedRun::new(name, report, result.as_ref().map_err(Clone::clone)));
        }
    }
    let title = match args.runs.as_slice() {
        [one] => format!("Runs in {}", one.display()),
        several => format!("Runs in {} folders", several.len()),
    };
    let text = index(&title, runs, &Timestamp::now().to_string(), &again(args));
    // An index may replace an earlier index, but no other file.
    write_or_print(&file, &text, args.force || (args.output.is_none() && is_index(&file)))?;
    Ok(0)
}

/// Whether this file is an index that Storebench wrote.
fn is_index(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.contains(INDEX_MARK) && text.contains(PAGE_MARK))
}

/// The command that makes an index again.
fn again(args: &ReportArgs) -> String {
    let runs = args.runs.iter().map(|run| format!(" {}", run.display()));
    let file = args.output.as_ref().filter(|file| file.as_os_str() != "-");
    let file = file.map_or_else(String::new, |file| format!(" -o {} --force", file.display()));
    format!("storebench report{}{file}", runs.collect::<String>())
}

/// What to say if the index beside this run folder does not have the run yet.
pub(super) fn index_is_older(run: &Path) -> Option<String> {
    let runs = run.parent()?;
    let index = runs.join(INDEX);
    is_index(&index).then(|| {
        format!("{} is older than this run; to update it, run `storebench report {}`", index.display(), runs.display())
    })
}

/// The address of a file, relative to the page's folder; none if there is no path between them.
pub(super) fn address(folder: &Path, file: &Path) -> Option<String> {
    let (folder, file) = (folder.canonicalize().ok()?, file.canonicalize().ok()?);
    let common = folder.components().zip(file.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(common).map(|_| "..".to_owned());
    let down = file.components().skip(common).map(|part| part.as_os_str().to_string_lossy().into_owned());
    // The dot, because a name with a colon would be read as a scheme.
    let parts: Vec<String> = std::iter::once(".".to_owned()).chain(up).chain(down).collect();
    // In an address these characters have a meaning of their own.
    Some(parts.join("/").replace('%', "%25").replace('#', "%23").replace('?', "%3F"))
}

/// Writes the first chart of a run as SVG.
fn write_picture(runs: &[PathBuf], file: &Path, force: bool) -> Result<u8, Failure> {
    let [run] = runs else {
        return Err(Failure::bad_input("--picture shows one run; name one"));
    };
    let ending = file.extension().unwrap_or_default().to_string_lossy().to_uppercase();
    if ["PNG", "JPG", "JPEG", "WEBP", "PDF"].contains(&ending.as_str()) {
        return Err(Failure::bad_input(format!(
            "{}: a picture is written as SVG, not as {ending}; use --picture {}",
            file.display(),
            file.with_extension("svg").display()
        )));
    }
    let result = storebench_results::read_run(run).map_err(Failure::bad_input)?;
    let Some(svg) = picture(&result) else {
        let what = "nothing was measured in this run that can be drawn";
        return Err(Failure::bad_input(format!("{}: {what}", run.display())));
    };
    if file.as_os_str() != "-" {
        refuse_existing(file, force)?;
    }
    write_or_print(file, &svg, force)?;
    Ok(0)
}

#[cfg(not(feature = "tables"))]
fn tables(_: &[PathBuf]) -> Result<u8, Failure> {
    Err(Failure::bad_input("this binary was built without Parquet; build with the feature `tables`"))
}

/// Writes the tables of runs as Parquet into a separate folder.
#[cfg(feature = "tables")]
fn tables(runs: &[PathBuf]) -> Result<u8, Failure> {
    for run in runs {
        let folder = if run.is_dir() { run.as_path() } else { run.parent().unwrap_or(Path::new("")) };
        // Fails if the folder is not a run.
        storebench_results::read_run(run).map_err(Failure::bad_input)?;
        let kept: Vec<Table> = Table::ALL.into_iter().filter(|table| folder.join(table.file()).exists()).collect();
        if kept.is_empty() {
            return Err(Failure::bad_input(format!("{}: this run has no tables", run.display())));
        }
        let into = folder.join("parquet");
        let failed = |file: &Path, error: std::io::Error| Failure::spoiled(format!("{}: {error}", file.display()));
        std::fs::create_dir_all(&into).map_err(|error| failed(&into, error))?;
        for table in kept {
            let name = format!("{}.parquet", table.name());
            let file = into.join(&name);
            // Written next to its place, and moved there when complete.
            let part = into.join(format!(".{name}.new"));
            let write = || parquet(table, folder, std::fs::File::create(&part)?);
            write().and_then(|()| std::fs::rename(&part, &file)).map_err(|error| {
                let _ = std::fs::remove_file(&part);
                failed(&file, error)
            })?;
            print(&format!("{}\n", file.display()))?;
        }
    }
    Ok(0)
}

#[cfg(feature = "tables")]
fn parquet(table: Table, folder: &Path, file: std::fs::File) -> std::io::Result<()> {
    use storebench_transfer::{Columns, TableLines};

    let source = folder.join(table.file());
    let list = table.columns().into_iter().map(|(name, column)| (name, kind(column))).collect();
    let mut out = TableLines::parquet(file, &Columns { list, overflow: None })?;
    storebench_results::lines_of(&source, |line| out.write(line))?;
    out.finish()
}

#[cfg(feature = "tables")]
fn kind(column: Column) -> storebench_transfer::Kind {
    use storebench_transfer::Kind;

    match column {
        Column::Integer => Kind::Integer,
        Column::Number => Kind::Number,
        Column::Text => Kind::Text,
    }
}

/// Writes the page of a run into its folder; gives its path.
pub(super) fn write_page(folder: &Path) -> Result<PathBuf, String> {
    let made = || -> Result<String, ReportError> {
        let subject = Subject::of(vec![Recorded::open(folder)?]);
        page(&subject, Life::Written)
    };
    let text = made().map_err(|e| e.to_string())?;
    let file = folder.join(PAGE);
    write_text(&file, &text, true).map_err(|failure| failure.message)?;
    Ok(file)
}
