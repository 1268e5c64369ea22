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

/// What came of a step.
enum Found<'a> {
    /// The document, with its revision.
    Document { body: &'a [u8], revision: &'a [u8] },
    /// There is no document.
    Nothing,
    /// Another writer was faster.
    Changed,
}

impl<D: Dialect> Pipelined<D> {
    /// Begins a change of one document: at once if a request does that, otherwise by reading it.
    pub(super) fn in_steps(
        &mut self,
        position: usize,
        key: &str,
        change: Change,
        awaited: Awaited<D::Expect>,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let link = self.dialect.link_of(&self.collections[position], key);
        if !self.is_ready(link, out) {
            return Err(self.links[link].not_connected());
        }
        let number = self.works.take(awaited.token, awaited.kind, false);
        let work = self.works.get(number);
        (work.collection, work.change) = (position, change);
        work.key.push_str(key);
        if let Err(error) = self.step(link, number, &Step::AtOnce) {
            self.works.give_back(number);
            return Err(error);
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Sends the next request.
    fn step(&mut self, link: usize, number: u32, step: &Step<'_>) -> Result<(), OpError> {
        let work = self.works.get(number);
        let mut request = std::mem::take(&mut work.requests);
        request.clear();
        let collection = &self.collections[work.collection];
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
        let writes = role == Role::Swap;
        work.requests = request;
        let awaited = Awaited {
            token: work.token,
            kind: work.kind,
            expect: made?,
            role,
            contents: false,
            abandoned: false,
            collection: work.collection as u16,
            work: number,
            item: 0,
        };
        work.ends.clear();
        work.ends.push(work.requests.len());
        let pipe = &mut self.links[link].pipe;
        pipe.request(awaited, true).extend_from_slice(&work.requests);
        pipe.number(|number, request| D::number(request, number));
        if writes {
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
        match read {
            Ok((body, revision)) => self.next_step(link, awaited, Found::Document { body, revision }, out),
            Err(error) if error.kind == ErrorKind::NotFound => self.next_step(link, awaited, Found::Nothing, out),
            Err(error) => self.conclude(awaited, Err(error), None, out),
        }
    }

    fn next_step(&mut self, link: usize, awaited: Awaited<D::Expect>, found: Found<'_>, out: &mut dyn Completions) {
        let work = self.works.get(awaited.work);
        work.again += u32::from(matches!(found, Found::Changed));
        let next = if awaited.abandoned || work.again > MOST_AGAIN {
            Err(OpError::new(ErrorKind::Temporary, "other writers kept changing the document between read and write"))
        } else {
            match found {
                Found::Changed => self.step(link, awaited.work, &Step::Look),
                Found::Document { body, revision } => work
                    .change
                    .applied(body)
                    .and_then(|body| self.step(link, awaited.work, &Step::Swap { revision, body: &body })),
                Found::Nothing => match work.change.first() {
                    Some(body) => self.step(link, awaited.work, &Step::Make { body: &body }),
                    None => Err(OpError::not_found()),
                },
            }
        };
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
                self.next_step(link, awaited, Found::Changed, out);
            }
            // Somebody removed the counter meanwhile. The next read finds nothing, and makes it.
            Err(error) if in_steps && awaited.kind == OpKind::Counter && error.kind == ErrorKind::NotFound => {
                self.next_step(link, awaited, Found::Changed, out);
            }
            Err(error) => self.conclude(awaited, Err(error), None, out),
        }
    }
}
