//! Bulk operations, item by item: each item has its own request and its own answer.

use storebench_engine::store::{Batch, Completions, Op, OpError, Reject};

use super::Answers as _;
use super::pipelined::{Awaited, Dialect, Pipelined, Role};
use crate::repeats::{Rounds, Within};

impl<D: Dialect> Pipelined<D> {
    /// Sends the items one after another in one write. Each has its own answer.
    pub(super) fn bulk<'b>(
        &mut self,
        items: Batch<'b>,
        op: impl Fn(&'b str, &'b [u8]) -> Op<'b>,
        awaited: Awaited<D::Expect>,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let spread = self.dialect.is_spread();
        if !spread && !items.is_empty() && !self.is_ready(0, out) {
            return Err(self.links[0].not_connected());
        }
        let writes = awaited.kind.writes();
        if D::ANY_ORDER && writes {
            self.rounds.arrange(items, Within::Given);
            if self.rounds.ends.len() > 1 {
                return self.bulk_in_rounds(items, op, awaited, out);
            }
        }
        let awaited = Awaited { role: Role::Item, work: self.works.take(awaited.contents && !writes), ..awaited };
        self.works.get(awaited.work).items = items.len() as u32;
        for (item, (key, body)) in items.iter().enumerate() {
            let link = self.dialect.link_of(&self.collections[usize::from(awaited.collection)], key);
            let pushed = if spread && !self.is_ready(link, out) {
                // Leave an empty slot, because requests are found by item number.
                let work = self.works.get(awaited.work);
                work.ends.push(work.requests.len());
                Err(self.links[link].not_connected())
            } else {
                let counts = self.works.get(awaited.work).pending == 0;
                self.append(link, &op(key, body), Awaited { item: item as u32, ..awaited }, counts)
            };
            let work = self.works.get(awaited.work);
            match pushed {
                Ok(()) => work.pending += 1,
                Err(error) if writes => work.rejects.push(Reject { item, error }),
                Err(error) => work.error = Some(error),
            }
            // Store every key, because answers find theirs by item number.
            if work.contents {
                work.keys.push(key, b"");
            }
        }
        self.in_flight += 1;
        if self.works.get(awaited.work).pending == 0 {
            self.finish(&awaited, out);
        }
        Ok(())
    }

    /// Sends the items of a bulk write so that those of one key go one after the other, for servers that do what they have
    /// at once in any order.
    fn bulk_in_rounds<'b>(
        &mut self,
        items: Batch<'b>,
        op: impl Fn(&'b str, &'b [u8]) -> Op<'b>,
        mut awaited: Awaited<D::Expect>,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        (awaited.role, awaited.work) = (Role::Item, self.works.take(false));
        let collection = &self.collections[usize::from(awaited.collection)];
        let work = self.works.get(awaited.work);
        work.items = items.len() as u32;
        for (item, (key, body)) in items.iter().enumerate() {
            let start = work.requests.len();
            match self.dialect.single(&op(key, body), collection, &mut work.requests) {
                Ok(expect) => awaited.expect = expect,
                Err(error) => {
                    work.requests.truncate(start);
                    work.rejects.push(Reject { item, error });
                }
            }
            work.ends.push(work.requests.len());
            work.keys.push(key, b"");
        }
        let Rounds { order, .. } = &self.rounds;
        work.rounds.extend(self.rounds.ranges().rev().map(|round| order[round].to_vec()));
        self.in_flight += 1;
        self.next_round(awaited, out);
        Ok(())
    }

    /// Sends the next items of a bulk write, or completes it.
    fn next_round(&mut self, awaited: Awaited<D::Expect>, out: &mut dyn Completions) {
        let work = self.works.get(awaited.work);
        while work.pending == 0 && !work.abandoned {
            let Some(round) = work.rounds.pop() else { break };
            for item in round {
                let request = work.request(item);
                if request.is_empty() {
                    continue;
                }
                let key = work.keys.as_batch().get(item as usize).map_or("", |(key, _)| key);
                let link = self.dialect.link_of(&self.collections[usize::from(awaited.collection)], key);
                if !self.links[link].is_up() {
                    let error = self.links[link].not_connected();
                    work.rejects.push(Reject { item: item as usize, error });
                    continue;
                }
                let pipe = &mut self.links[link].pipe;
                pipe.request(Awaited { item, ..awaited }, work.pending == 0).extend_from_slice(request);
                pipe.number(|number, request| D::number(request, number));
                self.dialect.wrote(link);
                work.pending += 1;
                self.more = true;
            }
        }
        if work.pending == 0 {
            self.finish(&awaited, out);
        }
    }

    /// Records that one pending answer has come.
    pub(crate) fn one_less(&mut self, awaited: Awaited<D::Expect>, out: &mut dyn Completions) {
        let work = self.works.get(awaited.work);
        work.pending -= 1;
        if work.pending == 0 {
            self.next_round(awaited, out);
        }
    }

    /// Completes an operation that has no pending answers left.
    fn finish(&mut self, awaited: &Awaited<D::Expect>, out: &mut dyn Completions) {
        let work = self.works.get(awaited.work);
        if !work.abandoned {
            self.in_flight -= 1;
            out.complete(awaited.token, work.result());
        }
        self.works.give_back(awaited.work);
    }
}
