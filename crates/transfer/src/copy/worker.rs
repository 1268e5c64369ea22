//! One worker: reads splits and writes them, both concurrently on one thread.

use std::future::poll_fn;
use std::sync::PoisonError;
use std::task::{Context, Poll};
use std::thread::Scope;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::value::to_raw_value;
use storebench_engine::store::{ErrorKind, SameKeys};
use storebench_engine::{Clock, RealClock};

use super::{CopyRequest, STACK_BYTES, Shared};
use crate::error::TransferError;
use crate::manifest::{Counts, Damage, Entry, Partly};
use crate::measure::{Probe, Request};
use crate::records::{Origin, Records};
use crate::rejects::{Reject, record};
use crate::runtime::{block_on, unless};
use crate::sink::{Again, Ended, Refusal, Writer};
use crate::source::ahead::Ahead;
use crate::source::{Part, ReadCounts, Reader, Split, Unreadable};
use crate::timer::Timer;
use crate::verify::hash;
use crate::verify::spool::{self, Spool};

/// Most batches whose memory is kept for reuse.
const SPARE: usize = 16;

/// Copies splits until none is left.
pub(super) fn run(shared: &Shared<'_>, probe: &Probe) -> Result<(), TransferError> {
    std::thread::scope(|scope| {
        block_on(async {
            let (mut writer, mut lost) = (None, 0);
            while let Some(split) = shared.take() {
                let writer = match &mut writer {
                    Some(writer) => writer,
                    None => match unless(|| shared.ends(), shared.request.sink.open(shared.may_repeat)).await {
                        None => return Ok(()),
                        Some(opened) => writer.insert(opened?),
                    },
                };
                let _under_way = shared.begin_split();
                let mut worker = Worker::new(shared, probe, split, lost);
                worker.copy(scope, &mut **writer).await?;
                lost = worker.lost;
            }
            Ok(())
        })
    })
}

/// Opens a split. If writing takes this thread's time, and another processor is free, a second thread reads.
async fn open<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared<'_>,
    probe: &'scope Probe,
    split: &'scope Split,
) -> Result<Box<dyn Reader + 'scope>, TransferError> {
    let CopyRequest { source, sink, shape, .. } = *shared.request;
    let writing_is_work = sink.store().is_none_or(|store| store.capabilities().embedded);
    if writing_is_work && source.reopens() && shared.has_free_processors() {
        let reader =
            Ahead::open(scope, STACK_BYTES, (source, split, shape), shared.pace.room(sink.room()), probe).await?;
        return Ok(Box::new(reader));
    }
    source.open(split, shape).await
}

