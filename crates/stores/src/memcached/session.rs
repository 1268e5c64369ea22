//! One session: one connection, on which requests are answered in their order.

use std::task::{Context, Poll};

use storebench_core::store::{
    Batch, BulkWrite, Completions, ErrorKind, Op, OpError, OpKind, Reject, Reply, Request, Session, SessionCounters,
    Token,
};
use storebench_core::workload::Body;

use super::keys::{self, Collection};
use super::meta::{self, Answer, Garbage};
use super::request::{self, Expect};
use crate::document::{CHANGED, EXISTS, merged, write_counter, wrong_collection};
use crate::net::lost;
use crate::pipeline::{Link, NONE, Turn, Works};

/// After so many rounds in which others were quicker a merge is given up for now.
const MOST_AGAIN: u32 = 100;

/// What is awaited.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited {
    token: Token,
    kind: OpKind,
    expect: Expect,
    collection: u16,
    contents: bool,
    abandoned: bool,
    /// The operation of several requests that it belongs to.
    work: u32,
    item: u32,
}

/// One session.
pub(crate) struct MemcachedSession {
    pub(super) collections: Vec<Collection>,
    pub(super) read_only: bool,
    pub(super) largest_bytes: usize,
    pub(super) link: Link<Awaited>,
    pub(super) works: Works,
    pub(super) in_flight: usize,
    /// Whether answers have made new requests.
    pub(super) more: bool,
    pub(super) scratch: Vec<u8>,
}

impl MemcachedSession {
    /// Whether the link can be sent to; while it is down it is looked after on the way.
    #[inline]
    fn ready(&mut self, out: &mut dyn Completions) -> bool {
        if !self.link.is_up() && self.link.was_woken() {
            self.advance(out);
        }
        self.link.is_up()
    }

    fn run(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) -> Result<(), OpError> {
        let position = request.collection.position();
        let Some(collection) = self.collections.get(position) else {
            return Err(OpError::new(ErrorKind::Refused, "the layout has no such collection"));
        };
        let kind = request.op.kind();
        if self.read_only && kind.writes() {
            return Err(OpError::new(ErrorKind::Refused, "the store was opened for reading only"));
        }
        let contents = request.contents;
        match request.op {
            Op::BulkWrite { kind: how, items } => {
                let op = move |key, body| match how {
                    BulkWrite::Insert => Op::Insert { key, body },
                    BulkWrite::Upsert => Op::Upsert { key, body },
                };
                self.bulk(position, kind, items, op, contents, token, out)
            }
            Op::BulkRead { keys } => self.bulk(position, kind, keys, |key, _| Op::Read { key }, contents, token, out),
            Op::BulkDelete { keys } => {
                self.bulk(position, kind, keys, |key, _| Op::Delete { key }, contents, token, out)
            }
            Op::MergePatch { key, patch } => {
                if collection.body != Body::Json {
                    return Err(wrong_collection("merge works on collections of JSON only"));
                }
                self.merge(position, key, patch, token, out)
            }
            ref op => {
                if !self.ready(out) {
                    // Refused all the same, connected or not, where it always would be.
                    self.scratch.clear();
                    let collection = &self.collections[position];
                    request::single(op, collection, self.largest_bytes, &mut self.scratch)?;
                    return Err(self.link.not_connected());
                }
                self.push(position, op, awaited(token, kind, position, contents, NONE, 0), true)?;
                self.in_flight += 1;
                Ok(())
            }
        }
    }

    /// Appends one request. Nothing is left of it when it is refused.
    #[inline]
    fn push(&mut self, position: usize, op: &Op<'_>, awaited: Awaited, counts: bool) -> Result<(), OpError> {
        let pipe = &mut self.link.pipe;
        let out = pipe.request(awaited, counts);
        match request::single(op, &self.collections[position], self.largest_bytes, out) {
            Ok(expect) => {
                pipe.amend(|last| last.expect = expect);
                Ok(())
            }
            Err(error) => {
                pipe.take_back();
                Err(error)
            }
        }
    }

