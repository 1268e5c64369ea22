//! The one thread that communicates with remote places.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::mpsc;

use tokio::runtime::{Builder, Handle};

use crate::error::TransferError;

/// Handle of the thread's runtime, which is started on first use.
///
/// # Errors
/// The thread or its event loop cannot be started.
pub(super) fn handle() -> Result<Handle, TransferError> {
    static HANDLE: OnceLock<Option<Handle>> = OnceLock::new();
    let begin = || {
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        let handle = runtime.handle().clone();
        let work = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("remote".to_owned()).spawn(work).ok()?;
        Some(handle)
    };
    let gone = || TransferError::Target("cannot start the network thread".into());
    HANDLE.get_or_init(begin).clone().ok_or_else(gone)
}

/// Runs work on that thread and waits for it. May be called inside another runtime; it blocks that runtime's thread.
///
/// # Errors
/// Those of [`handle`] and of the work.
pub(super) fn wait<T: Send + 'static>(
    work: impl Future<Output = Result<T, TransferError>> + Send + 'static,
) -> Result<T, TransferError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    handle()?.spawn(async move {
        // If the caller is gone, nobody needs the result.
        let _ = sender.send(work.await);
    });
    receiver.recv().unwrap_or_else(|_| Err(TransferError::Source("a request ended without an answer".into())))
}
