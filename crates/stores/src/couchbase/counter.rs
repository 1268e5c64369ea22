//! Counters. Couchbase's own counters are unsigned and stop at zero, so they are used only if neither the delta nor the
//! initial value is negative. Everything else uses a compare-and-swap loop.

use couchbase::error::ErrorKind as Kind;
use couchbase::options::kv_binary_options::IncrementOptions;
use couchbase::options::kv_options::{InsertOptions, ReplaceOptions};
use storebench_engine::store::{ErrorKind, OpError, OpKind, OwnedReply};

use super::operations::{Called, Context, Target, call, flags, written};

const KIND: OpKind = OpKind::Counter;
/// The most attempts while other writers come first.
pub(super) const TRIES: usize = 256;
pub(super) const CONTENDED: OpError = OpError {
    kind: ErrorKind::Temporary,
    message: std::borrow::Cow::Borrowed("other clients keep changing this document; nothing was written"),
};

/// Adds to a counter, which starts at `initial`.
pub(super) async fn add(
    context: &Context,
    target: &Target,
    key: &str,
    delta: i64,
    initial: i64,
) -> Result<OwnedReply, OpError> {
    if let (Ok(delta), Ok(initial)) = (u64::try_from(delta), u64::try_from(initial)) {
        let mut options = IncrementOptions::new().delta(delta).initial(initial);
        options.durability_level = context.level.clone();
        let counting = target.collection.binary();
        let counted = call(context, KIND, key, counting.increment(key, options)).await;
        match counted {
            Ok(result) => {
                let value = i64::try_from(result.content()).map_err(|_| beyond(result.content()))?;
                return Ok(OwnedReply::documents(1).revision(result.cas().to_be_bytes().to_vec()).counter(value));
            }
            // The stored value is negative.
            Err(called) if called.kind() == Some(&Kind::DeltaInvalid) => {}
            Err(called) => return Err(called.into()),
        }
    }
    swap(context, target, key, delta, initial).await
}

const OVERFLOW: OpError = OpError {
    kind: ErrorKind::Refused,
    message: std::borrow::Cow::Borrowed("the counter would leave the range of 64-bit integers"),
};

/// The server counts up to 2^64 - 1. It has added, and the result is no longer a counter of this store.
fn beyond(value: u64) -> OpError {
    OpError::new(
        ErrorKind::OutcomeUnknown,
        format!("the server has added, and the counter is now {value}, outside the range of signed 64-bit integers"),
    )
}

async fn swap(context: &Context, target: &Target, key: &str, delta: i64, initial: i64) -> Result<OwnedReply, OpError> {
    let (collection, flags) = (&target.collection, flags(target.body));
    for _ in 0..TRIES {
        // The read changes nothing, so its errors leave the counter as it was.
        let found = match call(context, OpKind::Read, key, collection.get(key, None)).await {
            Ok(found) => Some(found),
            Err(called) if called.kind() == Some(&Kind::DocumentNotFound) => None,
            Err(called) => return Err(called.into()),
        };
        let (value, result) = match found {
            None => {
                let mut options = InsertOptions::new();
                options.durability_level = context.level.clone();
                let text = initial.to_string();
                (initial, call(context, KIND, key, collection.insert_raw(key, text.as_bytes(), flags, options)).await)
            }
            Some(found) => {
                let value = number(found.content_as_raw().0)?.checked_add(delta).ok_or(OVERFLOW)?;
                let mut options = ReplaceOptions::new().cas(found.cas()).preserve_expiry(true);
                options.durability_level = context.level.clone();
                let text = value.to_string();
                (value, call(context, KIND, key, collection.replace_raw(key, text.as_bytes(), flags, options)).await)
            }
        };
        match result {
            Ok(result) => return Ok(written(&result).counter(value)),
            Err(called) if came_second(&called) => {}
            Err(called) => return Err(called.into()),
        }
    }
    Err(CONTENDED)
}

/// Whether another writer came first.
pub(super) fn came_second(called: &Called) -> bool {
    matches!(called.kind(), Some(Kind::CasMismatch | Kind::DocumentExists | Kind::DocumentNotFound))
}

fn number(text: &[u8]) -> Result<i64, OpError> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| OpError::new(ErrorKind::Failed, "the stored value is not a counter"))
}
