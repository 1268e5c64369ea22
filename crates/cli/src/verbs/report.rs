//! `report RUN…`, and the page that every run leaves.

#[cfg(feature = "tables")]
use std::io::Write as _;
use std::path::{Path, PathBuf};

use storebench_report::{Life, ReadOldTable, Recorded, ReportError, Subject, markdown, page, picture};
use storebench_results::summary::summary;
#[cfg(feature = "tables")]
use storebench_results::{Column, Table};

use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::output::{layout, print};
use crate::outputs::{refuse_existing, write_text};

/// The name of a run's own page.
pub(super) const PAGE: &str = "report.html";

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
    let runs = args
        .runs
        .iter()
        .map(|run| Recorded::open(run, READ_OLD_TABLE))
        .collect::<Result<Vec<_>, _>>()
        .map_err(Failure::bad_input)?;
    let subject = Subject::of(runs);
    if args.markdown {
        print(&markdown(&subject))?;
        return Ok(0);
    }
    let file = match (&args.output, args.runs.as_slice()) {
        (Some(file), _) => file.clone(),
        (None, [run]) if run.is_dir() => run.join(PAGE),
        (None, [run]) => run.with_file_name(PAGE),
        (None, _) => return Err(Failure::bad_input("several runs make one page; name its file with -o FILE")),
    };
    let text = page(&subject, Life::Written).map_err(Failure::bad_input)?;
    if file.as_os_str() == "-" {
        print(&text)?;
        return Ok(0);
    }
    // The page of a run is made again in its folder.
    write_text(&file, &text, args.force || args.output.is_none())?;
    print(&format!("{}\n", file.display()))?;
    Ok(0)
}

/// Writes the first chart of a run as SVG.
fn write_picture(runs: &[PathBuf], file: &Path, force: bool) -> Result<u8, Failure> {
    let [run] = runs else {
        return Err(Failure::bad_input("--picture shows one run; name one"));
    };
    let result = storebench_results::read_run(run).map_err(Failure::bad_input)?;
    let Some(svg) = picture(&result) else {
        let what = "this run has one configuration: there is nothing to compare in a picture";
        return Err(Failure::bad_input(format!("{}: {what}", run.display())));
    };
    if file.as_os_str() == "-" {
        print(&svg)?;
        return Ok(0);
    }
    refuse_existing(file, force)?;
    write_text(file, &svg, force)?;
    print(&format!("{}\n", file.display()))?;
    Ok(0)
}

/// How tables are read that versions before this one kept as Parquet.
#[cfg(feature = "tables")]
const READ_OLD_TABLE: Option<ReadOldTable> = Some(storebench_transfer::parquet_rows);
#[cfg(not(feature = "tables"))]
const READ_OLD_TABLE: Option<ReadOldTable> = None;

#[cfg(not(feature = "tables"))]
fn tables(_: &[PathBuf]) -> Result<u8, Failure> {
    Err(Failure::bad_input("this binary was built without Parquet; build with the feature `tables`"))
}

/// Writes the tables of runs as Parquet, into a folder of their own: beside the tables may stand Parquet files in which an
/// older version kept rows that are nowhere else.
#[cfg(feature = "tables")]
fn tables(runs: &[PathBuf]) -> Result<u8, Failure> {
    for run in runs {
        let folder = if run.is_dir() { run.as_path() } else { run.parent().unwrap_or(Path::new("")) };
        // A folder that holds no run is told as such.
        storebench_results::read_run(run).map_err(Failure::bad_input)?;
        let kept: Vec<Table> = Table::ALL.into_iter().filter(|table| folder.join(table.file()).exists()).collect();
        let older = Table::ALL.into_iter().any(|table| folder.join(table.parquet_file()).exists());
        match (kept.is_empty(), older) {
            (true, true) => {
                let what =
                    "an older version kept the tables of this run as Parquet already; they stand beside its run.json";
                return Err(Failure::bad_input(format!("{}: {what}", run.display())));
            }
            (true, false) => return Err(Failure::bad_input(format!("{}: this run has no tables", run.display()))),
            (false, true) => {
                let what =
                    "rows of trials that an older version measured stay in the Parquet files beside its run.json";
                // Whoever reads no stderr still has the files.
                let _ = writeln!(std::io::stderr(), "{}: {what}", run.display());
            }
            (false, false) => {}
        }
        let into = folder.join("parquet");
        let failed = |file: &Path, error: std::io::Error| Failure::spoiled(format!("{}: {error}", file.display()));
        std::fs::create_dir_all(&into).map_err(|error| failed(&into, error))?;
        for table in kept {
            let file = into.join(table.parquet_file());
            // Beside its place, and moved there when it is whole.
            let part = into.join(format!(".{}.new", table.parquet_file()));
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
        let subject = Subject::of(vec![Recorded::open(folder, READ_OLD_TABLE)?]);
        page(&subject, Life::Written)
    };
    let text = made().map_err(|e| e.to_string())?;
    let file = folder.join(PAGE);
    write_text(&file, &text, true).map_err(|failure| failure.message)?;
    Ok(file)
}
