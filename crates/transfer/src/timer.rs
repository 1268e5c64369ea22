//! A reusable timer.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Wakes its task after some time. The inner sleep is allocated on first use.
#[derive(Default)]
pub(crate) struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Wakes the task after this time, replacing any earlier setting. Returns `Ready` if the time has passed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, after: Duration) -> Poll<()> {
        // No wait is longer than a day. The limit prevents an overflow.
        let at = Instant::now() + after.min(Duration::from_secs(86_400));
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        sleep.as_mut().reset(at);
        sleep.as_mut().poll(cx)
    }
}
