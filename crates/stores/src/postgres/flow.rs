//! The meaning of the answers on a connection. This module does no I/O.

use std::collections::HashMap;

use storebench_engine::store::{BatchBuf, Completions, ErrorKind, OpError, OpKind, Reply, Token};

use super::bulk::Bulk;
use super::channel::Lost;
use super::errors::op_error;
use super::study_queries;
use super::transaction;
use super::wire::{self, Columns, ServerError};
use crate::document::{CHANGED, nothing_written};
use crate::net::lost;
use crate::study_queries::Column;

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// At most one row: revision and document.
    Read { contents: bool, jsonb: bool },
    /// At most one row.
    Exists,
    /// One row written, or none if there is no document.
    Write,
    /// As many rows as were affected.
    Count,
    /// One row: the new value.
    Counter,
    /// No row if there is no document. Otherwise the new revision, or NULL if the expected one did not match.
    Swap,
    /// Rows of key and document.
    Rows { contents: bool, jsonb: bool },
    /// Rows of the query that is the statement with this number.
    Query { contents: bool, statement: usize },
    /// A part of the bulk write in this place.
    Bulk(usize),
    /// The preparation of the statement with this number.
    Prepare(usize),
}

/// One request in flight. It ends with a ReadyForQuery: only then is its transaction committed.
#[derive(Debug)]
pub(crate) struct Entry {
    /// `None` once it has completed or was abandoned.
    pub(super) token: Option<Token>,
    pub(super) op: OpKind,
    pub(super) what: What,
    /// Whether it belongs to the session's transaction.
    pub(super) in_transaction: bool,
}

/// What has arrived of the answer to the first entry.
#[derive(Debug, Default)]
struct Answer {
    rows: u32,
    bytes: u64,
    affected: u64,
    number: Option<i64>,
    revision: Option<[u8; 4]>,
    error: Option<ServerError>,
    warning: Option<ServerError>,
}

/// What the session must do after the end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// Send the next part of this bulk write, or end it.
    Bulk(usize),
    /// Remember that this statement could not be prepared.
    Unprepared(usize),
}

/// What has arrived of the answer to the first request in flight, and the bulk writes among the requests.
#[derive(Default)]
pub(super) struct Flow {
    answer: Answer,
    batch: BatchBuf,
    /// The columns of queries, by the number of their statement.
    columns: HashMap<usize, Vec<Column>>,
    scratch: Vec<u8>,
    pub(super) bulks: Vec<Bulk>,
    pub(super) free_bulks: Vec<usize>,
    /// How often a bulk write was cut in two.
    pub(super) splits: u64,
    /// Whether a commit waits for standbys. A warning then says that it did not.
    waits_for_standbys: bool,
    /// Why a statement could not be prepared. Its users would otherwise only learn that it does not exist.
    prepare_error: Option<ServerError>,
}

impl Flow {
    /// A flow with nothing in flight.
    pub(super) fn new(waits_for_standbys: bool) -> Self {
        Self { waits_for_standbys, ..Self::default() }
    }

    /// Whether the server has described the rows of the statement with this number.
    pub(super) fn knows_rows(&self, statement: usize) -> bool {
        self.columns.contains_key(&statement)
    }

    /// A place for a bulk write.
    pub(super) fn take_bulk(&mut self) -> usize {
        self.free_bulks.pop().unwrap_or_else(|| {
            self.bulks.push(Bulk::default());
            self.bulks.len() - 1
        })
    }

    /// Takes one message of the answer to the first request in flight. Returns whether that request has ended.
    pub(super) fn message(
        &mut self,
        entry: Option<&mut Entry>,
        tag: u8,
        body: &[u8],
        out: &mut dyn Completions,
    ) -> Result<bool, Lost> {
        match tag {
            b'D' => self.row(entry.ok_or(wire::Garbled)?, body, out)?,
            // COMMIT of a transaction that has failed is answered by ROLLBACK, without an error.
            b'C' if entry.as_ref().is_some_and(|entry| entry.in_transaction && entry.op == OpKind::Transaction) => {
                self.answer.affected = u64::from(body.starts_with(b"COMMIT"));
            }
            b'C' => self.answer.affected = wire::affected(body),
            b'Z' => return entry.map(|_| true).ok_or_else(|| wire::Garbled.into()),
            b'E' => {
                let error = ServerError::read(body);
                if error.ends_connection() {
                    return Err(Lost(error.to_string()));
                }
                self.answer.error.get_or_insert(error);
            }
            b'N' => {
                let notice = ServerError::read(body);
                if notice.severity == "WARNING" {
                    self.answer.warning.get_or_insert(notice);
                }
            }
            b'T' => {
                if let Some(Entry { what: What::Prepare(statement), .. }) = entry {
                    self.columns.insert(*statement, study_queries::columns(body)?);
                }
            }
            // Parameters and notifications may arrive at any time. The other messages carry no information.
            b'S' | b'A' | b'1' | b'2' | b'3' | b'G' | b'I' | b't' | b'n' | b's' => {}
            _ => return Err(wire::Garbled.into()),
        }
        Ok(false)
    }

