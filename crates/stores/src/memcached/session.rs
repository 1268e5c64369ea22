//! A session: one connection, on which answers come in the order of requests.

use std::time::Duration;

use storebench_engine::store::{Batch, Completions, ErrorKind, Op, OpError, OpKind, Reply, Request, Token};
use storebench_study::workload::Body;

use super::keys;
use super::meta::{self, Answer, Garbage, Row};
use super::request::{self, Expect};
use crate::ascii;
use crate::connection::{Answers as _, Collection, Dialect, NONE, Pipelined, Role, expiry_s};
use crate::document::{CHANGED, EXISTS, write_counter};

/// An awaited answer.
type Awaited = crate::connection::Awaited<Expect>;

/// A session.
pub(crate) type MemcachedSession = Pipelined<Memcached>;

/// How a session talks to its server.
pub(crate) struct Memcached {
    pub(super) largest_bytes: usize,
}

impl Dialect for Memcached {
    type Expect = Expect;

    const NOTHING: Expect = Expect::Stored;

    #[inline]
    fn single(&self, op: &Op<'_>, collection: &Collection, out: &mut Vec<u8>) -> Result<Expect, OpError> {
        request::single(op, collection, self.largest_bytes, out)
    }

    #[inline]
    fn other(
        session: &mut MemcachedSession,
        request: &Request<'_>,
        token: Token,
        out: &mut dyn Completions,
    ) -> Option<Result<(), OpError>> {
        match request.op {
            Op::BulkRead { keys } => session.read_all(request, keys, token, out),
            _ => None,
        }
    }

    /// Reads the document, its revision and its expiry.
    fn look(&self, key: &str, collection: &Collection, out: &mut Vec<u8>) -> Result<Expect, OpError> {
        request::get(out, collection, key, b" v c t\r\n").map(|()| Expect::Value)
    }

    fn swap(
        &self,
        key: &str,
        flags: &[u8],
        body: &[u8],
        collection: &Collection,
        out: &mut Vec<u8>,
    ) -> Result<Expect, OpError> {
        let revision = meta::flag(flags, b'c').unwrap_or_default();
        let mut wanted = [&b" C"[..], revision].concat();
        // Keeps the expiry that the server reported.
        if let Some(seconds) = meta::flag(flags, b't').and_then(ascii::number) {
            wanted.extend_from_slice(b" T");
            meta::decimal(&mut wanted, expiry_s(Duration::from_secs(seconds), request::LATEST_S));
        }
        request::store(out, collection, key, body, &wanted, self.largest_bytes).map(|()| Expect::Swapped)
    }

    fn take(session: &mut MemcachedSession, link: usize, out: &mut dyn Completions) -> Result<(), String> {
        let taken = session.take_answers(link, out);
        taken.map_err(|garbage| format!("received `{}`, which is not an expected answer", garbage.0))
    }
}

impl Pipelined<Memcached> {
    /// Reads documents with one `get`. `None` if that cannot be: counters have another form in the server, and only `mg`
    /// takes keys in base64.
    fn read_all(
        &mut self,
        request: &Request<'_>,
        keys: Batch<'_>,
        token: Token,
        out: &mut dyn Completions,
    ) -> Option<Result<(), OpError>> {
        let position = request.collection.position();
        let collection = &self.collections[position];
        if keys.is_empty() || (!collection.theirs && collection.body == Body::Counter) {
            return None;
        }
        if !self.is_ready(0, out) {
            return Some(Err(self.links[0].not_connected()));
        }
        let Self { links, works, collections, .. } = self;
        let number = works.take(request.contents);
        let work = works.get(number);
        (work.items, work.pending) = (keys.len() as u32, 1);
        for (key, _) in keys.iter() {
            work.requests.push(b' ');
            // Errors are those of each key's own command.
            if !matches!(keys::write(&mut work.requests, &collections[position], key), Ok(false)) {
                works.give_back(number);
                return None;
            }
            work.ends.push(work.requests.len());
            if request.contents {
                work.keys.push(key, b"");
            }
        }
        let awaited =
            Awaited { role: Role::Rows, expect: Expect::Values, work: number, ..Self::awaited(request, token) };
        let command = links[0].pipe.request(awaited, true);
        command.extend_from_slice(b"get");
        command.extend_from_slice(&work.requests);
        command.extend_from_slice(b"\r\n");
        self.in_flight += 1;
        Some(Ok(()))
    }

