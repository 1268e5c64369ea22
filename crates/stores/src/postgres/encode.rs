//! Operations as requests: the statement of each, and its parameters.

use storebench_engine::store::{Batch, ErrorKind, Op, OpError, OpKind, Request};
use storebench_study::workload::Body;

use super::flow::What;
use super::sql::Table;
use super::wire::{self, Bind, LARGEST_BYTES, oid};
use crate::document::{counter, wrong_collection};
use crate::refusals::{check_fits, refused};

/// A query whose limit is part of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum List {
    From(u32),
    Between(u32),
    Page(String, u32),
}

/// A collection: its table, and the numbers of its statements.
pub(super) struct Collection {
    pub(super) table: Table,
    /// By the kind of operation.
    pub(super) statements: [Option<usize>; OpKind::ALL.len()],
    /// The `COPY` of bulk inserts.
    pub(super) copy: Option<usize>,
    pub(super) lists: Vec<(List, usize)>,
}

impl Collection {
    /// Appends a request that is one statement. Returns the meaning of its answer.
    pub(super) fn encode(&self, request: &Request<'_>, bytes: &mut Vec<u8>) -> Result<What, OpError> {
        let (jsonb, contents, kind) = (self.table.jsonb, request.contents, request.op.kind());
        let statement = || self.statements[kind as usize].ok_or_else(|| misfit(kind, &self.table));
        Ok(match request.op {
            Op::Insert { key, body }
            | Op::Upsert { key, body }
            | Op::Replace { key, body }
            | Op::Append { key, bytes: body }
            | Op::Prepend { key, bytes: body } => {
                check_size(body.len())?;
                self.body(Bind::new(bytes, statement()?, 2).bytes(key.as_bytes()), body)?.run();
                What::Write
            }
            Op::MergePatch { key, patch } => {
                check_size(patch.len())?;
                Bind::new(bytes, statement()?, 2).bytes(key.as_bytes()).json(patch).run();
                What::Write
            }
            Op::Read { key } | Op::Exists { key } | Op::Delete { key } => {
                Bind::new(bytes, statement()?, 1).bytes(key.as_bytes()).run();
                match kind {
                    OpKind::Read => What::Read { contents, jsonb },
                    OpKind::Exists => What::Exists,
                    _ => What::Write,
                }
            }
            Op::Counter { key, delta, initial } => {
                let bind = Bind::new(bytes, statement()?, 3).bytes(key.as_bytes());
                bind.bytes(&initial.to_be_bytes()).bytes(&delta.to_be_bytes()).run();
                What::Counter
            }
            Op::CompareAndSwap { key, expected, body } => {
                check_size(body.len())?;
                let bind = Bind::new(bytes, statement()?, 3).bytes(key.as_bytes());
                // No row has the transaction ID 0, so an invalid revision matches none.
                self.body(bind, body)?.bytes(if expected.len() == 4 { expected } else { &[0; 4] }).run();
                What::Swap
            }
            Op::BulkRead { keys } => {
                many_keys(bytes, statement()?, keys)?;
                What::Rows { contents, jsonb }
            }
            Op::BulkDelete { keys } => {
                many_keys(bytes, statement()?, keys)?;
                What::Count
            }
            _ => return Err(OpError::unsupported()),
        })
    }

    fn body<'a>(&self, bind: Bind<'a>, body: &[u8]) -> Result<Bind<'a>, OpError> {
        Ok(match self.table.given.body {
            Body::Json => bind.json(body),
            Body::Bytes => bind.bytes(body),
            Body::Counter => bind.bytes(&counter(body)?.to_be_bytes()),
        })
    }
}

fn many_keys(out: &mut Vec<u8>, statement: usize, keys: Batch<'_>) -> Result<(), OpError> {
    check_size(keys.total_bytes() + 4 * keys.len())?;
    let elements = |out: &mut Vec<u8>| keys.iter().for_each(|(key, _)| wire::put(out, key.as_bytes()));
    Bind::new(out, statement, 1).array(oid::TEXT, keys.len(), elements).run();
    Ok(())
}

pub(super) fn put_body(out: &mut Vec<u8>, kind: Body, body: &[u8]) -> Result<(), OpError> {
    check_size(body.len())?;
    match kind {
        Body::Json => wire::put_json(out, body),
        Body::Bytes => wire::put(out, body),
        Body::Counter => wire::put(out, &counter(body)?.to_be_bytes()),
    }
    Ok(())
}

pub(super) fn check_size(bytes: usize) -> Result<(), OpError> {
    if bytes <= LARGEST_BYTES {
        return Ok(());
    }
    Err(refused(format!("{bytes} bytes exceed PostgreSQL's limit for one message (1 GiB); make the document smaller")))
}

/// Why an operation does not fit a table.
pub(super) fn misfit(kind: OpKind, table: &Table) -> OpError {
    if let Err(error) = check_fits(kind, table.body) {
        return error;
    }
    match kind {
        OpKind::MergePatch if !table.read_only => OpError::new(
            ErrorKind::Failed,
            "merging into your table needs a function in the session's temporary schema; grant this user \
             TEMPORARY on the database",
        ),
        OpKind::CompareAndSwap if !table.read_only => {
            wrong_collection("compare-and-swap needs a table that Storebench made")
        }
        _ if !table.read_only => {
            if let Some(computed) = table.theirs.as_ref().and_then(|theirs| theirs.computed.as_ref()) {
                let text = format!(
                    "cannot insert into {}: its column {computed} is GENERATED ALWAYS AS IDENTITY, so the server accepts no \
                     key; add ?identity=given to the URL to override that, change existing rows with --op replace, merge or \
                     delete, or make it GENERATED BY DEFAULT",
                    table.place
                );
                return OpError::new(ErrorKind::Failed, text);
            }
            let columns = table.theirs.as_ref().map(|theirs| theirs.mandatory.join(", ")).unwrap_or_default();
            let text = format!(
                "cannot insert into {}: its columns {columns} need values and have no defaults; give them \
                 defaults, or change existing rows with --op replace or --op merge",
                table.place
            );
            OpError::new(ErrorKind::Failed, text)
        }
        _ => wrong_collection("this collection was opened for reading only"),
    }
}
