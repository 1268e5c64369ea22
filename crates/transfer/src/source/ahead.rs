//! Reads a split on a second thread, so that reading and parsing go on while the first one writes files or works for an
//! embedded store.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc as recycling;
use std::task::{Context, Poll, ready};
use std::thread::{Builder, Scope};

use tokio::sync::{mpsc, oneshot};

use super::{ReadCounts, Reader, Room, Source, Split};
use crate::error::TransferError;
use crate::measure::{Probe, Request};
use crate::records::Records;
use crate::runtime::block_on;
use crate::shape::Shape;

/// Batches that are read and not taken yet. With the one that is being read, this bounds the memory.
const BATCHES: usize = 2;

/// What one read gave, and what the reader has counted by then.
struct Batch {
    records: Records,
    more: Result<bool, TransferError>,
    requests: Vec<Request>,
    counted: ReadCounts,
}

/// The reader of a split that a second thread reads.
pub(crate) struct Ahead {
    batches: mpsc::Receiver<Batch>,
    /// Gives memory back to the thread.
    used: recycling::Sender<Records>,
    requests: Vec<Request>,
    counted: ReadCounts,
}

impl Ahead {
    /// Starts the thread, which ends when the split is read or this reader is dropped. `room` is that of every read. What the
    /// thread used is added to `probe`.
    ///
    /// # Errors
    /// As [`Source::open`]; or no thread can be started.
    pub(crate) async fn open<'scope>(
        scope: &'scope Scope<'scope, '_>,
        stack_bytes: usize,
        (source, split, shape): (&'scope dyn Source, &'scope Split, &'scope Shape),
        room: Room,
        probe: &'scope Probe,
    ) -> Result<Self, TransferError> {
        let (send, batches) = mpsc::channel(BATCHES);
        let (used, give_back) = recycling::channel();
        let (opened, is_open) = oneshot::channel();
        let read = move || {
            let start_ns = probe.now_ns();
            let read = block_on(async {
                let mut opened = opened;
                let mut opening = source.open(split, shape);
                let reader = poll_fn(|cx| match opened.poll_closed(cx) {
                    Poll::Ready(()) => Poll::Ready(None),
                    Poll::Pending => opening.as_mut().poll(cx).map(Some),
                });
                let Some(reader) = reader.await else { return Ok(()) };
                let (reader, answer) = match reader {
                    Ok(reader) => (Some(reader), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                // The copy may have stopped meanwhile; then nobody listens.
                let _ = opened.send(answer);
                if let Some(mut reader) = reader {
                    read_all(&mut *reader, room, &send, &give_back).await;
                }
                Ok(())
            });
            // Without an event loop, `opened` is dropped, which the other side reports.
            let _: Result<(), TransferError> = read;
            probe.has_read(start_ns);
        };
        let thread = Builder::new().name("copy-reads".to_owned()).stack_size(stack_bytes).spawn_scoped(scope, read);
        thread.map_err(|e| TransferError::Target(format!("cannot start a thread: {e}")))?;
        is_open.await.unwrap_or_else(|_| Err(ended()))?;
        Ok(Self { batches, used, requests: Vec::new(), counted: ReadCounts::default() })
    }
}

fn ended() -> TransferError {
    TransferError::Target("the thread that reads ended early".to_owned())
}

/// Reads until the end, an error, or until nobody takes what was read.
async fn read_all(
    reader: &mut dyn Reader,
    room: Room,
    send: &mpsc::Sender<Batch>,
    give_back: &recycling::Receiver<Records>,
) {
    loop {
        let mut records = give_back.try_recv().unwrap_or_default();
        records.clear();
        let mut unwanted = pin!(send.closed());
        let read = poll_fn(|cx| match unwanted.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => reader.poll_read(cx, room, &mut records).map(Some),
        });
        let Some(more) = read.await else { return };
        let go_on = matches!(more, Ok(true));
        let mut batch = Batch { records, more, requests: Vec::new(), counted: reader.counted() };
        reader.requests(&mut batch.requests);
        if send.send(batch).await.is_err() || !go_on {
            return;
        }
    }
}

impl Reader for Ahead {
    /// `into` must be empty, as it is for every read of a copy.
    fn poll_read(&mut self, cx: &mut Context<'_>, _: Room, into: &mut Records) -> Poll<Result<bool, TransferError>> {
        let Some(batch) = ready!(self.batches.poll_recv(cx)) else { return Poll::Ready(Err(ended())) };
        let Batch { records, more, mut requests, counted } = batch;
        debug_assert!(into.is_empty());
        // It goes to the thread, which may have ended.
        let _ = self.used.send(std::mem::replace(into, records));
        self.requests.append(&mut requests);
        self.counted = counted;
        Poll::Ready(more)
    }

    fn counted(&self) -> ReadCounts {
        self.counted
    }