    /// Items one after another in one write, each with its own answer.
    #[allow(clippy::too_many_arguments)]
    fn bulk<'b>(
        &mut self,
        position: usize,
        kind: OpKind,
        items: Batch<'b>,
        op: impl Fn(&'b str, &'b [u8]) -> Op<'b>,
        contents: bool,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        if !items.is_empty() && !self.ready(out) {
            return Err(self.link.not_connected());
        }
        let number = self.works.take(token, kind, contents);
        self.works.get(number).items = items.len() as u32;
        for (item, (key, body)) in items.iter().enumerate() {
            let counts = self.works.get(number).pending == 0;
            let awaited = awaited(token, kind, position, contents, number, item as u32);
            let pushed = self.push(position, &op(key, body), awaited, counts);
            let work = self.works.get(number);
            match pushed {
                Ok(()) => work.pending += 1,
                Err(error) if kind.writes() => work.rejects.push(Reject { item, error }),
                Err(error) => work.error = Some(error),
            }
            // All of them, so that an item finds its own.
            if kind == OpKind::BulkRead && contents {
                work.keys.push(key, b"");
            }
        }
        self.in_flight += 1;
        if self.works.get(number).pending == 0 {
            self.finish(number, out);
        }
        Ok(())
    }

    fn merge(
        &mut self,
        position: usize,
        key: &str,
        patch: &[u8],
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let patch = serde_json::from_slice(patch)
            .map_err(|e| OpError::new(ErrorKind::Refused, format!("the patch is not JSON: {e}")))?;
        if !self.ready(out) {
            return Err(self.link.not_connected());
        }
        let number = self.works.take(token, OpKind::MergePatch, false);
        let work = self.works.get(number);
        (work.collection, work.patch) = (position, patch);
        work.key.push_str(key);
        if let Err(error) = self.look(number, token) {
            self.works.give_back(number);
            return Err(error);
        }
        self.in_flight += 1;
        Ok(())
    }

    /// The first step of a merge: reads the document, its revision and its expiry.
    fn look(&mut self, number: u32, token: Token) -> Result<(), OpError> {
        let work = self.works.get(number);
        let mut awaited = awaited(token, OpKind::MergePatch, work.collection, false, number, 0);
        awaited.expect = Expect::Value;
        let pipe = &mut self.link.pipe;
        let made =
            request::get(pipe.request(awaited, true), &self.collections[work.collection], &work.key, b" v c t\r\n");
        if made.is_err() {
            pipe.take_back();
        }
        made
    }

    /// The second step: stores what the patch makes of it, if it is still what was read.
    fn swap(&mut self, awaited: Awaited, old: &[u8], flags: &[u8]) -> Result<(), OpError> {
        let work = self.works.get(awaited.work);
        let new = merged(old, &work.patch)?;
        let revision = meta::flag(flags, b'c').unwrap_or_default();
        let expiry_s = meta::flag(flags, b't').and_then(meta::number);
        let pipe = &mut self.link.pipe;
        let buffer = pipe.request(Awaited { expect: Expect::Swapped, ..awaited }, true);
        let collection = &self.collections[work.collection];
        let made = request::swap(buffer, collection, &work.key, &new, revision, expiry_s, self.largest_bytes);
        if made.is_err() {
            pipe.take_back();
        }
        made
    }

    /// Moves the link on until it gives nothing more.
    fn advance(&mut self, out: &mut dyn Completions) {
        loop {
            match self.link.turn() {
                Turn::Nothing => return,
                Turn::Connected => {}
                Turn::Input => {
                    if let Err(garbage) = self.take_answers(out) {
                        self.link.give_up();
                        self.lose(&format!("`{}` came, which was not to be expected", garbage.0), out);
                    }
                }
                Turn::Lost(why) => self.lose(&why, out),
            }
        }
    }

    /// Ends what was in flight.
    fn lose(&mut self, why: &str, out: &mut dyn Completions) {
        for (awaited, sent) in self.link.pipe.lose() {
            // The first step of a merge only reads.
            let kind = if awaited.expect == Expect::Value { OpKind::Read } else { awaited.kind };
            let error = if sent { lost(kind, why) } else { self.link.not_connected() };
            self.conclude(awaited, Err(error), None, out);
        }
    }

    /// Takes all answers that are whole.
    fn take_answers(&mut self, out: &mut dyn Completions) -> Result<(), Garbage> {
        loop {
            let Self { link, in_flight, collections, scratch, works, .. } = self;
            let Some((front, input)) = link.pipe.front() else {
                let input = link.pipe.input();
                return if input.is_empty() { Ok(()) } else { Err(Garbage::of(input)) };
            };
            let awaited = *front;
            let Some((answer, used)) = meta::answer(input)? else { return Ok(()) };
            if !matches!(awaited.expect, Expect::Value | Expect::Exists) {
                let result = effect(awaited.expect, answer)?;
                self.done(used);
                self.settle(awaited, result, out);
                continue;
            }
            let (result, flags) = read(&awaited, answer, &collections[usize::from(awaited.collection)], scratch)?;
            if awaited.work == NONE {
                if !awaited.abandoned {
                    *in_flight -= 1;
                    out.complete(awaited.token, result);
                }
                self.done(used);
            } else if awaited.kind == OpKind::BulkRead {
                let work = works.get(awaited.work);
                match result {
                    Ok(reply) => {
                        work.documents += reply.documents;
                        work.bytes += reply.bytes;
                        if let Some(body) = reply.body
                            && let Some((key, _)) = work.keys.as_batch().get(awaited.item as usize)
                        {
                            work.rows.push(key, body);
                        }
                    }
                    Err(error) if error.kind == ErrorKind::NotFound => {}
                    Err(error) => work.error = Some(error),
                }
                self.done(used);
                self.one_less(awaited.work, out);
            } else {
                let read = match (result, answer) {
                    (Ok(_), Answer::Value(body, _)) => Ok((body.to_vec(), flags.to_vec())),
                    (Err(error), _) => Err(error),
                    (Ok(_), other) => return Err(Garbage(format!("{other:?}").chars().take(60).collect())),
                };
                self.done(used);
                let next = match read {
                    Ok(_) if awaited.abandoned => Err(OpError::not_found()),
                    Ok((old, flags)) => self.swap(awaited, &old, &flags),
                    Err(error) => Err(error),
                };
                match next {
                    Ok(()) => self.more = true,
                    Err(error) => self.conclude(awaited, Err(error), None, out),
                }
            }
        }
    }

    /// The front was answered by so many bytes.
    #[inline]
    fn done(&mut self, used: usize) {
        self.link.pipe.consume(used);
        self.link.pipe.pop();
    }

    /// A write was answered.
    #[inline]
    fn settle(&mut self, awaited: Awaited, result: Result<Option<i64>, OpError>, out: &mut dyn Completions) {
        match result {
            Ok(counter) => self.conclude(awaited, Ok(()), counter, out),
            Err(error) if awaited.kind == OpKind::MergePatch && error.kind == ErrorKind::Conflict => {
                let work = self.works.get(awaited.work);
                work.again += 1;
                let next = if work.again > MOST_AGAIN || awaited.abandoned {
                    let why = "others kept changing the document between read and write";
                    Err(OpError::new(ErrorKind::Temporary, why))
                } else {
                    self.look(awaited.work, awaited.token)
                };
                match next {
                    Ok(()) => self.more = true,
                    Err(error) => self.conclude(awaited, Err(error), None, out),
                }
            }
            Err(error) => self.conclude(awaited, Err(error), None, out),
        }
    }

    /// An operation, or an item of one, has ended.
    fn conclude(
        &mut self,
        awaited: Awaited,
        result: Result<(), OpError>,
        counter: Option<i64>,
        out: &mut dyn Completions,
    ) {
        if awaited.work != NONE && awaited.kind != OpKind::MergePatch {
            let work = self.works.get(awaited.work);
            match result {
                Ok(()) => work.documents += 1,
                // What is not there is left out of a removal.
                Err(error) if error.kind == ErrorKind::NotFound && work.kind == OpKind::BulkDelete => {}
                Err(error) if work.kind.writes() => {
                    work.rejects.push(Reject { item: awaited.item as usize, error });
                }
                Err(error) => work.error = Some(error),
            }
            return self.one_less(awaited.work, out);
        }
        if awaited.work != NONE {
            self.works.give_back(awaited.work);
        }
        if !awaited.abandoned {
            self.in_flight -= 1;
            out.complete(awaited.token, result.map(|()| Reply { counter, ..Reply::written(1) }));
        }
    }

    fn one_less(&mut self, number: u32, out: &mut dyn Completions) {
        let work = self.works.get(number);
        work.pending -= 1;
        if work.pending == 0 {
            self.finish(number, out);
        }
    }

    fn finish(&mut self, number: u32, out: &mut dyn Completions) {
        let work = self.works.get(number);
        if !work.abandoned {
            self.in_flight -= 1;
            let token = work.token;
            out.complete(token, work.result());
        }
        self.works.give_back(number);
    }
}

