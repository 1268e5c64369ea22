//! Samples keys of existing documents.

use storebench_engine::store::StoreError;

use super::reach::Reached;
use crate::connection::Collection;
use crate::net::KeySample;

/// A database with at most this many keys is read completely, which gives every key the same chance.
const FEW: u64 = 100_000;
/// The number of keys requested at each position.
const PAGE: u32 = 10;

/// At most `at_most` keys of a collection, without its prefix. Only keys of strings, because documents are strings.
///
/// A small database is scanned completely. In a large one, keys come from random positions of the server's hash table.
/// A cursor is a position in that table, so random cursors are drawn from the seed.
pub(super) async fn keys(
    reached: &mut Reached,
    collection: &Collection,
    at_most: usize,
    seed: u64,
) -> Result<Vec<String>, StoreError> {
    let pattern = [escaped(&collection.prefix).as_slice(), b"*"].concat();
    let mut total = 0;
    for node in &mut reached.nodes {
        total += u64::try_from(node.number(&[b"DBSIZE"]).await?).unwrap_or(0);
    }
    let through = total <= FEW.max(10 * at_most as u64);
    let mut sample = KeySample::new(at_most, seed);
    let mut add = |keys: Vec<Vec<u8>>| keys.iter().fold(false, |_, key| sample.see(&collection.prefix, key));
    if through {
        for node in &mut reached.nodes {
            let mut cursor = Some(0);
            while let Some(from) = cursor {
                let (next, keys) = node.scan(from, &pattern, 1_000, true).await?;
                add(keys);
                cursor = next;
            }
        }
    } else {
        let mut random = fastrand::Rng::with_seed(seed);
        let nodes = reached.nodes.len().max(1);
        // Ten times as many positions as keys, to find a collection that is only a part of the database.
        for place in 0..(10 * at_most as u64).max(1_000) {
            let cursor = random.u64(..) >> 16;
            let node = &mut reached.nodes[place as usize % nodes];
            let (_, keys) = node.scan(cursor, &pattern, PAGE, true).await?;
            if add(keys) {
                break;
            }
        }
    }
    Ok(sample.into_keys())
}

/// Escapes a prefix for a pattern, so that it matches only itself.
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
