//! `pack RUN`, and `pack --check FILE`.

use std::path::{Path, PathBuf};

use storebench_report::{Life, Recorded, Subject, page};
use storebench_results::bundle::{Content, Input, PackedFile, SigningKey, changed_input, inputs_of, write_bundle};
use storebench_results::human::{bytes, plural};
use storebench_results::{RunResult, is_run_file, read_run};

use super::report::PAGE;
use crate::args::PackArgs;
use crate::bundles::{self, hash_of};
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::outputs::{Output, refuse_existing};
use crate::progress::line;
use crate::studies::{self, Opened};

pub(crate) fn pack(args: &PackArgs) -> Result<u8, Failure> {
    if args.check {
        return check(args);
    }
    let result = read_run(&args.run).map_err(Failure::bad_input)?;
    let name = args.run.display();
    if result.run.interrupted || result.run.ended.is_none() {
        return Err(Failure::bad_input(format!(
            "{name}: the run did not end; finish it with --resume, or run it again"
        )));
    }
    if let Some(part) = result.run.part {
        return Err(Failure::bad_input(format!(
            "{name}: this is part {part} of a run; merge its parts, and pack the result"
        )));
    }
    let folder = if args.run.is_dir() { args.run.clone() } else { args.run.with_file_name("") };
    let folder = folder.canonicalize().map_err(|error| Failure::bad_input(format!("{name}: {error}")))?;
    let output = match (&args.output, folder.file_name()) {
        (Some(file), _) => file.clone(),
        (None, Some(name)) => PathBuf::from(format!("{}.sbz", name.to_string_lossy())),
        (None, None) => return Err(Failure::bad_input("name the bundle with -o FILE")),
    };
    refuse_existing(&output, args.force)?;
    let key = args.sign.as_deref().map(signing_key).transpose()?;
    let opened = opened(&result, &args.run, &folder)?;
    let mut files = run_files(&folder)?;
    let inputs = inputs(&result, &opened, args.with_inputs, &mut files)?;
    let servers: Vec<&str> = opened.study.servers.keys().map(String::as_str).collect();
    if !servers.is_empty() {
        line(&format!(
            "note: the bundle has the commands and variables of the servers {}; passwords in them are only removed as \
             docs/bundles.md says",
            servers.join(", ")
        ));
    }
    let target = Output::create(&output)?;
    let manifest = write_bundle(&target.file, files, inputs, key.as_ref()).map_err(|error| target.discard(&error))?;
    target.keep(args.force)?;
    let size = output.metadata().map_or(0, |found| found.len());
    let files = plural(manifest.files.len() as u64, "file");
    print(&format!("{}  {files}, {}\n", output.display(), bytes(size as f64)))?;
    Ok(0)
}

