//! `report RUN…`, and the page that every run leaves.

use std::path::{Path, PathBuf};

use storebench_report::{Life, Recorded, ReportError, Subject, markdown, page};

use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::outputs::{refuse_existing, write_text};

/// The name of a run's own page.
pub(super) const PAGE: &str = "report.html";

pub(crate) fn report(args: &ReportArgs) -> Result<u8, Failure> {
    if let Some(file) = args.output.as_ref().filter(|file| file.as_os_str() != "-") {
        refuse_existing(file, args.force)?;
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