    /// Processes all complete answers.
    fn take_answers(&mut self, link: usize, out: &mut dyn Completions) -> Result<(), Garbage> {
        loop {
            let Self { links, in_flight, collections, scratch, works, .. } = self;
            let Some((front, input)) = links[link].pipe.front() else {
                let input = links[link].pipe.input();
                return if input.is_empty() { Ok(()) } else { Err(Garbage::of(input)) };
            };
            let awaited = *front;
            if awaited.expect == Expect::Values {
                let Some((row, used)) = meta::row(input)? else { return Ok(()) };
                let work = works.get(awaited.work);
                if let Row::Value(key, body) = row {
                    // They come in the order in which they were asked for, without those that the server does not have.
                    let asked = |item: &u32| work.request(*item).strip_prefix(b" ") == Some(key);
                    let Some(item) = (awaited.item..work.items).find(asked) else { return Err(Garbage::of(input)) };
                    front.item = item + 1;
                    work.add(item, body);
                    links[link].pipe.consume(used);
                    continue;
                }
                if let Row::Failure(line) = row {
                    work.error = Some(failure(line, false));
                }
                self.done(link, used);
                self.one_less(awaited, out);
                continue;
            }
            let Some((answer, used)) = meta::answer(input)? else { return Ok(()) };
            if !matches!(awaited.expect, Expect::Value | Expect::Exists) {
                let result = effect(awaited.expect, answer)?;
                self.done(link, used);
                self.settle(link, awaited, result, out);
                continue;
            }
            // A work always needs the contents.
            let wanted = Awaited { contents: awaited.contents || awaited.work != NONE, ..awaited };
            let result = read(&wanted, answer, &collections[usize::from(awaited.collection)], scratch)?;
            if awaited.work == NONE {
                awaited.complete(result, works, in_flight, out);
                self.done(link, used);
            } else if awaited.kind == OpKind::BulkRead {
                let found = result.map(|reply| reply.body.unwrap_or_default());
                works.get(awaited.work).read(awaited.item, found);
                self.done(link, used);
                self.one_less(awaited, out);
            } else {
                let read = match (result, answer) {
                    (Ok(_), Answer::Value(body, flags)) => Ok((body.to_vec(), flags.to_vec())),
                    (Err(error), _) => Err(error),
                    (Ok(_), other) => return Err(unfit(other)),
                };
                self.done(link, used);
                let read = read.as_ref().map(|(old, flags)| (&old[..], &flags[..])).map_err(OpError::clone);
                self.looked(link, awaited, read, out);
            }
        }
    }
}

fn unfit(answer: Answer<'_>) -> Garbage {
    Garbage(format!("{answer:?}").chars().take(60).collect())
}

/// Interprets the answer to a write.
fn effect(expect: Expect, answer: Answer<'_>) -> Result<Result<Option<i64>, OpError>, Garbage> {
    Ok(match (expect, answer) {
        (_, Answer::Failure(line)) => Err(failure(line, true)),
        (Expect::Counter(delta), Answer::Value(text, _)) => {
            // memcached pads a number that became shorter with spaces.
            let value = ascii::number(text.trim_ascii_end()).ok_or_else(|| Garbage::of(text))?;
            // An increment wraps around at the maximum, and a decrement stops at 0.
            if delta > 0 && value < delta.unsigned_abs() || delta < 0 && value == 0 {
                Err(OpError::new(
                    ErrorKind::OutcomeUnknown,
                    "the counter left the range of a 64-bit integer, and its value is now wrong",
                ))
            } else {
                Ok(Some(keys::from_unsigned(value)))
            }
        }
        (_, Answer::Done(_)) => Ok(None),
        (Expect::Made, Answer::NotStored) => Err(EXISTS),
        (Expect::Replaced, Answer::NotStored) | (Expect::Hit | Expect::Swapped, Answer::Missing) => {
            Err(OpError::not_found())
        }
        (Expect::Swapped, Answer::Changed) => Err(CHANGED),
        (_, other) => return Err(unfit(other)),
    })
}