fn signing_key(file: &Path) -> Result<SigningKey, Failure> {
    let failed = |why: String| Failure::bad_input(format!("--sign {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    SigningKey::from_pem(&text).map_err(failed)
}

/// The study of a run, which must be what its result says was run. Paths in it start where the study was.
fn opened(result: &RunResult, run: &Path, folder: &Path) -> Result<Opened, Failure> {
    let study = folder.join(bundles::STUDY);
    if !study.is_file() {
        let why = "has no study, so it cannot be repeated; runs of studies and of `bench` are packed, copies are not";
        return Err(Failure::bad_input(format!("{}: {why}", run.display())));
    }
    let mut opened = studies::open(&bundles::study_args(result, study), &[])?;
    bundles::refuse_other_study(run, &opened.study, &result.run)?;
    opened.file = result.run.study_file.as_deref().unwrap_or(bundles::STUDY).into();
    Ok(opened)
}

/// The files of a run. Others that a user put into its folder are left out, and named.
fn run_files(folder: &Path) -> Result<Vec<PackedFile>, Failure> {
    let failed = |error: std::io::Error| Failure::bad_input(format!("{}: cannot be read: {error}", folder.display()));
    let mut files = Vec::new();
    let mut left_out = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let plain = entry.file_type().map_err(failed)?.is_file();
        match plain && (is_run_file(&name) || name == PAGE) {
            true => files.push(PackedFile { path: format!("run/{name}"), content: Content::File(entry.path()) }),
            false => left_out.push(name),
        }
    }
    let page_path = format!("run/{PAGE}");
    if files.iter().all(|file| file.path != page_path) {
        let subject = Subject::of(vec![Recorded::open(folder).map_err(Failure::bad_input)?]);
        let text = page(&subject, Life::Written).map_err(Failure::bad_input)?;
        files.push(PackedFile { path: page_path, content: Content::Bytes(text.into_bytes()) });
    }
    if !left_out.is_empty() {
        left_out.sort();
        line(&format!("note: not packed, since a run does not write it: {}", left_out.join(", ")));
    }
    Ok(files)
}

/// The files that the study reads, with their hashes. Adds those that are packed to `files`.
fn inputs(
    result: &RunResult,
    opened: &Opened,
    with_inputs: bool,
    files: &mut Vec<PackedFile>,
) -> Result<Vec<Input>, Failure> {
    let mut inputs = inputs_of(&result.run.study).map_err(|factor| {
        Failure::bad_input(format!(
            "the factor `{factor}` varies which file is read, and a bundle cannot hold that yet"
        ))
    })?;
    let places: Vec<PathBuf> = inputs.iter().map(|input| opened.folder().join(&input.path)).collect();
    if let Some(missing) = places.iter().find(|place| !place.exists()) {
        let missing = missing.display();
        if with_inputs {
            let remedy = "pack in the folder in which the study was run";
            return Err(Failure::bad_input(format!("{missing}: the study reads it, and it is not there; {remedy}")));
        }
        line(&format!("note: {missing} is not there, so the bundle has no hashes of the files that the study reads"));
        return Ok(inputs);
    }
    if !inputs.is_empty() {
        refuse_changed(result, opened)?;
    }
    for (nth, (input, place)) in inputs.iter_mut().zip(places).enumerate() {
        let found = hash_of(&place)?;
        (input.sha256, input.size_bytes) = found.map_or((None, None), |(sha256, size)| (Some(sha256), Some(size)));
        if with_inputs {
            // Its ending may say what it contains.
            let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let path = format!("inputs/{:03}/{name}", nth + 1);
            files.push(PackedFile { path: path.clone(), content: Content::File(place) });
            input.file = Some(path);
        }
    }
    Ok(inputs)
}

/// Refuses files that have changed since the run read them.
fn refuse_changed(result: &RunResult, opened: &Opened) -> Result<(), Failure> {
    let now = serde_json::to_value(opened.first_documents()?.catalog.frozen()).map_err(Failure::spoiled)?;
    match changed_input(&result.run.frozen, &now) {
        None => Ok(()),
        Some(collection) => Err(Failure::bad_input(format!(
            "collections.{collection}: its files have changed since the run read them; restore them, or run the study \
             again and pack that run"
        ))),
    }
}

fn check(args: &PackArgs) -> Result<u8, Failure> {
    let bundle = bundles::open(&args.run, &args.trust)?;
    if args.json {
        print_json(&bundle.manifest)?;
        return Ok(0);
    }
    let files = plural(bundle.manifest.files.len() as u64, "file");
    let run = &bundle.result.run;
    let mut text =
        format!("The content of {} matches its manifest: {files}; {}.\n\n", args.run.display(), bundle.signed);
    text +=
        &format!("study    {}\nbegan    {}\nversion  storebench {}\n", run.title, run.began, run.storebench_version);
    for input in &bundle.manifest.inputs {
        let kept = match (&input.file, &input.sha256) {
            (Some(_), _) => "in the bundle",
            (None, Some(_)) => "only its hash",
            (None, None) => "not known",
        };
        text += &format!("input    {} ({kept})\n", input.path);
    }
    print(&text)?;
    Ok(0)
}
