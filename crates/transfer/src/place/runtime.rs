//! The one thread that speaks to places that are not on this machine.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::mpsc;

use tokio::runtime::{Builder, Handle};

use crate::error::TransferError;

/// The thread's runtime; begun when it is first needed.
///
/// # Errors
/// The system gives no thread or no event loop.
pub(super) fn handle() -> Result<Handle, TransferError> {
    static HANDLE: OnceLock<Option<Handle>> = OnceLock::new();
    let begin = || {
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        let handle = runtime.handle().clone();
        let work = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("remote".to_owned()).spawn(work).ok()?;
        Some(handle)
    };
    let gone = || TransferError::Target("the system gives no thread for the network".into());
    HANDLE.get_or_init(begin).clone().ok_or_else(gone)
}

/// Runs this over there and waits for it. May be called within another runtime, whose thread it blocks.
///
/// # Errors
/// As [`handle`], and what the work gives.
pub(super) fn wait<T: Send + 'static>(
    work: impl Future<Output = Result<T, TransferError>> + Send + 'static,
) -> Result<T, TransferError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    handle()?.spawn(async move {
        // Nobody waits any more: nothing is to be told.
        let _ = sender.send(work.await);
    });
    receiver.recv().unwrap_or_else(|_| Err(TransferError::Source("a request ended without an answer".into())))
}
