//! Bulk operations in which a key is repeated.
//!
//! Servers handle such a request differently: some answer the key once, some refuse the whole request, and some
//! write the items in any order. So no request contains a key twice, and a row counts once for each time its key
//! was asked for.

use std::collections::HashMap;

use storebench_engine::store::Batch;

/// Whether the keys are strictly ascending. Most batches are, which proves without a set that no key is
/// repeated.
pub(crate) fn ascending<'k>(keys: impl IntoIterator<Item = &'k str>) -> bool {
    let mut last = None;
    keys.into_iter().all(|key| last.replace(key).is_none_or(|before| before < key))
}

/// The items of a batch, split into rounds. A round contains a key at most once, and the items of a key keep their
/// order across rounds. Running the rounds in sequence gives the same result as running the items one by one.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Positions of items, round by round.
    pub(crate) order: Vec<u32>,
    /// Where each round ends in `order`.
    pub(crate) ends: Vec<usize>,
}

/// The order of items within a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Within {
    /// As in the batch.
    Given,
    /// By key, so that transactions with common keys lock them in the same order.
    Key,
}

impl Rounds {
    /// Arranges the items of a batch.
    pub(crate) fn arrange(&mut self, batch: Batch<'_>, within: Within) {
        let Self { order, ends } = self;
        ends.clear();
        order.clear();
        order.extend(0..u32::try_from(batch.len()).unwrap_or(u32::MAX));
        if batch.is_empty() {
            return;
        }
        let key = |item: u32| batch.get(item as usize).map_or("", |(key, _)| key);
        if ascending(batch.iter().map(|(key, _)| key)) {
            return ends.push(order.len());
        }
        order.sort_unstable_by(|a, b| key(*a).cmp(key(*b)).then(a.cmp(b)));
        if order.windows(2).all(|two| key(two[0]) != key(two[1])) {
            if within == Within::Given {
                order.sort_unstable();
            }
            return ends.push(order.len());
        }
        let mut rounds: Vec<Vec<u32>> = Vec::new();
        let mut nth = 0;
        for (place, item) in order.iter().enumerate() {
            nth = if place > 0 && key(order[place - 1]) == key(*item) { nth + 1 } else { 0 };
            if rounds.len() == nth {
                rounds.push(Vec::new());
            }
            rounds[nth].push(*item);
        }
        order.clear();
        for mut round in rounds {
            if within == Within::Given {
                round.sort_unstable();
            }
            order.append(&mut round);
            ends.push(order.len());
        }
    }

    /// The rounds, each as a range of `order`.
    pub(crate) fn ranges(&self) -> impl DoubleEndedIterator<Item = std::ops::Range<usize>> + '_ {
        (0..self.ends.len()).map(|round| {
            let start = round.checked_sub(1).map_or(0, |before| self.ends[before]);
            start..self.ends[round]
        })
    }
}

/// Keys that occur more than once, with the number of extra rows for each.
#[derive(Debug, Default)]
pub(crate) struct Repeats(HashMap<String, u32>);

impl Repeats {
    /// Finds the repeated keys.
    pub(crate) fn of<'k>(keys: impl Iterator<Item = &'k str> + Clone) -> Self {
        if ascending(keys.clone()) {
            return Self::default();
        }
        let mut counts: HashMap<&str, u32> = HashMap::with_capacity(keys.size_hint().0);
        keys.for_each(|key| *counts.entry(key).or_default() += 1);
        counts.retain(|_, count| *count > 1);
        Self(counts.into_iter().map(|(key, count)| (key.to_owned(), count - 1)).collect())
    }

    /// Whether no key is repeated.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many extra rows this key has, after the first.
    pub(crate) fn more(&self, key: &str) -> u32 {
        self.0.get(key).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use storebench_engine::store::BatchBuf;

    use super::*;

    fn rounds(keys: &[&str], within: Within) -> Vec<Vec<u32>> {
        let mut batch = BatchBuf::new();
        keys.iter().for_each(|key| batch.push(key, b""));
        let mut rounds = Rounds::default();
        rounds.arrange(batch.as_batch(), within);
        rounds.ranges().map(|round| rounds.order[round].to_vec()).collect()
    }

    #[test]
    fn a_key_is_in_a_round_once_and_in_its_order() {
        for (keys, given, by_key) in [
            (&[][..], vec![], vec![]),
            (&["a", "b"], vec![vec![0, 1]], vec![vec![0, 1]]),
            (&["b", "a"], vec![vec![0, 1]], vec![vec![1, 0]]),
            (&["a", "a"], vec![vec![0], vec![1]], vec![vec![0], vec![1]]),
            (
                &["m", "b", "b", "z", "m", "a", "b"],
                vec![vec![0, 1, 3, 5], vec![2, 4], vec![6]],
                vec![vec![5, 1, 0, 3], vec![2, 4], vec![6]],
            ),
        ] {
            assert_eq!(rounds(keys, Within::Given), given, "{keys:?}");
            assert_eq!(rounds(keys, Within::Key), by_key, "{keys:?}");
        }
    }

    #[test]
    fn what_is_asked_for_again_is_counted() {
        let more = |keys: &[&str], key| Repeats::of(keys.iter().copied()).more(key);
        assert!(Repeats::of(["a", "b", "c"].into_iter()).is_empty());
        assert!(Repeats::of(["c", "a", "b"].into_iter()).is_empty());
        assert_eq!(more(&["b", "a", "b", "b"], "b"), 2);
        assert_eq!(more(&["b", "a", "b", "b"], "a"), 0);
    }
}
