//! Bulk operations: many single-key operations in flight at once.

use futures_util::StreamExt;
use futures_util::stream;
use storebench_engine::store::{BatchBuf, Collected, ErrorKind, OpError, OpKind, OwnedReply, Reject};

use super::operations::{Context, Target, item, item_kind};
use crate::repeats::{Rounds, Within};

/// The most items of one bulk operation in flight at once. More do not shorten it, since these keep the connections of
/// a session busy.
const IN_FLIGHT: usize = 128;

/// Does a bulk operation. Items with the same key are not in flight together, since they would be done in any order.
pub(super) async fn perform(
    context: &Context,
    target: &Target,
    kind: OpKind,
    batch: BatchBuf,
    contents: bool,
) -> Result<OwnedReply, OpError> {
    let items = batch.as_batch();
    let single = item_kind(kind);
    let (mut done, mut rejects, mut found) = (0, Vec::new(), Collected::default());
    found.begin(contents);
    let mut rounds = Rounds::default();
    rounds.arrange(items, Within::Given);
    for round in rounds.ranges() {
        let doing = rounds.order[round].iter().map(|number| async {
            let number = *number as usize;
            let (key, body) = items.get(number).unwrap_or_default();
            (number, key, item(context, target, single, key, body, contents).await)
        });
        let mut answers = stream::iter(doing).buffer_unordered(IN_FLIGHT);
        while let Some((number, key, answer)) = answers.next().await {
            match answer {
                Ok(reply) => {
                    done += 1;
                    if single == OpKind::Read {
                        add(&mut found, key, &reply);
                    }
                }
                Err(error)
                    if error.kind == ErrorKind::NotFound && !matches!(single, OpKind::Insert | OpKind::Upsert) => {}
                Err(error) => rejects.push(Reject { item: number, error }),
            }
        }
    }
    // If nothing was done and every error is temporary, the whole operation may be retried.
    let nothing = done == 0 && !rejects.is_empty() && rejects.len() == items.len();
    if nothing && rejects.iter().all(|reject| reject.error.kind == ErrorKind::Temporary) {
        return Err(rejects.swap_remove(0).error);
    }
    let reply = if single == OpKind::Read { found.into_reply() } else { OwnedReply::documents(done) };
    Ok(reply.rejects(rejects))
}

/// Reads documents in the order of `keys`, without those that are gone meanwhile.
pub(super) async fn read_in_order(
    context: &Context,
    target: &Target,
    kind: OpKind,
    keys: &[&str],
    contents: bool,
) -> Result<OwnedReply, OpError> {
    let reading =
        keys.iter().map(|key| async move { (*key, item(context, target, OpKind::Read, key, b"", contents).await) });
    let mut answers = stream::iter(reading).buffered(IN_FLIGHT);
    let mut found = Collected::default();
    found.begin(contents);
    while let Some((key, answer)) = answers.next().await {
        match answer {
            Ok(reply) => add(&mut found, key, &reply),
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(OpError::new(error.kind, format!("{kind}: {}", error.message))),
        }
    }
    Ok(found.into_reply())
}

/// Adds a document that was read.
fn add(found: &mut Collected, key: &str, reply: &OwnedReply) {
    let reply = reply.as_reply();
    found.add_measured(key.as_bytes(), reply.bytes, reply.body.unwrap_or_default());
}
