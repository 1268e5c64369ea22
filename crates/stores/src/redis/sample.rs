//! Keys of documents that others put there.

use std::collections::BTreeMap;

use storebench_engine::store::StoreError;

use super::namespace::Collection;
use super::reach::Reached;
use crate::net::mix;

/// A database of so few keys is read through, which gives every key the same chance.
const FEW: u64 = 100_000;
/// Keys asked for at each place.
const PAGE: u32 = 10;

/// At most so many keys of a collection, without its prefix. Only strings, which a document is.
///
/// A small database is gone through once; in a large one keys are taken at random places of the
/// server's hash table, by cursors that are drawn from the seed: a cursor is a position in the table.
pub(super) async fn keys(
    reached: &mut Reached,
    collection: &Collection,
    at_most: usize,
    seed: u64,
) -> Result<Vec<String>, StoreError> {
    let pattern = [escaped(&collection.prefix).as_slice(), b"*"].concat();
    let mut total = 0;
    for node in reached.each() {
        total += u64::try_from(node.number(&[b"DBSIZE"]).await?).unwrap_or(0);
    }
    let through = total <= FEW.max(10 * at_most as u64);
    // By a number drawn for each key: those with the least numbers are an even sample.
    let mut sample: BTreeMap<(u64, String), ()> = BTreeMap::new();
    let mut add = |keys: Vec<Vec<u8>>| {
        for key in keys {
            let Some(Ok(key)) = key.strip_prefix(collection.prefix.as_slice()).map(std::str::from_utf8) else {
                continue;
            };
            sample.insert((mix(seed, key.as_bytes()), key.to_owned()), ());
            if sample.len() > at_most {
                sample.pop_last();
            }
        }
        sample.len()
    };
    if through {
        for node in reached.each() {
            let mut cursor = 0;
            loop {
                let (next, keys) = node.scan(cursor, &pattern, 1_000, true).await?;
                add(keys);
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
    } else {
        let nodes = reached.nodes.len().max(1);
        // Ten times as many places as keys, so that a collection that is a part of the database is found.
        for place in 0..(10 * at_most as u64).max(1_000) {
            let cursor = mix(seed, &place.to_le_bytes()) >> 16;
            let node = &mut reached.nodes[place as usize % nodes].1;
            let (_, keys) = node.scan(cursor, &pattern, PAGE, true).await?;
            if add(keys) >= at_most {
                break;
            }
        }
    }
    Ok(sample.into_keys().map(|(_, key)| key).collect())
}

/// A prefix as a pattern that matches itself only.
pub(super) fn escaped(prefix: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(prefix.len());
    for byte in prefix {
        if b"*?[]^\\-".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern
}
