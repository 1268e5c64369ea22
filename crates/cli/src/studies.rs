//! A study and its documents, read from the file that was named.

use std::path::{Path, PathBuf};

use storebench_core::workload::{Study, StudyErrors};
use storebench_lab::run::{Compiled, LabError, compile_documents};

use crate::args::StudyArgs;
use crate::failure::{BAD_INPUT, Failure};

/// A study as it will be run.
pub(crate) struct Opened {
    /// Overrides applied.
    pub(crate) study: Study,
    /// The text as given, without overrides.
    pub(crate) text: String,
    /// The file it came from.
    pub(crate) file: PathBuf,
    pub(crate) overrides: Vec<String>,
    pub(crate) scale: f64,
    pub(crate) documents: Compiled,
}

/// Reads, checks and compiles. Relative paths in a study begin where its file is.
pub(crate) fn open(args: &StudyArgs) -> Result<Opened, Failure> {
    let study = Study::read(&args.study, &args.overrides)?;
    // Read a second time for the text alone: the first reading words every failure.
    let text = std::fs::read_to_string(&args.study)
        .map_err(|e| Failure::bad_input(format!("{}: cannot be read: {e}", args.study.display())))?;
    let base = args.study.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let documents = compile(&study, args.scale, base, Some((&text, &args.study)))?;
    Ok(Opened {
        study,
        text,
        file: args.study.clone(),
        overrides: args.overrides.clone(),
        scale: args.scale,
        documents,
    })
}

/// Compiles documents; faults are shown at their line where the study has a file.
pub(crate) fn compile(
    study: &Study,
    scale: f64,
    base: &Path,
    source: Option<(&str, &Path)>,
) -> Result<Compiled, Failure> {
    compile_documents(study, scale, base, None).map_err(|error| match (error, source) {
        (LabError::Documents(error), Some((text, file))) => {
            let errors: StudyErrors = Study::error_at(text, file, &error.path, error.message);
            errors.into()
        }
        (error, _) => Failure { code: BAD_INPUT, message: error.to_string() },
    })
}