    fn row(&mut self, entry: &mut Entry, body: &[u8], out: &mut dyn Completions) -> Result<(), Lost> {
        let mut columns = Columns::of(body)?;
        self.answer.rows += 1;
        match entry.what {
            What::Read { contents, jsonb } => {
                let revision = columns.next()?;
                let document = document(columns.value()?, jsonb)?;
                // Nothing that arrives later changes what was read, so complete now, without a copy.
                if let Some(token) = entry.token.take() {
                    let reply = Reply {
                        documents: 1,
                        bytes: document.len() as u64,
                        body: contents.then_some(document),
                        revision,
                        ..Reply::default()
                    };
                    out.complete(token, Ok(reply));
                }
            }
            What::Rows { contents, jsonb } => {
                let key = std::str::from_utf8(columns.value()?).map_err(|_| wire::Garbled)?;
                let document = document(columns.value()?, jsonb)?;
                self.answer.bytes += document.len() as u64;
                if contents && entry.token.is_some() {
                    if self.answer.rows == 1 {
                        self.batch.clear();
                    }
                    self.batch.push(key, document);
                }
            }
            What::Query { contents, statement } => {
                let values = Columns::of(body)?;
                while !columns.is_empty() {
                    self.answer.bytes += columns.next()?.map_or(0, <[u8]>::len) as u64;
                }
                if contents && entry.token.is_some() {
                    if self.answer.rows == 1 {
                        self.batch.clear();
                    }
                    self.scratch.clear();
                    let known = self.columns.get(&statement).ok_or(wire::Garbled)?;
                    study_queries::push_row(known, values, &mut self.scratch)?;
                    self.batch.push("", &self.scratch);
                }
            }
            What::Counter => {
                let value = columns.value()?.try_into().map_err(|_| wire::Garbled)?;
                self.answer.number = Some(i64::from_be_bytes(value));
            }
            What::Swap => {
                self.answer.revision = columns.next()?.and_then(|revision| revision.try_into().ok());
            }
            What::Bulk(place) => self.bulks[place].is_new(columns.value()?),
            What::Exists | What::Write | What::Count | What::Prepare(_) => {}
        }
        Ok(())
    }

    /// Ends the first request.
    pub(super) fn end(&mut self, entry: &Entry, out: &mut dyn Completions) -> Next {
        let answer = std::mem::take(&mut self.answer);
        match entry.what {
            What::Bulk(place) => {
                let meaning = self.answer_error(&answer, entry);
                let ended = match (meaning, &answer.error) {
                    (None, _) => {
                        self.bulks[place].part_done(answer.affected);
                        None
                    }
                    (Some(meaning), Some(error)) => self.bulks[place].part_failed(error, meaning, &mut self.splits),
                    (meaning, None) => meaning,
                };
                return match ended {
                    None => Next::Bulk(place),
                    error => {
                        self.end_bulk(place, error, out);
                        Next::Nothing
                    }
                };
            }
            What::Prepare(statement) => {
                if let Some(error) = answer.error {
                    self.prepare_error = Some(error);
                    return Next::Unprepared(statement);
                }
                return Next::Nothing;
            }
            _ => {}
        }
        let Some(token) = entry.token else {
            // A read has completed with its row. An error that came later fails its transaction.
            if let Some(error) = self.answer_error(&answer, entry).filter(|_| entry.in_transaction) {
                out.complete(transaction::OWN, Err(error));
            }
            return Next::Nothing;
        };
        let result = match self.answer_error(&answer, entry) {
            Some(error) => Err(error),
            None => self.reply(entry, &answer),
        };
        out.complete(token, result);
        Next::Nothing
    }