/// Interprets the answer to a read.
fn read<'a>(
    awaited: &Awaited,
    answer: Answer<'a>,
    collection: &Collection,
    scratch: &'a mut Vec<u8>,
) -> Result<Result<Reply<'a>, OpError>, Garbage> {
    Ok(match (awaited.expect, answer) {
        (Expect::Value, Answer::Value(body, flags)) => {
            let body = if !collection.theirs && collection.body == Body::Counter {
                let value = ascii::number(body.trim_ascii_end()).ok_or_else(|| Garbage::of(body))?;
                write_counter(keys::from_unsigned(value), scratch);
                scratch.as_slice()
            } else {
                body
            };
            Ok(Reply {
                bytes: body.len() as u64,
                body: awaited.contents.then_some(body),
                revision: meta::flag(flags, b'c'),
                ..Reply::written(1)
            })
        }
        (Expect::Value, Answer::Missing) => Err(OpError::not_found()),
        (Expect::Exists, Answer::Done(_)) => Ok(Reply::written(1)),
        (Expect::Exists, Answer::Missing) => Ok(Reply::default()),
        (_, Answer::Failure(line)) => Err(failure(line, false)),
        (_, other) => return Err(unfit(other)),
    })
}

/// The error of a failure that the server reported. Nothing was done, with one exception: if there was no memory for a
/// document, the server also removes the previous document of that key, so that nobody reads stale data.
fn failure(line: &[u8], writes: bool) -> OpError {
    let text = String::from_utf8_lossy(line).chars().take(200).collect::<String>();
    let (kind, remedy) = if text.contains("out of memory") {
        let lost = "; the previous value of this key may be lost too; give the server more memory with -m";
        if writes {
            (ErrorKind::OutcomeUnknown, lost)
        } else {
            (ErrorKind::Temporary, "; give the server more memory with -m")
        }
    } else if text.contains("too large") {
        let kind = if writes { ErrorKind::OutcomeUnknown } else { ErrorKind::Refused };
        (kind, "; the previous value of this key may be lost too; start the server with a larger -I")
    } else if text.contains("non-numeric") {
        (ErrorKind::Refused, "")
    } else {
        (ErrorKind::Failed, "")
    };
    OpError::new(kind, format!("memcached: {text}{remedy}"))
}

#[cfg(test)]
mod tests {
    use storebench_engine::store::{CollectionId, Request, Token};

    use super::*;

    #[test]
    fn a_write_that_found_no_room_may_have_removed_what_was_there() {
        for line in [&b"SERVER_ERROR out of memory storing object"[..], b"SERVER_ERROR object too large for cache"] {
            for expect in [Expect::Stored, Expect::Made, Expect::Replaced, Expect::Swapped] {
                let error = effect(expect, Answer::Failure(line)).unwrap().unwrap_err();
                assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{expect:?}: {error}");
            }
        }
        let collection = Collection::default();
        let request = Request { collection: CollectionId(0), op: Op::Read { key: "k" }, contents: true };
        let read_it = Awaited { expect: Expect::Value, ..MemcachedSession::awaited(&request, Token(1)) };
        let line = Answer::Failure(b"SERVER_ERROR out of memory writing get response");
        let error = read(&read_it, line, &collection, &mut Vec::new()).unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Temporary, "a read removes nothing: {error}");
    }
}
