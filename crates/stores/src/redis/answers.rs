//! Matches answers to operations and interprets them.

use storebench_engine::store::{Completions, ErrorKind, OpError, Reply};

use super::cluster::{self, Redirection};
use super::errors::op_error;
use super::request::Expect;
use super::resp::{self, Garbage, Item, Value};
use super::session::{Awaited, RedisSession};
use super::study_queries;
use crate::connection::{MOST_AGAIN, NONE, Role, Work};
use crate::document::{CHANGED, EXISTS};

/// Interprets the answer to a write of one document.
pub(super) fn effect(expect: Expect, item: Item<'_>) -> Result<Result<Option<i64>, OpError>, Garbage> {
    Ok(match (expect, item) {
        (_, Item::Error(line)) => Err(op_error(line)),
        (Expect::Stored | Expect::Made | Expect::Replaced, Item::Simple(_))
        | (Expect::Hit | Expect::MadeFlag | Expect::Swapped, Item::Integer(1..)) => Ok(None),
        (Expect::Made, Item::Nil) | (Expect::MadeFlag, Item::Integer(0)) => Err(EXISTS),
        (Expect::Replaced, Item::Nil) | (Expect::Hit | Expect::Swapped, Item::Integer(0)) => Err(OpError::not_found()),
        (Expect::Swapped, Item::Integer(-1)) => Err(CHANGED),
        (Expect::Counter, Item::Bulk(text)) => {
            let value = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            Ok(Some(value.ok_or_else(|| Garbage::of(text))?))
        }
        (_, other) => return Err(unfit(other)),
    })
}

fn unfit(item: Item<'_>) -> Garbage {
    Garbage(format!("{item:?}").chars().take(60).collect())
}

impl RedisSession {
    /// Processes all complete answers.
    pub(super) fn take_answers(&mut self, link: usize, out: &mut dyn Completions) -> Result<(), Garbage> {
        loop {
            let Self { links, in_flight, works, .. } = self;
            let Some((front, input)) = links[link].pipe.front() else {
                let input = links[link].pipe.input();
                return if input.is_empty() { Ok(()) } else { Err(Garbage::of(input)) };
            };
            let awaited = *front;
            if matches!(awaited.expect, Expect::Slots | Expect::Answer | Expect::Steps) {
                let Some((value, used)) = Value::read(input)? else { return Ok(()) };
                if awaited.expect == Expect::Steps {
                    // If the answer is invalid, the transaction stays in flight and ends with the connection.
                    self.executed(link, &awaited, &value, out)?;
                }
                self.done(link, used);
                match awaited.expect {
                    Expect::Slots => self.take_map(link, &value),
                    Expect::Answer => {
                        study_queries::answered(&awaited, &value, self.works.get(awaited.work));
                        self.one_less(awaited, out);
                    }
                    _ => {}
                }
                continue;
            }
            let Some((item, used)) = resp::item(input)? else { return Ok(()) };
            // Fast path: a single answer, passed on without a copy.
            if awaited.role == Role::Whole
                && awaited.work == NONE
                && matches!(awaited.expect, Expect::Value | Expect::Exists)
            {
                awaited.complete(look(&awaited, item)?, works, in_flight, out);
                self.done(link, used);
                continue;
            }
            if let Item::Error(line) = item
                && line.starts_with(b"NOSCRIPT")
                && awaited.role != Role::Own
            {
                self.load_scripts(link);
                self.done(link, used);
                self.settle(link, awaited, Err(op_error(b"NOSCRIPT")), out);
                continue;
            }
            match awaited.role {
                Role::Rows => {
                    if row(front, item, works.get(awaited.work))? {
                        self.links[link].pipe.consume(used);
                    } else {
                        self.done(link, used);
                        self.one_less(awaited, out);
                    }
                }
                Role::Own => {
                    let replicas = match (awaited.expect, item) {
                        (Expect::Replicas, Item::Integer(replicas)) => Some(Ok(replicas)),
                        (Expect::Replicas, Item::Error(line)) => Some(Err(op_error(line))),
                        (Expect::Replicas, other) => return Err(unfit(other)),
                        (Expect::Begun | Expect::Queued, Item::Error(line)) => {
                            self.dialect.refuse_transaction(awaited.expect == Expect::Begun, op_error(line));
                            None
                        }
                        _ => None,
                    };
                    self.done(link, used);
                    if let Some(replicas) = replicas {
                        self.acknowledged(link, &replicas, out);
                    }
                }
                Role::Whole | Role::Item | Role::Look | Role::Swap => {
                    if let Item::Error(line) = item
                        && awaited.work != NONE
                        && let Some(route) = &self.dialect.route
                        && let Some(redirection) = cluster::redirection(line, &route.hosts[link])
                    {
                        self.done(link, used);
                        self.redirect(link, awaited, &redirection, out);
                        continue;
                    }
                    match (awaited.expect, awaited.role) {
                        (Expect::Value | Expect::Exists, Role::Item) => {
                            works.get(awaited.work).read(awaited.item, document(item)?);
                            self.done(link, used);
                            self.one_less(awaited, out);
                        }
                        (Expect::Value | Expect::Exists, Role::Look) => {
                            let old = document(item)?.map(<[u8]>::to_vec);
                            self.done(link, used);
                            let old = old.as_deref().map(|old| (old, old)).map_err(OpError::clone);
                            self.looked(link, awaited, old, out);
                        }
                        (Expect::Value | Expect::Exists, _) => {
                            awaited.complete(look(&awaited, item)?, works, in_flight, out);
                            self.done(link, used);
                        }
                        (expect, _) => {
                            let result = effect(expect, item)?;
                            self.done(link, used);
                            self.settle(link, awaited, result, out);
                        }
                    }
                }
            }
        }
    }

