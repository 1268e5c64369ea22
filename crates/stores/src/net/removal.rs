//! Removals from stores that delete without any condition.

use std::time::{Duration, Instant};

use storebench_engine::store::{Marked, SiteOutcome, StoreError};

use super::rest;

/// How long a collection stays marked as being removed until another removal assumes that the first one was killed.
const ABANDONED: Duration = Duration::from_secs(20);

/// Marks a collection as being removed, with a number of its own. If it is `Done`, the caller deletes the collection at
/// once.
///
/// If two removals deleted it, the second one could meet a collection that was made again in between. So only the removal
/// whose mark it is does so, soon after it wrote the mark, and another one takes the collection over only if nothing
/// happened for much longer. `now` returns the mark, and `replace` writes one, if it still is the one that was found.
pub(crate) async fn mark_removal(
    going: &Marked,
    now: impl AsyncFn() -> Result<Option<String>, StoreError>,
    replace: impl AsyncFnOnce(String) -> Result<SiteOutcome, StoreError>,
) -> Result<SiteOutcome, StoreError> {
    let found = Instant::now();
    while going.is_removing() && found.elapsed() < ABANDONED {
        if now().await?.as_ref() != Some(&going.mark) {
            return Ok(SiteOutcome::Changed);
        }
        rest().await;
    }
    let begun = Instant::now();
    let outcome = replace(format!("{} {:016x}", going.removing().mark, fastrand::u64(..))).await?;
    Ok(if begun.elapsed() > ABANDONED / 2 { SiteOutcome::Changed } else { outcome })
}
