//! `report RUN…`, and the page that every run leaves.

use std::path::{Path, PathBuf};

use storebench_report::{Life, Recorded, ReportError, Subject, markdown, page};

use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::output::print;

/// The name of a run's own page.
pub(super) const PAGE: &str = "report.html";

pub(crate) fn report(args: &ReportArgs) -> Result<u8, Failure> {
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
        (None, _) => return Err(Failure::bad_input("several runs make one page; name its file with -o FILE")),
    };
    let text = page(&subject, Life::Written).map_err(Failure::bad_input)?;
    if file.as_os_str() == "-" {
        print(&text)?;
        return Ok(0);
    }
    write(&file, &text).map_err(|e| {
        Failure::spoiled(format!("{}: cannot be written: {e}; free space or give another file with -o", file.display()))
    })?;
    print(&format!("{}\n", file.display()))?;
    Ok(0)
}

/// Writes the page of a run into its folder; gives its path.
pub(super) fn write_page(folder: &Path) -> Result<PathBuf, String> {
    let made = || -> Result<String, ReportError> {
        let subject = Subject::of(vec![Recorded::open(folder)?]);
        page(&subject, Life::Written)
    };
    let text = made().map_err(|e| e.to_string())?;
    let file = folder.join(PAGE);
    write(&file, &text).map_err(|e| format!("{}: cannot be written: {e}", file.display()))?;
    Ok(file)
}

/// Beside its place, then moved there: nobody reads a part.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let beside = file.with_file_name(format!(".{name}.{}", std::process::id()));
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file)).inspect_err(|_| {
        // Only tidies up; the error that matters is the first one.
        let _ = std::fs::remove_file(&beside);
    })
}
