//! Bundles as the verbs open them.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::Value;
use storebench_results::bundle::{Bundle, BundleError, Signed, public_key, sha256_of};
use storebench_results::{RunInfo, RunResult, Secrets};
use storebench_study::workload::{Stores, Study};

use crate::args::{StudyArgs, TrustArgs};
use crate::failure::Failure;

/// The study file of a run.
pub(crate) const STUDY: &str = "study.toml";

/// Opens a bundle and checks it, and who signed it.
pub(crate) fn open(path: &Path, args: &TrustArgs) -> Result<Bundle, Failure> {
    let trusted = trusted(args)?;
    let bundle = Bundle::open(path).map_err(Failure::bad_input)?;
    match untrusted(&bundle, trusted.as_deref()) {
        Some(why) => Err(Failure::bad_input(format!("{}: {why}", path.display()))),
        None => Ok(bundle),
    }
}

/// The public key of `--trust`, from its text or its file.
pub(crate) fn trusted(args: &TrustArgs) -> Result<Option<String>, Failure> {
    let Some(given) = &args.trust else { return Ok(None) };
    // Only the name of a file is shown: a text may be a private key that was given by mistake.
    let (text, what) = match Path::new(given).is_file() {
        true => {
            let what = format!("--trust {given}");
            (std::fs::read_to_string(given).map_err(|error| Failure::bad_input(format!("{what}: {error}")))?, what)
        }
        false => (given.clone(), "--trust".to_owned()),
    };
    public_key(&text).map(Some).map_err(|why| Failure::bad_input(format!("{what}: {why}")))
}

/// Why a bundle is not to be trusted, if a public key is demanded.
pub(crate) fn untrusted(bundle: &Bundle, trusted: Option<&str>) -> Option<String> {
    let trusted = trusted?;
    match &bundle.signed {
        Signed::By(key) if key == trusted => None,
        other => Some(format!("{other}, and --trust demands {trusted}")),
    }
}

/// The public key that signed it, if that was checked.
pub(crate) fn signer(bundle: &Bundle) -> Option<String> {
    match &bundle.signed {
        Signed::By(key) => Some(key.clone()),
        Signed::No | Signed::Unchecked(_) => None,
    }
}

/// The SHA-256 and the size of a file; `None` if it is not there.
pub(crate) fn hash_of(path: &Path) -> Result<Option<(String, u64)>, Failure> {
    let failed = |error: std::io::Error| Failure::bad_input(format!("{}: cannot be read: {error}", path.display()));
    match File::open(path) {
        Ok(file) => sha256_of(file).map(Some).map_err(failed),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// An error of a bundle that was opened before: its folder cannot be written.
pub(crate) fn unpacked(result: Result<(), BundleError>) -> Result<(), Failure> {
    result.map_err(Failure::spoiled)
}

/// The bundles in a folder, in the order of their names.
pub(crate) fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error| Failure::bad_input(format!("{}: cannot be read: {error}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let is_bundle = |path: &PathBuf| path.extension().is_some_and(|end| end == "sbz") && path.is_file();
    let mut bundles: Vec<PathBuf> = paths.into_iter().filter(is_bundle).collect();
    bundles.sort();
    match bundles.is_empty() {
        true => Err(Failure::bad_input(format!(
            "{}: there is no bundle (*.sbz); make one with `storebench pack RUN`",
            folder.display()
        ))),
        false => Ok(bundles),
    }
}

/// The arguments with which a run opened its study, which is in this file now.
pub(crate) fn study_args(result: &RunResult, study: PathBuf) -> StudyArgs {
    let run = &result.run;
    let (preset, overrides) = match run.overrides.split_first() {
        Some((first, others)) if first.starts_with("preset=") => {
            (Some(first["preset=".len()..].to_owned()), others.to_vec())
        }
        _ => (None, run.overrides.clone()),
    };
    // A result has the scale of its first configuration, which a factor may multiply.
    let factor = run.study["factors"]["scale"][0].as_f64().filter(|factor| *factor > 0.0);
    StudyArgs { study, preset, overrides, scale: Some(run.scale / factor.unwrap_or(1.0)) }
}

/// The study of a result.
pub(crate) fn study_of(run: &RunInfo) -> Result<Study, Failure> {
    read_back(run.study.clone(), run)
}

fn read_back(study: Value, run: &RunInfo) -> Result<Study, Failure> {
    serde_json::from_value(study).map_err(|error| {
        let version = &run.storebench_version;
        Failure::bad_input(format!("the study of the run cannot be read: {error}; use storebench {version}"))
    })
}

/// Refuses a study that is not the one whose result this is, whatever its stores: what is repeated must be what the result
/// says. `what` names the bundle or the run.
pub(crate) fn refuse_other_study(what: &Path, opened: &Study, run: &RunInfo) -> Result<(), Failure> {
    // Of both sides what this version reads back from a result, without what changes no work.
    let parts = |study: Value| {
        let (title, question, stores) = (String::new(), None, Stores::default());
        let study = Study { title, question, stores, ..read_back(study, run)? };
        serde_json::to_value(study).map_err(Failure::spoiled)
    };
    let mut opened = serde_json::to_value(opened).map_err(Failure::spoiled)?;
    Secrets::default().hide_value(&mut opened);
    let (there, here) = (parts(run.study.clone())?, parts(opened)?);
    let mut keys = [&there, &here].into_iter().filter_map(Value::as_object).flat_map(|of| of.keys());
    match keys.find(|key| there.get(key.as_str()) != here.get(key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Failure::bad_input(format!(
            "{}: `{key}` of {STUDY} with the overrides is not what run.json says was run, so the run cannot be repeated: \
             it had --keep, a file was changed, or version {} of Storebench reads the study differently",
            what.display(),
            run.storebench_version
        ))),
    }
}
