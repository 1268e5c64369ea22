//! Builds the store operations for records.

use jiff::Timestamp;
use storebench_engine::store::{BatchBuf, BulkWrite, Op};

use super::store::{RecordOp, StoreSinkOptions};
use super::write_session::{Batch, Part, Piece, Step};

/// The store operation for a piece.
pub(super) fn operation<'r>(
    batch: &'r Batch,
    piece: &'r Piece,
    options: &StoreSinkOptions,
    inserts_first: bool,
    keys: &'r mut BatchBuf,
) -> Op<'r> {
    let all = batch.ended.sent();
    let records = if let Part::Some(_, records) = &piece.part { records } else { all };
    let compares = matches!(piece.step, Step::Compare(_) | Step::Check);
    if compares || batch.verb == RecordOp::Delete {
        keys.clear();
        for (key, _, _) in records.iter() {
            keys.push(key, b"");
        }
        let keys = keys.as_batch();
        return if compares { Op::BulkRead { keys } } else { Op::BulkDelete { keys } };
    }
    let position = piece.position(0);
    let (key, body, _) = all.get(position).unwrap_or_default();
    match (&piece.step, batch.verb.bulk()) {
        (Step::Merge(merge), _) => return merge.operation(key),
        (Step::Expire, _) => {
            let expiry = all.mark_of(position).expiry.or(options.expiry);
            return Op::Touch { key, expiry: expiry.map(|e| e.left(Timestamp::now())).unwrap_or_default() };
        }
        (step, Some(kind)) => {
            let first = inserts_first && kind == BulkWrite::Upsert && matches!(step, Step::Do);
            let kind = if first { BulkWrite::Insert } else { kind };
            return Op::BulkWrite { kind, items: records.as_batch() };
        }
        (_, None) => {}
    }
    match batch.verb {
        RecordOp::Append => Op::Append { key, bytes: body },
        RecordOp::Prepend => Op::Prepend { key, bytes: body },
        RecordOp::Merge => Op::MergePatch { key, patch: body },
        RecordOp::Counter => {
            // `first_step` has refused bodies that are not integers.
            let delta = integer(body).unwrap_or_default();
            Op::Counter { key, delta, initial: delta }
        }
        _ => Op::Replace { key, body },
    }
}

pub(super) fn integer(body: &[u8]) -> Option<i64> {
    std::str::from_utf8(body).ok()?.trim().parse().ok()
}
