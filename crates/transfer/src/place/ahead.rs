//! Reads an object sequentially with read-ahead.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

use bytes::{Buf as _, Bytes};
use futures_util::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};

use super::object::{Object, Version};
use super::runtime::handle;
use crate::error::TransferError;

/// Bytes of one request.
const PIECE_BYTES: u64 = 4 << 20;
/// Pieces that are being fetched or wait to be read. Together with the one being read they bound a reader's memory.
const PIECES: u32 = 4;
/// Bytes after the wanted end that are fetched along with it, to complete the last line.
const BEYOND_BYTES: u64 = 64 << 10;

/// A piece, with the error that followed it if it is incomplete.
type Answer = Result<(Bytes, OwnedSemaphorePermit, Option<TransferError>), TransferError>;
/// Receives the next piece; `None` at the end.
type Next = Option<Receiver<Answer>>;

/// Reads an object. Dropping it stops all fetches.
pub(super) struct Ahead {
    /// Receivers of the pieces, in order. The sender ends with `None`; if the channel closes without it, the fetch
    /// failed.
    pieces: Receiver<Next>,
    piece: Bytes,
    room: Option<OwnedSemaphorePermit>,
    fetches: Result<AbortHandle, TransferError>,
    name: String,
    ended: bool,
    /// The error that followed the piece.
    fault: Option<TransferError>,
}

impl Ahead {
    pub(super) fn new(object: Object, version: Version, from: u64, until: u64) -> Self {
        Self::of(object.shown.to_string(), move |sender| async move {
            match version.bytes().filter(|_| version.ranges) {
                Some(bytes) => fetch(object, version, from, until, bytes, sender).await,
                None => stream(object, version, sender).await,
            }
        })
    }

    /// Reads the pieces that `work` sends.
    fn of<W: Future<Output = ()> + Send + 'static>(name: String, work: impl FnOnce(Sender<Next>) -> W) -> Self {
        let (sender, pieces) = channel();
        let fetches = handle().map(|handle| handle.spawn(work(sender)).abort_handle());
        Self { pieces, piece: Bytes::new(), room: None, fetches, name, ended: false, fault: None }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Ok(fetches) = &self.fetches {
            fetches.abort();
        }
    }
}

impl Read for Ahead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Err(error) = &self.fetches {
            return Err(error.clone().into());
        }
        while !self.ended && self.piece.is_empty() {
            if let Some(fault) = &self.fault {
                return Err(fault.clone().into());
            }
            // The piece is used up, so another piece may take its memory.
            self.room = None;
            let lost = || TransferError::Source(format!("{}: a request ended without an answer", self.name));
            match self.pieces.recv() {
                Err(_) => return Err(lost().into()),
                Ok(None) => self.ended = true,
                Ok(Some(answer)) => {
                    let (piece, room, fault) = answer.recv().unwrap_or_else(|_| Err(lost()))?;
                    (self.piece, self.room, self.fault) = (piece, Some(room), fault);
                }
            }
        }
        let length = self.piece.len().min(into.len());
        self.piece.copy_to_slice(&mut into[..length]);
        Ok(length)
    }
}

/// Fetches ranges, several at once, up to about `until`. Later ranges are fetched one at a time, each when everything
/// before it was read.
async fn fetch(object: Object, version: Version, from: u64, until: u64, bytes: u64, sender: Sender<Next>) {
    let room = Arc::new(Semaphore::new(PIECES as usize));
    let until = until.saturating_add(BEYOND_BYTES).min(bytes);
    let mut fetches = JoinSet::new();
    let mut at = from;
    while at < bytes {
        let (end, needs) =
            if at < until { ((at + PIECE_BYTES).min(until), 1) } else { ((at + PIECE_BYTES).min(bytes), PIECES) };
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&room).acquire_many_owned(needs).await else { return };
        let (answer, receiver) = sync_channel(1);
        if sender.send(Some(receiver)).is_err() {
            return;
        }
        let (object, version, range) = (object.clone(), version.clone(), at..end);
        fetches.spawn(async move {
            let piece = object.beginning(&version, range).await;
            let _ = answer.send(piece.map(|(piece, fault)| (piece, permit, fault)));
        });
        while fetches.try_join_next().is_some() {}
        at = end;
    }
    // A dropped reader needs nothing more.
    let _ = sender.send(None);
    while fetches.join_next().await.is_some() {}
}

/// Fetches the whole object in one response, for servers without range requests.
async fn stream(object: Object, version: Version, sender: Sender<Next>) {
    let room = Arc::new(Semaphore::new(PIECES as usize));
    let give = |answer: Answer| {
        let (answers, receiver) = sync_channel(1);
        let _ = answers.send(answer);
        sender.send(Some(receiver)).is_ok()
    };
    let mut pieces = match object.get(&version, None).await {
        Ok(got) => got.into_stream(),
        Err(error) => {
            give(Err(error));
            return;
        }
    };
    let mut gathered = Vec::new();
    loop {
        let piece = pieces.next().await;
        let ended = piece.is_none();
        match piece {
            Some(Ok(piece)) => gathered.extend_from_slice(&piece),
            Some(Err(error)) => {
                // The bytes before the error are still delivered.
                let fault = object.fault(super::fault::When::Read, &error);
                let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
                give(Ok((gathered.into(), permit, Some(fault))));
                return;
            }
            None => {}
        }
        if gathered.len() as u64 >= PIECE_BYTES || ended {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            if !give(Ok((std::mem::take(&mut gathered).into(), permit, None))) {
                return;
            }
        }
        if ended {
            // A dropped reader needs nothing more.
            let _ = sender.send(None);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give(sender: &Sender<Next>, text: &'static str) {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (answer, receiver) = sync_channel(1);
        answer.send(Ok((Bytes::from_static(text.as_bytes()), permit, None))).unwrap();
        sender.send(Some(receiver)).unwrap();
    }

    async fn ends(sender: Sender<Next>) {
        give(&sender, "one ");
        give(&sender, "two");
        sender.send(None).unwrap();
    }

    async fn goes(sender: Sender<Next>) {
        give(&sender, "one ");
    }

    async fn panics(sender: Sender<Next>) {
        give(&sender, "one ");
        panic!("as is wanted");
    }

    #[test]
    fn it_ends_where_that_is_said() {
        let mut text = String::new();
        Ahead::of("s3://b/x".into(), ends).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two");
    }

    #[test]
    fn what_goes_without_a_word_is_no_end() {
        for mut ahead in [Ahead::of("s3://b/x".into(), goes), Ahead::of("s3://b/x".into(), panics)] {
            let mut text = Vec::new();
            let error = ahead.read_to_end(&mut text).unwrap_err();
            assert_eq!(text, b"one ");
            let told = TransferError::within(&error).unwrap().to_string();
            assert!(told.contains("s3://b/x: a request ended without an answer"), "{told}");
        }
    }
}
