//! The target of a copy, from its arguments.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use storebench_engine::store::{CopyId, Existing};
use storebench_results::redact_url;
use storebench_stores::meant;
use storebench_transfer::{
    Begin, Columns, FileLocation, FileSink, FileSinkOptions, Format, Packing, RecordOp, Shape, Sink, Source, StoreSink,
    StoreSinkOptions, TheirExpiry, USUAL_BATCH,
};

use super::columns;
use super::ended::Ended;
use super::plan::{Begun, Plan};
use crate::endpoints::Endpoint;
use crate::failure::Failure;

/// How to write into a store.
pub(super) fn store_options(plan: &Plan) -> StoreSinkOptions {
    let args = &plan.args;
    let name = plan.to_collection.clone().unwrap_or_default();
    let paced = args.rate_docs.is_some() || args.rate_bytes.is_some();
    StoreSinkOptions {
        existing: args.into_existing.then(|| Existing {
            name: name.clone(),
            key: args.to_key.clone(),
            body: args.to_body.clone(),
        }),
        verb: args.op,
        by_record: args.records.op_field.is_some(),
        merge: plan.merge.clone(),
        own_members: args.records.own_members,
        expiry: plan.expiry,
        expires: args.records.expiry_field.is_some() || plan.their_expiry == TheirExpiry::Kept,
        // With a rate limit, large batches would cause bursts.
        batch: args.batch.map(|n| n.0.max(1) as usize).or(paced.then_some(USUAL_BATCH)),
        batch_bytes: args.batch_bytes.map(|size| size.bytes().max(1) as usize),
        in_flight: args.in_flight,
        durability: args.durability,
        access: plan.access(),
        may_fail: args.max_errors.0,
        ..StoreSinkOptions::new(name)
    }
}

/// How to write files, without their columns; `None` if the target is a store. Refuses a file that exists.
pub(super) fn file_options(plan: &Plan, begun: &Begun) -> Result<Option<FileSinkOptions>, Ended> {
    let args = &plan.args;
    let place: Option<FileLocation> = match &plan.to {
        Endpoint::Store(url, _) => {
            let Some(flag) = plan.settings.first_of(&["--key-field", "--no-key-field", "--to-format"]) else {
                return Ok(None);
            };
            return Err(Failure::bad_input(format!(
                "{flag} needs a file as its target, and {} is a store; use --key to set the keys",
                redact_url(url)
            ))
            .into());
        }
        Endpoint::Standard => None,
        Endpoint::Files(path) => Some(local_target(Path::new(path))?.into()),
        Endpoint::Remote(url) => Some(FileLocation::of_url(url, &plan.access())?),
    };
    let of_stores = ["--op-field", "--merge", "--own-members", "--expiry", "--expiry-field"];
    let by_verb = format!("--op {}", args.op.name());
    let flag = plan.settings.first_of(&["--into-existing"]).or((args.op != RecordOp::Upsert).then_some(&*by_verb));
    if let Some(flag) = flag.or_else(|| plan.settings.first_of(&of_stores)) {
        return Err(Failure::bad_input(format!("{flag} needs a store: files are always written from scratch")).into());
    }
    let name = place.as_ref().map(FileLocation::to_string).unwrap_or_default();
    let path = place.as_ref().and_then(FileLocation::path);
    let folder = plan.to.files().is_some_and(|typed| typed.ends_with('/')) || path.is_some_and(Path::is_dir);
    // Beside a local target, so that parts can be moved into place. For a remote target, in the copy's folder.
    let parts = path.map_or_else(|| begun.folder.join("parts"), |path| parts_folder(path, folder, &plan.id));
    let packing = if folder { Packing::Plain } else { Packing::of_name(&name) };
    let told = if folder || place.is_none() { Some(Format::Jsonl) } else { Format::told_by(&name) };
    let Some(format) = args.to_format.or(told) else {
        let store = meant(&name).into_iter().next().unwrap_or_else(|| format!("sqlite:{name}"));
        return Err(Failure::bad_input(format!(
            "cannot tell the format of {name} from its name; set it with --to-format, or if it is a store, give its \
             URL, such as `{store}`"
        ))
        .into());
    };
    let (key_field, columns) = (plan.key_field(), Columns::default());
    let (fresh, replace) = (begun.begin != Begin::Resume, args.force);
    let options = FileSinkOptions { place, folder, parts, format, columns, packing, key_field, fresh, replace };
    options.check_target()?;
    Ok(Some(options))
}

/// Opens the target: the files of these options, or else the store. `resumes` is the number of the copy that is resumed.
pub(super) fn sink(
    plan: &Plan,
    files: Option<FileSinkOptions>,
    source: &dyn Source,
    shape: &Shape,
    resumes: Option<CopyId>,
) -> Result<Box<dyn Sink>, Ended> {
    if let Some(mut options) = files {
        if options.format.has_columns() {
            let begun = if options.fresh { None } else { FileSink::columns(&options)? };
            options.columns = match begun {
                Some(columns) => columns,
                None => columns::columns(plan, source, shape, options.format)?,
            };
        }
        return Ok(Box::new(FileSink::open(options)?));
    }
    let Endpoint::Store(_, store) = &plan.to else { return Err(Failure::bad_input("there is no target").into()) };
    let options = StoreSinkOptions { resumes, ..store_options(plan) };
    StoreSink::check(&**store, &options, plan.args.verify)?;
    Ok(Box::new(StoreSink::open(Arc::clone(store), options)?))
}

/// The file that a path leads to, after following a link. Refuses pipes and devices.
fn local_target(path: &Path) -> Result<PathBuf, Failure> {
    let path =
        if path.is_symlink() { path.canonicalize().unwrap_or_else(|_| path.to_owned()) } else { path.to_owned() };
    if path.exists() && !path.is_file() && !path.is_dir() {
        return Err(Failure::bad_input(format!(
            "{} is a pipe or a device and cannot be replaced by a file; write to `-`",
            path.display()
        )));
    }
    Ok(path)
}

fn parts_folder(target: &Path, folder: bool, id: &str) -> PathBuf {
    if folder {
        // Inside the target, because its parent may be on another file system.
        return target.join(format!(".storebench-{id}"));
    }
    let name = target.file_name().and_then(|name| name.to_str()).unwrap_or("out");
    target.with_file_name(format!(".{name}.storebench-{id}"))
}
