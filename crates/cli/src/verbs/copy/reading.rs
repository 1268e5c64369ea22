//! Documents for a caller that reads them itself.

use std::sync::Arc;

use clap::Parser as _;
use storebench_transfer::{Columns, Format, Shape, Source, Split, TransferError, name_of};

use super::ended::Ended;
use super::plan::Plan;
use super::source::source;
use super::{columns, records};
use crate::allocator::keep_freed_memory;
use crate::args::{Args, CopyArgs, Verb};
use crate::failure::Failure;
use crate::in_process::{Outcome, of_clap};

/// The documents of a store or of files, as `copy` reads them.
pub struct Reading {
    source: Box<dyn Source>,
    shape: Shape,
    plan: Plan,
}

impl Reading {
    /// Opens a source. `options` are those of `copy`.
    ///
    /// # Errors
    /// The message and the exit code of `copy`.
    pub fn open(from: &str, options: &[String]) -> Result<Self, Outcome> {
        keep_freed_memory();
        let words = ["storebench", "copy", from, "-"].into_iter().chain(options.iter().map(String::as_str));
        let args = match Args::try_parse_from(words) {
            Ok(Args { verb: Verb::Copy(args), .. }) => args,
            Ok(_) => return Err(Failure::bad_input("these are not options of copy").into()),
            Err(error) => return Err(Failure::bad_input(of_clap(&error.to_string())).into()),
        };
        let found = (|| {
            let plan = Plan::of(CopyArgs::clone(&args))?;
            // The same in every process, unlike the id, which depends on the working folder.
            let name = name_of(&format!("{:?}", plan.settings.0));
            let shape = records::shape(&args.records, &name)?;
            let source = source(&plan, &Arc::default())?.source;
            Ok(Self { source, shape, plan })
        })();
        found.map_err(|ended: Ended| ended.failure(&args).into())
    }

    /// The source.
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// How each record is transformed.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The collection that is read, if the source has collections.
    pub fn collection(&self) -> Option<&str> {
        self.plan.args.from_collection.as_deref()
    }

    /// The number of workers that were asked for, or the number of processors.
    pub fn parallel(&self) -> u32 {
        self.plan.parallel
    }

    /// The field that holds the key.
    pub fn key_field(&self) -> Option<String> {
        self.plan.key_field()
    }

    /// The parts of the source.
    ///
    /// # Errors
    /// The source fails.
    pub fn splits(&self) -> Result<Vec<Split>, Outcome> {
        self.source.splits(self.plan.parallel).map_err(|error| self.failed(error))
    }

    /// The columns of the documents, inferred from a sample unless they are given.
    ///
    /// # Errors
    /// The source fails, or the columns that were given are invalid.
    pub fn columns(&self) -> Result<Columns, Outcome> {
        columns::columns(&self.plan, &*self.source, &self.shape, Format::Parquet).map_err(|error| self.failed(error))
    }

    /// The message and the exit code of an error.
    pub fn failed(&self, error: TransferError) -> Outcome {
        Ended::Transfer(error).failure(&self.plan.args).into()
    }
}
