//! Operations on one document that may take several steps: merge patches, and counters where the server has none that fit.
//! The document is read, changed and written if it still has its revision, and all that again if it has not.

use storebench_engine::store::{Completions, ErrorKind, Op, OpError, OpKind};

use super::pipelined::{Awaited, Dialect, MOST_AGAIN, Pipelined, Role};
use super::{Answers as _, Change};

/// A step.
enum Step<'a> {
    /// Everything at once if that can be, otherwise as [`Step::Look`].
    AtOnce,
    /// The read.
    Look,
    /// The write of the new document, if the old one still has its revision.
    Swap { revision: &'a [u8], body: &'a [u8] },
    /// The write of a document that does not exist.
    Make { body: &'a [u8] },
}

impl<D: Dialect> Pipelined<D> {
    /// Begins a change of one document: at once if a request does that, otherwise by reading it.
    pub(super) fn in_steps(
        &mut self,
        key: &str,
        change: Change,
        mut awaited: Awaited<D::Expect>,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let link = self.dialect.link_of(&self.collections[usize::from(awaited.collection)], key);
        if !self.is_ready(link, out) {
            return Err(self.links[link].not_connected());
        }
        (awaited.contents, awaited.work) = (false, self.works.take(false));
        let work = self.works.get(awaited.work);
        work.change = change;
        work.key.push_str(key);
        self.step(link, awaited, &Step::AtOnce).inspect_err(|_| self.works.give_back(awaited.work))?;
        self.in_flight += 1;
        Ok(())
    }

    /// Sends the next request.
    fn step(&mut self, link: usize, mut awaited: Awaited<D::Expect>, step: &Step<'_>) -> Result<(), OpError> {
        let work = self.works.get(awaited.work);
        let mut request = std::mem::take(&mut work.requests);
        request.clear();
        let collection = &self.collections[usize::from(awaited.collection)];
        let at_once = match step {
            Step::AtOnce => self.dialect.at_once(&work.key, &work.change, collection, &mut request),
            _ => None,
        };
        let (role, made) = match (step, at_once) {
            (_, Some(made)) => (Role::Swap, made),
            (Step::AtOnce | Step::Look, None) => (Role::Look, self.dialect.look(&work.key, collection, &mut request)),
            (Step::Swap { revision, body }, None) => {
                (Role::Swap, self.dialect.swap(&work.key, revision, body, collection, &mut request))
            }
            (Step::Make { body }, None) => {
                (Role::Swap, self.dialect.single(&Op::Insert { key: &work.key, body }, collection, &mut request))
            }
        };
        work.requests = request;
        (awaited.role, awaited.expect) = (role, made?);
        work.ends.clear();
        work.ends.push(work.requests.len());
        let pipe = &mut self.links[link].pipe;
        pipe.request(awaited, true).extend_from_slice(&work.requests);
        pipe.number(|number, request| D::number(request, number));
        if role == Role::Swap {
            self.dialect.wrote(link);
        }
        Ok(())
    }

    /// Continues an operation in steps with the document that was read and its revision.
    pub(crate) fn looked(
        &mut self,
        link: usize,
        awaited: Awaited<D::Expect>,
        read: Result<(&[u8], &[u8]), OpError>,
        out: &mut dyn Completions,
    ) {
        if awaited.abandoned {
            return self.conclude(awaited, Ok(()), None, out);
        }
        let change = &mut self.works.get(awaited.work).change;
        let next = match read {
            Ok((body, revision)) => {
                change.applied(body).and_then(|body| self.step(link, awaited, &Step::Swap { revision, body: &body }))
            }
            Err(error) if error.kind == ErrorKind::NotFound => match change.first() {
                Some(body) => self.step(link, awaited, &Step::Make { body: &body }),
                None => Err(error),
            },
            Err(error) => Err(error),
        };
        self.stepped(awaited, next, out);
    }

    /// Reads the document again, because another writer was faster.
    fn look_again(&mut self, link: usize, awaited: Awaited<D::Expect>, out: &mut dyn Completions) {
        let work = self.works.get(awaited.work);
        work.again += 1;
        let next = if awaited.abandoned || work.again > MOST_AGAIN {
            Err(OpError::new(ErrorKind::Temporary, "other writers kept changing the document between read and write"))
        } else {
            self.step(link, awaited, &Step::Look)
        };
        self.stepped(awaited, next, out);
    }

    fn stepped(&mut self, awaited: Awaited<D::Expect>, next: Result<(), OpError>, out: &mut dyn Completions) {
        match next {
            Ok(()) => self.more = true,
            Err(error) => self.conclude(awaited, Err(error), None, out),
        }
    }

    /// Handles the answer to a write. A success may still be held back.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        link: usize,
        awaited: Awaited<D::Expect>,
        result: Result<Option<i64>, OpError>,
        out: &mut dyn Completions,
    ) {
        let in_steps = awaited.role == Role::Swap;
        match result {
            Ok(None) if in_steps && awaited.kind == OpKind::Counter => {
                let sum = self.works.get(awaited.work).change.sum();
                self.conclude(awaited, Ok(()), sum, out);
            }
            Ok(counter) if awaited.kind.writes() && self.dialect.holds(link, &awaited, counter) => {}
            Ok(counter) => self.conclude(awaited, Ok(()), counter, out),
            Err(error) if in_steps && error.kind == ErrorKind::Conflict => {
                self.look_again(link, awaited, out);
            }
            // Somebody removed the counter meanwhile. The next read finds nothing, and makes it.
            Err(error) if in_steps && awaited.kind == OpKind::Counter && error.kind == ErrorKind::NotFound => {
                self.look_again(link, awaited, out);
            }
            Err(error) => self.conclude(awaited, Err(error), None, out),
        }
    }
}