    /// Completes the writes that were held back until replicas acknowledge them. `replicas` is how many did, or why
    /// that is unknown.
    fn acknowledged(&mut self, link: usize, replicas: &Result<i64, OpError>, out: &mut dyn Completions) {
        let Some(ack) = self.dialect.acknowledge else { return };
        let held = std::mem::take(&mut self.dialect.acks[link].held);
        for (awaited, counter) in held {
            let result = match replicas {
                Ok(replicas) if *replicas >= i64::from(ack.replicas) => Ok(()),
                Ok(replicas) => Err(OpError::new(
                    ErrorKind::OutcomeUnknown,
                    format!(
                        "the primary has the write, but only {replicas} of {} replicas acknowledged it within {} ms",
                        ack.replicas, ack.within_ms
                    ),
                )),
                Err(error) => Err(OpError::new(
                    ErrorKind::OutcomeUnknown,
                    format!("the primary has the write, but did not wait for its replicas: {}", error.message),
                )),
            };
            self.conclude(awaited, result, counter, out);
        }
    }

    /// Resends a request to the node that a redirection names.
    fn redirect(&mut self, from: usize, awaited: Awaited, to: &Redirection, out: &mut dyn Completions) {
        let link = self.link_to(&to.host);
        if !to.once {
            if let Some(route) = &mut self.dialect.route {
                route.slots[usize::from(to.slot)] = link as u16;
            }
            self.ask_for_map(from);
        }
        let work = self.works.get(awaited.work);
        work.again += 1;
        if work.again > MOST_AGAIN + work.items || self.links[link].is_down() {
            let error =
                OpError::new(ErrorKind::Temporary, format!("its slot has moved to {}, which is unreachable", to.host));
            return self.conclude(awaited, Err(error), None, out);
        }
        let pipe = &mut self.links[link].pipe;
        if to.once {
            pipe.request(Awaited::own(Expect::Ignored), false).extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
        }
        pipe.request(awaited, true).extend_from_slice(work.request(awaited.item));
        self.dialect.acks[link].wanted |= awaited.kind.writes();
        self.more = true;
    }

    fn take_map(&mut self, link: usize, answer: &Value) {
        let Some(route) = &mut self.dialect.route else { return };
        route.asking = false;
        if let Some(map) = cluster::ranges(answer, &route.hosts[link]) {
            self.set_map(&map);
        }
    }
}

/// Interprets the answer to a read of one document.
fn look<'a>(awaited: &Awaited, item: Item<'a>) -> Result<Result<Reply<'a>, OpError>, Garbage> {
    Ok(match (awaited.expect, item) {
        // The revision is the document itself.
        (Expect::Value, Item::Bulk(body)) => Ok(Reply {
            bytes: body.len() as u64,
            body: awaited.contents.then_some(body),
            revision: Some(body),
            ..Reply::written(1)
        }),
        (Expect::Value, Item::Nil) => Err(OpError::not_found()),
        (Expect::Exists, Item::Integer(found)) => Ok(Reply::written(usize::from(found > 0))),
        (_, Item::Error(line)) => Err(op_error(line)),
        (_, other) => return Err(unfit(other)),
    })
}

/// Interprets the answer to the read of a document that is not passed on at once.
pub(super) fn document(item: Item<'_>) -> Result<Result<&[u8], OpError>, Garbage> {
    Ok(match item {
        Item::Bulk(body) => Ok(body),
        Item::Nil => Err(OpError::not_found()),
        Item::Error(line) => Err(op_error(line)),
        other => return Err(unfit(other)),
    })
}

/// Handles part of an answer with several documents. Returns whether more is still to come.
fn row(awaited: &mut Awaited, item: Item<'_>, work: &mut Work) -> Result<bool, Garbage> {
    let left = match (awaited.expect, item) {
        (Expect::Many | Expect::Rows, Item::Error(line)) => {
            work.error = Some(op_error(line));
            0
        }
        (Expect::Many, Item::Array(count)) => {
            work.items = u32::try_from(count).map_err(|_| unfit(item))?;
            work.items
        }
        (Expect::Rows, Item::Array(count)) => u32::try_from(count).map_err(|_| unfit(item))?,
        (Expect::ManyLeft(left), Item::Bulk(_) | Item::Nil) => {
            if let Item::Bulk(body) = item {
                work.add(work.items - left, body);
            }
            left - 1
        }
        // Keys and documents alternate, starting with a key. So the number left is even before a key.
        (Expect::RowsLeft(left), Item::Bulk(key)) if left % 2 == 0 => {
            work.key.clear();
            work.key.push_str(&String::from_utf8_lossy(key));
            left - 1
        }
        (Expect::RowsLeft(left), Item::Bulk(body)) => {
            work.documents += 1;
            work.bytes += body.len() as u64;
            if awaited.contents {
                work.rows.push(&work.key, body);
            }
            left - 1
        }
        (_, other) => return Err(unfit(other)),
    };
    awaited.expect = match awaited.expect {
        Expect::Many | Expect::ManyLeft(_) => Expect::ManyLeft(left),
        _ => Expect::RowsLeft(left),
    };
    Ok(left > 0)
}
