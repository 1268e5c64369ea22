//! What happens to a batch before it is sent: each record is checked, and gets its first step.

use jiff::Timestamp;
use storebench_engine::store::ErrorKind;
use storebench_study::workload::Body;

use super::{Batch, Part, Piece, Step, WriteSession};
use crate::records::Records;
use crate::shape::Expiry;
use crate::sink::merge::Merge;
use crate::sink::request::integer;
use crate::sink::reserved::Fate;
use crate::sink::store::RecordOp;
use crate::sink::{Ended, Refusal};

impl WriteSession<'_> {
    /// Accepts a batch, applying this operation to its records.
    pub(in crate::sink) fn put_as(&mut self, verb: RecordOp, records: Records) {
        let batch = self.batches.iter().position(Option::is_none).unwrap_or_else(|| {
            self.batches.push(None);
            self.batches.len() - 1
        });
        let (mut steps, mut refused, mut expired) = (Vec::new(), Vec::new(), Vec::new());
        let (mut changed, mut without_own) = (Vec::new(), 0);
        let mut refuse = |position, why| refused.push(Refusal { position, kind: ErrorKind::Refused, why, tries: 0 });
        for position in 0..records.len() {
            match self.first_step(verb, &records, position) {
                Ok(Some(Step::Do)) if verb.body() == Body::Json && verb != RecordOp::Delete => {
                    let (key, body, _) = records.get(position).unwrap_or_default();
                    match self.reserved.fate(key, body) {
                        Fate::AsIs => steps.push((position, Step::Do)),
                        Fate::As(body, lost) => {
                            changed.push((position, body));
                            without_own += u64::from(lost);
                            steps.push((position, Step::Do));
                        }
                        Fate::Rejected(why) => refuse(position, why),
                    }
                }
                Ok(Some(step)) => steps.push((position, step)),
                Ok(None) => expired.push(position),
                Err(why) => refuse(position, why),
            }
        }
        let whole = refused.is_empty() && expired.is_empty();
        let changed = (!changed.is_empty()).then(|| replaced(&records, changed));
        let gone = self.gone(verb, &records);
        let ended = Ended { records, changed, without_own, refused, expired, gone, ..Ended::default() };
        self.batches[batch] = Some(Batch { ended, pieces: 0, verb });
        let first = self.ready.len();
        if !verb.many() {
            let one = |(position, step)| Piece::of(batch, Part::One(position), step);
            self.ready.extend(steps.into_iter().map(one));
        } else if whole {
            self.ready.push_back(Piece::of(batch, Part::All, Step::Do));
        } else if !steps.is_empty() {
            let some: Vec<usize> = steps.into_iter().map(|(position, _)| position).collect();
            let part = self.part(&Piece::of(batch, Part::All, Step::Do), &some);
            self.ready.push_back(part);
        }
        if let Some(batch) = &mut self.batches[batch] {
            batch.pieces = self.ready.len() - first;
        }
        self.open += 1;
        self.send();
    }

    /// Whether the store supports a record's operation.
    fn can(&self, verb: RecordOp) -> bool {
        let by_expression = verb == RecordOp::Merge && self.options.merge.is_some();
        by_expression || self.can.contains(&verb.kind())
    }

    /// When each of these records may be gone again; empty if none of them expires.
    fn gone(&self, verb: RecordOp, records: &Records) -> Vec<Option<Timestamp>> {
        let expiry = |position| self.expiry(verb, records, position);
        if !(0..records.len()).any(|position| expiry(position).is_some()) {
            return Vec::new();
        }
        let now = Timestamp::now();
        (0..records.len()).map(|position| expiry(position).map(|expiry| expiry.gone_from(now))).collect()
    }

    /// When a record is to expire.
    fn expiry(&self, verb: RecordOp, records: &Records, position: usize) -> Option<Expiry> {
        records.mark_of(position).expiry.or(self.options.expiry).filter(|_| verb != RecordOp::Delete)
    }

    /// The first step for a record; `None` if it has expired in the source.
    ///
    /// # Errors
    /// Why the record cannot be written.
    fn first_step(&self, verb: RecordOp, records: &Records, position: usize) -> Result<Option<Step>, String> {
        let expiry = self.expiry(verb, records, position);
        let now = expiry.map(|_| Timestamp::now()).unwrap_or_default();
        if expiry.is_some_and(|expiry| expiry.gone_at(now)) {
            return Ok(None);
        }
        let wrong = expiry.and_then(|expiry| expiry.wrong_at(now));
        match verb {
            _ if !self.can(verb) => Err("this store does not support the operation".to_owned()),
            _ if wrong.is_some() => Err(wrong.unwrap_or_default()),
            RecordOp::Counter if integer(records.get(position).unwrap_or_default().1).is_none() => {
                Err("not a 64-bit integer; name the field that holds it with --value".to_owned())
            }
            RecordOp::Touch if expiry.is_none() => Err("it has no expiry; use --expiry to set a default".to_owned()),
            RecordOp::Touch => Ok(Some(Step::Expire)),
            RecordOp::Merge if self.options.merge.is_some() => Ok(Some(Step::Merge(Merge::default()))),
            _ => Ok(Some(Step::Do)),
        }
    }
}

/// The records with replaced bodies at some positions, which are in ascending order.
fn replaced(records: &Records, bodies: Vec<(usize, Vec<u8>)>) -> Records {
    let (mut all, mut bodies) = (Records::new(), bodies.into_iter().peekable());
    for (position, (key, body, origin)) in records.iter().enumerate() {
        let other = bodies.next_if(|(at, _)| *at == position);
        all.push(key, other.as_ref().map_or(body, |(_, other)| other), origin);
        all.mark(records.mark_of(position));
    }
    all
}
