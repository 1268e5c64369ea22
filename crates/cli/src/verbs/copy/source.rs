//! The source of a copy, from its arguments.

use std::sync::Arc;

use storebench_engine::Stop;
use storebench_transfer::{
    FileLocation, FileSource, FileSourceOptions, Source, StoreSource, StoreSourceOptions, ViewSource,
};

use super::ended::Ended;
use super::plan::Plan;
use crate::args::CopyArgs;
use crate::endpoints::{Endpoint, Found, find_files, refuse_databases};
use crate::failure::Failure;
use crate::{in_process, stores};

/// The source of a copy.
pub(super) struct Read {
    pub(super) source: Box<dyn Source>,
    /// Whether it is a collection that Storebench did not create.
    pub(super) theirs: bool,
    /// The approximate size as text.
    pub(super) bytes: Option<u64>,
    /// Fields that folders name.
    pub(super) partitions: Vec<String>,
}

/// Opens the source.
///
/// # Errors
/// It cannot be opened, or a flag does not apply to it.
pub(super) fn source(plan: &Plan, stop: &Arc<Stop>) -> Result<Read, Ended> {
    let args = &plan.args;
    let is_store = matches!(plan.from, Endpoint::Store(..));
    let idle: &[&str] = if is_store {
        &["--from-format", "--types", "--delimiter", "--escapes", "--no-partitions"]
    } else {
        &["--from-collection", "--from-key", "--from-body", "--query", "--view"]
    };
    let of_stores = plan.settings.first_of(&["--drop-expiry", "--drop-attachments"]).filter(|_| !is_store);
    if let Some(flag) = plan.settings.first_of(idle).or(of_stores) {
        let from = &args.from;
        return Err(Failure::bad_input(match flag {
            _ if is_store => format!("{flag} needs a file as its source, and {from} is not one"),
            _ if of_stores == Some(flag) => format!("{flag} needs a store as its source, and {from} is not one"),
            _ => format!("{flag} needs a store, and {from} is not one"),
        })
        .into());
    }
    let of_files = |source: FileSource| {
        let (bytes, partitions) = (source.text_bytes(), source.partitions().to_vec());
        Ok(Read { source: Box::new(source), theirs: false, bytes, partitions })
    };
    match &plan.from {
        Endpoint::Standard => match in_process::provided(|provided| provided.input.take()) {
            Some(input) => of_files(FileSource::stream("the input", input, file_options(args, 0))?),
            None => of_files(FileSource::stdin(file_options(args, 0), Arc::clone(stop))?),
        },
        Endpoint::Files(pattern) => {
            let Found { files, left_out } = find_files(pattern)?;
            refuse_databases(&files)?;
            of_files(FileSource::open(&files, file_options(args, left_out))?)
        }
        Endpoint::Remote(url) => {
            let (files, left_out) = FileLocation::find_counted(url, &plan.access())?;
            of_files(FileSource::open(&files, file_options(args, left_out))?)
        }
        Endpoint::Store(url, store) => {
            let options = StoreSourceOptions {
                key: args.from_key.clone(),
                body: args.from_body.clone(),
                view: args.view.clone().map(|view| ViewSource { view, keys: args.keys.clone() }),
                query: args.query.clone(),
                makes_keys: args.records.key.is_some(),
                expiry: plan.their_expiry,
                drop_attachments: args.drop_attachments,
                access: plan.access(),
                // Without a collection, the source is a query.
                ..StoreSourceOptions::new(args.from_collection.clone().unwrap_or_default())
            };
            let source = StoreSource::open(stores::to_read(url, Arc::clone(store))?, options)?;
            Ok(Read { theirs: source.is_theirs(), source: Box::new(source), bytes: None, partitions: Vec::new() })
        }
    }
}

fn file_options(args: &CopyArgs, left_out: u64) -> FileSourceOptions {
    let types = args.types.clone().unwrap_or_default();
    let (delimiter, partitions) = (args.delimiter, !args.no_partitions);
    FileSourceOptions { format: args.from_format, types, delimiter, escapes: args.escapes, partitions, left_out }
}