/// The copy of one split.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    probe: &'a Probe,
    /// How often the writer had lost its connection, which is logged.
    lost: u64,
    /// Measured requests that are not recorded yet.
    requests: Vec<Request>,
    split: &'a Split,
    clock: RealClock,
    counts: Counts,
    /// Where an earlier process stopped, for records that must not be written twice.
    partly: Partly,
    last_bad: Option<u64>,
    /// Counts that are added only when the split is done, because a resumed split is read from its beginning.
    at_end: Counts,
    ended: Vec<Ended>,
    spare: Vec<Records>,
    /// Hashes of what was written, for verification.
    spool: Option<Spool>,
    refused: Vec<usize>,
    /// Whether a few keys go into the log, so that a resume can check the target. `keys` are the first and last
    /// acknowledged ones.
    keeps_keys: bool,
    keys: [String; 2],
    /// Members that the target adds to documents itself.
    own: Vec<String>,
    /// Which keys the target takes for one.
    same: SameKeys,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>, probe: &'a Probe, split: &'a Split, lost: u64) -> Self {
        let partly = shared.manifest.partly.get(&split.number).copied().unwrap_or_default();
        Self {
            shared,
            probe,
            lost,
            requests: Vec::new(),
            split,
            clock: RealClock::new(),
            counts: partly.counts,
            last_bad: partly.last_bad,
            partly,
            at_end: Counts::default(),
            ended: Vec::new(),
            spare: Vec::new(),
            spool: None,
            refused: Vec::new(),
            keeps_keys: shared.request.sink.keeps_keys(),
            keys: Default::default(),
            own: shared.request.sink.own_members(),
            same: shared.request.sink.same_keys(),
        }
    }

    async fn copy<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        writer: &mut dyn Writer,
    ) -> Result<(), TransferError>
    where
        'a: 'scope,
    {
        let request = self.shared.request;
        let once = request.sink.again() == Again::Once;
        let room = self.shared.pace.room(request.sink.room());
        writer.begin(self.split)?;
        if request.verify {
            self.spool = Some(Spool::create(&request.folder, self.split.number)?);
        } else {
            // An earlier process's spool would be incomplete.
            spool::remove(&request.folder, self.split.number)?;
        }
        let shared = self.shared;
        let ends = || shared.ends();
        let mut reader = match unless(ends, open(scope, shared, self.probe, self.split)).await {
            None => return self.stop(false, 0),
            // A reader that waited for its input gave up.
            Some(Err(_)) if shared.stop.asked() => return self.stop(false, 0),
            Some(Err(TransferError::Damaged(what))) => return self.end(writer, Some(what)).await,
            Some(reader) => reader?,
        };
        let mut timer = Timer::default();
        let mut counted = ReadCounts::default();
        let mut settled = 0;
        let broken = loop {
            if self.shared.ends() {
                return self.stop(once, settled);
            }
            let mut records = self.spare.pop().unwrap_or_default();
            records.clear();
            let read = poll_fn(|cx| -> Poll<Result<_, TransferError>> {
                let _ = self.poll(cx, writer)?;
                reader.poll_read(cx, room, &mut records).map(Ok)
            });
            let Some(read) = unless(ends, read).await else {
                self.settle()?;
                return self.stop(once, settled);
            };
            let read = read?;
            // Records read before the error are written first.
            let (more, broken) = read.map_or_else(|error| (false, Some(error)), |more| (more, None));
            // Lets the runtime poll its sockets. A reader of files never waits, and answers that arrived while it held
            // the thread must be handled before their requests time out.
            tokio::task::yield_now().await;
            let before = std::mem::replace(&mut counted, reader.counted());
            self.shared.progress().read_bytes += counted.bytes - before.bytes;
            reader.requests(&mut self.requests);
            self.measure(writer);
            self.tell_unreadable(std::mem::take(&mut records.bad))?;
            self.at_end.read += records.skipped;
            self.at_end.skipped += records.skipped;
            self.at_end.keys_made_text += records.keys_made_text;
            if once {
                self.leave_out(&mut records, &mut settled)?;
            }
            self.settle()?;
            if !records.is_empty() {
                self.counts.read += records.len() as u64;
                let due_ns = self.shared.pace.take(records.len(), records.bytes(), self.clock.now_ns());
                let room = poll_fn(|cx| -> Poll<Result<_, TransferError>> {
                    let _ = self.poll(cx, writer)?;
                    let left_ns = due_ns.saturating_sub(self.clock.now_ns());
                    if left_ns > 0 && timer.poll(cx, Duration::from_nanos(left_ns)).is_pending() {
                        return Poll::Pending;
                    }
                    if writer.has_room() { Poll::Ready(Ok(())) } else { Poll::Pending }
                });
                let Some(room) = unless(ends, room).await else {
                    // These records were not sent.
                    self.counts.read -= records.len() as u64;
                    self.settle()?;
                    return self.stop(once, settled);
                };
                room?;
                if once {
                    let doubtful = records.len() as u64;
                    let counts = Counts { read: self.counts.read - doubtful, ..self.counts };
                    self.log(Partly { settled, doubtful, last_bad: self.last_bad, counts })?;
                    settled += doubtful;
                }
                writer.put(records)?;
                if once && !self.drain(writer).await? {
                    // The log says that these records may have been applied.
                    return self.stop(false, 0);
                }
            } else {
                self.spare.push(records);
            }
            if !more {
                break broken;
            }
        };
        let damage = match broken {
            None => None,
            Some(TransferError::Damaged(what)) => Some(what),
            Some(_) if shared.stop.asked() => return self.stop(once, settled),
            Some(error) => {
                let answered = self.drain(writer).await?;
                self.stop(once && answered, settled)?;
                return Err(error);
            }
        };
        self.at_end.dropped_attachments = counted.dropped;
        self.at_end.dropped_expiry = counted.dropped_expiry;
        self.counts += self.at_end;
        self.end(writer, damage).await
    }

    /// Stops in the middle of the split, so that a resume can continue it.
    fn stop(&self, once: bool, settled: u64) -> Result<(), TransferError> {
        let counted = self.counts.since(self.partly.counts);
        *self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner) += counted;
        if once && settled > self.partly.settled + self.partly.doubtful {
            // All sent records have been answered, so none is doubtful.
            self.log(Partly { settled, doubtful: 0, last_bad: self.last_bad, counts: self.counts })?;
        }
        Ok(())
    }

    /// Logs how far the split is, after the rejects of its settled records are synced.
    fn log(&self, partly: Partly) -> Result<(), TransferError> {
        self.shared.rejects.sync()?;
        self.shared.manifest.add(&Entry::Sending { split: self.split.number, partly, keys: self.acknowledged() })
    }

    /// Finishes the split. All its readable records have been passed to the writer.
    async fn end(&mut self, writer: &mut dyn Writer, damage: Option<String>) -> Result<(), TransferError> {
        if !self.drain(writer).await? {
            return self.stop(false, 0);
        }
        writer.end()?;
        self.spool.take().map_or(Ok(()), Spool::end)?;
        self.shared.rejects.sync()?;
        let part = matches!(self.split.part, Part::RowGroup { .. });
        let within = if part { " (in one part of the file; its other parts are read)" } else { "" };
        let damage = damage.map(|what| Damage { what: what + within, records: self.counts.written });
        self.shared.manifest.done(self.split.number, self.counts, damage, self.acknowledged())?;
        let mut total = self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
        // The counts of an earlier process were added when the copy was resumed.
        *total += self.counts.since(self.partly.counts);
        self.shared.progress().splits_done += 1;
        Ok(())
    }

    /// Lets the writer go on. A connection that it lost is logged at once, whatever ends this process.
    fn poll(&mut self, cx: &mut Context<'_>, writer: &mut dyn Writer) -> Poll<Result<(), TransferError>> {
        let polled = writer.poll(cx, &mut self.ended);
        let lost = writer.disconnects();
        if lost > self.lost {
            self.shared.manifest.disconnected(lost - self.lost)?;
            self.lost = lost;
        }
        polled
    }

    /// Waits until all batches passed to the writer are finished. Returns false if the copy is to stop before.
    async fn drain(&mut self, writer: &mut dyn Writer) -> Result<bool, TransferError> {
        let shared = self.shared;
        let drained = unless(|| shared.ends(), poll_fn(|cx| self.poll(cx, writer))).await;
        self.measure(writer);
        self.settle()?;
        drained.map_or(Ok(false), |drained| drained.map(|()| true))
    }

    fn measure(&mut self, writer: &mut dyn Writer) {
        writer.requests(&mut self.requests);
        self.probe.take(&mut self.requests);
    }

    /// Removes from a batch the records that an earlier process settled or may have written.
    fn leave_out(&mut self, records: &mut Records, settled: &mut u64) -> Result<(), TransferError> {
        let known = self.partly.settled + self.partly.doubtful;
        let gone = known.saturating_sub(*settled).min(records.len() as u64);
        if gone == 0 {
            return Ok(());
        }
        for position in self.partly.settled.saturating_sub(*settled)..gone {
            self.counts.read += 1;
            let why =
                "the copy was killed while sending it; it may have been applied; check, and apply it by hand if not";
            let (position, kind) = (position as usize, ErrorKind::OutcomeUnknown);
            self.reject(records, &Refusal { position, kind, why: why.to_owned(), tries: 1 })?;
        }
        let mut rest = Records::new();
        records.pick(gone as usize..records.len(), &mut rest);
        *records = rest;
        *settled += gone;
        Ok(())
    }

    /// Keys of the split that must be in the target from now on.
    fn acknowledged(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.keys.iter().filter(|key| !key.is_empty()).cloned().collect();
        keys.dedup();
        keys
    }

    /// Remembers the first and the last written key.
    fn keep_keys(&mut self, ended: &Ended) {
        if !self.keeps_keys {
            return;
        }
        let written = |position: &usize| {
            !ended.expired.contains(position) && !ended.refused.iter().any(|refusal| refusal.position == *position)
        };
        let Some(last) = (0..ended.records.len()).rev().find(written) else { return };
        let Some((key, ..)) = ended.records.get(last) else { return };
        if self.keys[0].is_empty() {
            self.keys[0].push_str(key);
        }
        self.keys[1].clear();
        self.keys[1].push_str(key);
    }

    fn settle(&mut self) -> Result<(), TransferError> {
        for ended in std::mem::take(&mut self.ended) {
            self.keep_keys(&ended);
            let sent = ended.sent();
            let mut bytes = sent.bytes();
            for refusal in &ended.refused {
                self.reject(&ended.records, refusal)?;
                bytes -= sent.bytes_of(refusal.position);
            }
            for position in &ended.expired {
                bytes -= sent.bytes_of(*position);
            }
            self.refused.clear();
            self.refused.extend(ended.refused.iter().map(|refusal| refusal.position));
            self.refused.extend(&ended.expired);
            if let Some(repeats) = &self.shared.repeats {
                repeats.add(&ended.records, &self.refused, self.same);
            }
            if let Some(spool) = &mut self.spool {
                let own: Vec<&str> = self.own.iter().map(String::as_str).collect();
                let nulls = self.shared.request.sink.keeps_nulls();
                for (position, (key, body, _)) in sent.iter().enumerate() {
                    if !self.refused.contains(&position) {
                        let key = &*self.same.fold(key);
                        let gone = ended.gone.get(position).copied().flatten();
                        spool.add(key, hash::seen(key, body, &own, nulls), gone)?;
                    }
                }
            }
            let skipped = ended.skipped + ended.expired.len() as u64;
            let written = (ended.records.len() - ended.refused.len()) as u64 - skipped;
            self.counts.skipped += skipped;
            self.counts.written += written;
            self.counts.there_already += ended.there_already;
            self.counts.retries += ended.retries;
            self.counts.without_own_members += ended.without_own;
            self.counts.bytes += bytes as u64;
            {
                let mut progress = self.shared.progress();
                progress.documents += written;
                progress.bytes += bytes as u64;
            }
            if self.spare.len() < SPARE {
                self.spare.push(ended.records);
            }
        }
        Ok(())
    }

    fn reject(&mut self, records: &Records, refusal: &Refusal) -> Result<(), TransferError> {
        let &Refusal { position, kind, tries, .. } = refusal;
        let Some((key, body, origin)) = records.get(position) else { return Ok(()) };
        let request = self.shared.request;
        let op = records.mark_of(position).verb.map_or(request.op, |verb| verb.name()).to_owned();
        let record = record(&request.shape.original(key, records.before(position), body));
        let (key, error, why) = (Some(key.to_owned()), kind.name().to_owned(), refusal.why.clone());
        self.add_reject(origin, Reject { key, op, error, why, tries, record, ..Reject::default() })
    }

    /// Adds a record to the file of rejects, with the place where it came from.
    fn add_reject(&mut self, origin: Origin, reject: Reject) -> Result<(), TransferError> {
        let from = self.shared.request.source.place(self.split, origin);
        self.counts.rejected += 1;
        self.shared.progress().rejected += 1;
        self.shared.rejects.add(&Reject { from, split: self.split.number, ..reject })
    }

    fn tell_unreadable(&mut self, all: Vec<Unreadable>) -> Result<(), TransferError> {
        for bad in all {
            // The earlier process reported it.
            if self.partly.last_bad.is_some_and(|last| bad.origin.at <= last) {
                continue;
            }
            self.counts.read += 1;
            self.last_bad = Some(bad.origin.at);
            let record = match &bad.key {
                // As a file would hold it, so that it can be copied from the file of rejects.
                Some(key) if bad.exact => record(&self.shared.request.shape.original(key, None, bad.text.as_bytes())),
                None if bad.exact => record(bad.text.as_bytes()),
                _ => to_raw_value(&bad.text).unwrap_or_default(),
            };
            let Unreadable { origin, key, key_bytes, bytes, why, .. } = bad;
            let base64 = |bytes: Box<[u8]>| BASE64_STANDARD.encode(bytes);
            let (key_base64, record_base64) = (key_bytes.map(base64), bytes.map(base64));
            let (op, error) = (self.shared.request.op.to_owned(), "unreadable".to_owned());
            self.add_reject(
                origin,
                Reject { key, key_base64, op, error, why, record, record_base64, ..Reject::default() },
            )?;
        }
        Ok(())
    }
}