    /// The error in an answer, if there is one.
    fn answer_error(&self, answer: &Answer, entry: &Entry) -> Option<OpError> {
        match (&answer.error, &answer.warning) {
            // No such prepared statement.
            (Some(error), _) if error.code == "26000" => Some(op_error(self.prepare_error.as_ref().unwrap_or(error))),
            // Serialization failures and deadlocks.
            (Some(error), _) if entry.in_transaction && error.code.starts_with("40") => {
                Some(OpError { kind: ErrorKind::Aborted, ..op_error(error) })
            }
            (Some(error), _) => Some(op_error(error)),
            // The wait for the standbys was canceled: the write is committed here, and acknowledged nowhere else.
            (None, Some(warning)) if self.waits_for_standbys && entry.op.writes() => {
                Some(OpError::new(ErrorKind::OutcomeUnknown, warning.to_string()))
            }
            _ => None,
        }
    }

    fn reply<'s>(&'s self, entry: &Entry, answer: &'s Answer) -> Result<Reply<'s>, OpError> {
        let done = |affected: u64| Reply::written(usize::try_from(affected).unwrap_or(usize::MAX));
        match entry.what {
            What::Read { .. } => Err(OpError::not_found()),
            What::Exists => Ok(done(u64::from(answer.rows))),
            What::Count => Ok(done(answer.affected)),
            What::Write if answer.affected > 0 => Ok(done(1)),
            What::Write => Err(nothing_written(entry.op)),
            What::Counter if answer.affected == 0 => Err(nothing_written(entry.op)),
            What::Counter => Ok(Reply { counter: answer.number, ..done(1) }),
            What::Swap => match &answer.revision {
                _ if answer.rows == 0 => Err(OpError::not_found()),
                None => Err(CHANGED),
                Some(revision) => Ok(Reply { revision: Some(revision), ..done(1) }),
            },
            What::Rows { contents, .. } | What::Query { contents, .. } => Ok(Reply {
                documents: answer.rows,
                bytes: answer.bytes,
                rows: contents.then(|| if answer.rows == 0 { Default::default() } else { self.batch.as_batch() }),
                ..Reply::default()
            }),
            What::Bulk(_) | What::Prepare(_) => Err(OpError::unsupported()),
        }
    }

    /// Ends a bulk write, with this error or with the result of its parts.
    pub(super) fn end_bulk(&mut self, place: usize, error: Option<OpError>, out: &mut dyn Completions) {
        self.free_bulks.push(place);
        let bulk = &mut self.bulks[place];
        let Some(token) = bulk.token.take() else { return };
        match error {
            Some(error) => out.complete(token, Err(error)),
            None => {
                let reply = Reply { documents: bulk.written, rejects: &bulk.rejects, ..Reply::default() };
                out.complete(token, Ok(reply));
            }
        }
    }

    /// Abandons an operation. Its answer is dropped when it arrives.
    pub(super) fn abandon<'e>(&mut self, mut entries: impl Iterator<Item = &'e mut Entry>, token: Token) {
        let bulks = &mut self.bulks;
        let of = |entry: &&mut Entry| match entry.what {
            What::Bulk(place) => bulks[place].token == Some(token),
            _ => entry.token == Some(token),
        };
        match entries.find(of) {
            Some(Entry { what: What::Bulk(place), .. }) => self.bulks[*place].token = None,
            Some(entry) => entry.token = None,
            None => {}
        }
    }

    /// Ends everything in flight after the connection broke, except the session's transaction. Each entry comes with
    /// whether any of it was sent. Returns whether any of the last message of the transaction was.
    pub(super) fn lose(
        &mut self,
        entries: impl Iterator<Item = (Entry, bool)>,
        why: &str,
        unsent: &OpError,
        out: &mut dyn Completions,
    ) -> bool {
        self.answer = Answer::default();
        let mut sent_of_transaction = false;
        for (entry, sent) in entries {
            // What was not sent was not done.
            let error = if sent { lost(entry.op, why) } else { unsent.clone() };
            match (entry.what, entry.token) {
                _ if entry.in_transaction => sent_of_transaction = sent,
                (What::Bulk(place), _) => {
                    let error = if self.bulks[place].begun { lost(entry.op, why) } else { error };
                    self.end_bulk(place, Some(error), out);
                }
                (_, Some(token)) => out.complete(token, Err(error)),
                _ => {}
            }
        }
        sent_of_transaction
    }
}

fn document(value: &[u8], jsonb: bool) -> Result<&[u8], Lost> {
    if jsonb { Ok(wire::json_text(value)?) } else { Ok(value) }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
