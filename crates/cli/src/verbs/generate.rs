//! `generate STUDY`: writes documents as JSON lines.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use storebench_documents::Documents;

use crate::args::GenerateArgs;
use crate::failure::{Failure, no_such};
use crate::jsonl::{Keys, LinesError, write_lines};
use crate::output::quiet_pipe;
use crate::outputs::{Output, refuse_existing};
use crate::{processors, studies};

pub(crate) fn generate(args: &GenerateArgs) -> Result<u8, Failure> {
    if let Some(file) = &args.output {
        refuse_existing(file, args.force)?;
    }
    let opened = studies::open(&args.study, &[])?;
    let documents = opened.documents()?;
    let catalog = &documents.catalog;
    let all: Vec<&Documents> = catalog.iter().collect();
    let wanted = match &args.collections[..] {
        [] => all,
        names => names.iter().map(|name| find(&all, name)).collect::<Result<_, _>>()?,
    };
    if let Some(theirs) = wanted.iter().find(|documents| documents.is_existing()) {
        return Err(Failure::bad_input(format!(
            "nothing to generate for `{}`: its documents are already in the store (`existing`); name other collections",
            theirs.name()
        )));
    }
    let keys = if args.keys { Keys::Beside } else { Keys::Left };
    let jobs = args.jobs.unwrap_or_else(processors);
    let write = |out: &mut dyn Write| -> Result<(), LinesError> {
        let mut out = out;
        for documents in &wanted {
            let from = args.from.0.min(documents.count());
            let to = args.count.map_or(documents.count(), |n| from.saturating_add(n.0).min(documents.count()));
            write_lines(documents, from..to, args.version, keys, jobs, &mut out)?;
        }
        Ok(out.flush()?)
    };
    match &args.output {
        Some(file) => whole_file(file, args.force, write)?,
        None => match write(&mut io::stdout().lock()) {
            Ok(()) => {}
            Err(LinesError::Write(e)) => quiet_pipe(Err(e))?,
            Err(LinesError::Lost(message)) => return Err(Failure::spoiled(message)),
        },
    }
    Ok(0)
}

fn find<'a>(all: &[&'a Documents], name: &str) -> Result<&'a Documents, Failure> {
    let found = all.iter().find(|d| d.name() == name).copied();
    found.ok_or_else(|| Failure::bad_input(no_such("collection", name, all.iter().map(|d| d.name()))))
}

/// Writes to a temporary file beside the target and renames it, so that no incomplete file appears.
fn whole_file(
    file: &Path,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<(), LinesError>,
) -> Result<(), Failure> {
    let output = Output::create(file)?;
    let mut out = BufWriter::with_capacity(1 << 20, &output.file);
    let written = write(&mut out).and_then(|()| Ok(out.flush()?));
    drop(out);
    match written {
        Ok(()) => output.keep(force),
        // The output is a pipe that its reader has closed.
        Err(LinesError::Write(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(LinesError::Write(e)) => Err(output.discard(&e)),
        Err(LinesError::Lost(message)) => {
            let _ = output.discard(&io::ErrorKind::Other.into());
            Err(Failure::spoiled(message))
        }
    }
}