fn awaited(token: Token, kind: OpKind, position: usize, contents: bool, work: u32, item: u32) -> Awaited {
    // A layout has no more collections than a CollectionId can number.
    let collection = u16::try_from(position).unwrap_or(u16::MAX);
    Awaited { token, kind, expect: Expect::Stored, collection, contents, abandoned: false, work, item }
}

/// What the answer to a write says.
fn effect(expect: Expect, answer: Answer<'_>) -> Result<Result<Option<i64>, OpError>, Garbage> {
    Ok(match (expect, answer) {
        (_, Answer::Failure(line)) => Err(failure(line, true)),
        (Expect::Counter(delta), Answer::Value(text, _)) => {
            // A number that has become shorter is padded with spaces.
            let value = meta::number(text.trim_ascii_end()).ok_or_else(|| Garbage::of(text))?;
            // It wraps around at the top, and stops at the bottom.
            if delta > 0 && value < delta.unsigned_abs() || delta < 0 && value == 0 {
                Err(OpError::new(
                    ErrorKind::OutcomeUnknown,
                    "the counter has left the range of a 64-bit integer, and is no longer right",
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
        (_, other) => return Err(Garbage(format!("{other:?}").chars().take(60).collect())),
    })
}

/// What the answer to a read says, and its flags.
fn read<'a>(
    awaited: &Awaited,
    answer: Answer<'a>,
    collection: &Collection,
    scratch: &'a mut Vec<u8>,
) -> Result<(Result<Reply<'a>, OpError>, &'a [u8]), Garbage> {
    Ok(match (awaited.expect, answer) {
        (Expect::Value, Answer::Value(body, flags)) => {
            let body = if collection.ours && collection.body == Body::Counter {
                let value = meta::number(body.trim_ascii_end()).ok_or_else(|| Garbage::of(body))?;
                write_counter(keys::from_unsigned(value), scratch);
                scratch.as_slice()
            } else {
                body
            };
            let reply = Reply {
                bytes: body.len() as u64,
                body: awaited.contents.then_some(body),
                revision: meta::flag(flags, b'c'),
                ..Reply::written(1)
            };
            (Ok(reply), flags)
        }
        (Expect::Value, Answer::Missing) => (Err(OpError::not_found()), b""),
        (Expect::Exists, Answer::Done(_)) => (Ok(Reply::written(1)), b""),
        (Expect::Exists, Answer::Missing) => (Ok(Reply::default()), b""),
        (_, Answer::Failure(line)) => (Err(failure(line, false)), b""),
        (_, other) => return Err(Garbage(format!("{other:?}").chars().take(60).collect())),
    })
}

/// A complaint of the server. It did nothing, but for one thing: a document for which it found no room
/// takes what was stored under its key with it, so that nobody reads what is out of date.
fn failure(line: &[u8], writes: bool) -> OpError {
    let text = String::from_utf8_lossy(line).chars().take(200).collect::<String>();
    let (kind, remedy) = if text.contains("out of memory") {
        match writes {
            true => {
                let remedy = "; what was under this key before may be gone too: give the server more memory with -m";
                (ErrorKind::OutcomeUnknown, remedy)
            }
            false => (ErrorKind::Temporary, "; give it more memory with -m"),
        }
    } else if text.contains("too large") {
        let kind = if writes { ErrorKind::OutcomeUnknown } else { ErrorKind::Refused };
        (kind, "; what was under this key before may be gone too: start the server with a larger -I")
    } else if text.contains("non-numeric") {
        (ErrorKind::Refused, "")
    } else {
        (ErrorKind::Failed, "")
    };
    OpError::new(kind, format!("memcached: {text}{remedy}"))
}

impl Session for MemcachedSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        // An error means that nothing was completed or queued.
        if let Err(error) = self.run(request, token, out) {
            out.complete(token, Err(error));
        }
    }

    fn flush(&mut self) {
        self.link.flush();
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        if self.link.has_news(cx) {
            self.advance(out);
            if std::mem::take(&mut self.more) {
                self.link.flush();
            }
        }
        if self.in_flight == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    fn counters(&self) -> SessionCounters {
        SessionCounters { disconnects: self.link.disconnects(), splits: 0 }
    }

    fn abandon(&mut self, token: Token) {
        let mut found = None;
        for awaited in self.link.pipe.awaited().filter(|a| a.token == token && !a.abandoned) {
            awaited.abandoned = true;
            found = Some(awaited.work);
        }
        if let Some(work) = found {
            self.link.abandoned();
            self.in_flight -= 1;
            if work != NONE {
                self.works.get(work).abandoned = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_found_no_room_may_have_removed_what_was_there() {
        for line in [&b"SERVER_ERROR out of memory storing object"[..], b"SERVER_ERROR object too large for cache"] {
            for expect in [Expect::Stored, Expect::Made, Expect::Replaced, Expect::Swapped] {
                let error = effect(expect, Answer::Failure(line)).unwrap().unwrap_err();
                assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{expect:?}: {error}");
            }
        }
        let collection = Collection { body: Body::Json, prefix: Vec::new(), ours: true };
        let read_it = Awaited { expect: Expect::Value, ..awaited(Token(1), OpKind::Read, 0, true, NONE, 0) };
        let line = Answer::Failure(b"SERVER_ERROR out of memory writing get response");
        let error = read(&read_it, line, &collection, &mut Vec::new()).unwrap().0.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Temporary, "a read removes nothing: {error}");
    }
}