    fn requests(&mut self, into: &mut Vec<Request>) {
        into.append(&mut self.requests);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use storebench_engine::store::{Durability, LocalFuture};

    use super::*;
    use crate::measure::{Meter, RequestKinds, Writes};
    use crate::records::Origin;
    use crate::source::{Opened, Part, Snapshot, Unreadable};

    /// What the reader does after its records.
    #[derive(Clone, Copy, PartialEq)]
    enum Then {
        Ends,
        Fails,
        Waits,
    }

    /// A source of three records, one at each read.
    struct Three {
        opens: bool,
        then: Then,
        /// Whether the reader was dropped.
        gone: AtomicBool,
    }

    struct OneByOne<'a> {
        of: &'a Three,
        next: u64,
    }

    impl Drop for OneByOne<'_> {
        fn drop(&mut self) {
            self.of.gone.store(true, Ordering::SeqCst);
        }
    }

    impl Reader for OneByOne<'_> {
        fn poll_read(&mut self, _: &mut Context<'_>, _: Room, into: &mut Records) -> Poll<Result<bool, TransferError>> {
            if self.next == 3 {
                return match self.of.then {
                    Then::Ends => Poll::Ready(Ok(false)),
                    Then::Fails => Poll::Ready(Err(TransferError::Damaged("cut off".into()))),
                    Then::Waits => Poll::Pending,
                };
            }
            let origin = Origin { unit: 0, at: self.next };
            into.push(&format!("k{}", self.next), b"{}", origin);
            if self.next == 1 {
                into.bad.push(Unreadable { origin, ..Unreadable::of("no".into(), b"x") });
            }
            self.next += 1;
            Poll::Ready(Ok(true))
        }

        fn counted(&self) -> ReadCounts {
            ReadCounts { bytes: self.next * 10, dropped: self.next, dropped_expiry: 0 }
        }
    }

    impl Source for Three {
        fn describe(&self) -> String {
            "three".into()
        }
        fn fingerprint(&self) -> String {
            String::new()
        }
        fn snapshot(&self) -> Snapshot {
            Snapshot::Yes("")
        }
        fn splits(&self, _: u32) -> Result<Vec<Split>, TransferError> {
            Ok(Vec::new())
        }
        fn open<'a>(&'a self, _: &'a Split, _: &'a Shape) -> LocalFuture<'a, Opened<'a>> {
            Box::pin(async {
                if !self.opens {
                    return Err(TransferError::Damaged("not there".into()));
                }
                Ok(Box::new(OneByOne { of: self, next: 0 }) as Box<dyn Reader>)
            })
        }
        fn place(&self, _: &Split, _: Origin) -> String {
            String::new()
        }
    }

    /// Keys, unreadable records, and what was counted at the end; then the result of the last read.
    fn read(source: &Three, at_most: usize) -> (Vec<String>, usize, [u64; 2], Result<bool, String>) {
        let split = Split { number: 0, part: Part::Query, bytes: None };
        let (shape, room) = (Shape::new(None, "copy"), Room { records: 1, bytes: 1 });
        let (mut keys, mut bad, mut counted) = (Vec::new(), 0, [0; 2]);
        let requests = RequestKinds { kinds: Vec::new(), batch: 1 };
        let writes = Writes { requests, in_flight: 1, durability: Durability::MEMORY };
        let probe = Meter::new(None, writes, 1, std::time::Duration::from_secs(1), None).probe(0);
        let end = std::thread::scope(|scope| {
            block_on(async {
                let opened = Ahead::open(scope, 1 << 20, (source, &split, &shape), room, &probe).await;
                let mut reader = match opened {
                    Ok(reader) => reader,
                    Err(error) => return Ok(Err(error)),
                };
                for _ in 0..at_most {
                    let mut records = Records::new();
                    let more = poll_fn(|cx| reader.poll_read(cx, room, &mut records)).await;
                    bad += records.bad.len();
                    keys.extend((0..records.len()).filter_map(|at| Some(records.get(at)?.0.to_owned())));
                    counted = [reader.counted().bytes, reader.counted().dropped];
                    if !matches!(more, Ok(true)) {
                        return Ok(more);
                    }
                }
                Ok(Ok(true))
            })
        });
        (keys, bad, counted, end.unwrap().map_err(|e: TransferError| e.to_string()))
    }

    fn damaged(what: &str) -> String {
        TransferError::Damaged(what.into()).to_string()
    }

    fn three(opens: bool, then: Then) -> Three {
        Three { opens, then, gone: AtomicBool::new(false) }
    }

    #[test]
    fn everything_comes_in_order_with_its_counts() {
        let keys = ["k0", "k1", "k2"].map(str::to_owned);
        assert_eq!(read(&three(true, Then::Ends), 9), (keys.to_vec(), 1, [30, 3], Ok(false)));
        let fails = read(&three(true, Then::Fails), 9);
        assert_eq!(fails, (keys.to_vec(), 1, [30, 3], Err(damaged("cut off"))));
        let closed = read(&three(false, Then::Ends), 9).3;
        assert_eq!(closed, Err(damaged("not there")));
    }

    /// The thread ends, although its reader waits for ever, or has more than fits.
    #[test]
    fn a_copy_that_stops_does_not_wait_for_the_reader() {
        for (then, at_most) in [(Then::Waits, 3), (Then::Ends, 0), (Then::Waits, 0)] {
            let source = three(true, then);
            assert_eq!(read(&source, at_most).3, Ok(true));
            assert!(source.gone.load(Ordering::SeqCst));
        }
    }
}
