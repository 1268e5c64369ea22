//! One sleep that is set again and again.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Wakes its task after some time. Made again only when it is first needed.
#[derive(Default)]
pub(crate) struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Wakes the task after so long, whatever was set before; `Ready` when that is now.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, after: Duration) -> Poll<()> {
        // Beyond a day nothing is waited for: a longer time would only overflow.
        let at = Instant::now() + after.min(Duration::from_secs(86_400));
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        sleep.as_mut().reset(at);
        sleep.as_mut().poll(cx)
    }
}
