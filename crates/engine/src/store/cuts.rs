//! Where a collection is cut into ranges.

/// Keys to sample for each range. More keys make the ranges more equal, but some stores search for each key.
pub const SAMPLES_A_RANGE: usize = 4;

/// Chooses keys that cut a collection into at most `ranges` ranges of about equal size. `keys` is a sample of its keys,
/// in the order of ranges and without duplicates.
pub fn evenly(keys: &[String], ranges: usize) -> Vec<String> {
    let pieces = ranges.min(keys.len());
    (1..pieces).map(|piece| keys[keys.len() * piece / pieces].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_ranges_as_there_are_keys_for() {
        let keys: Vec<String> = ["a", "b", "c", "d", "e", "f"].map(str::to_owned).into();
        assert_eq!(evenly(&keys, 3), ["c", "e"]);
        assert_eq!(evenly(&keys[..2], 3), ["b"]);
        assert!(evenly(&keys, 1).is_empty() && evenly(&[], 3).is_empty());
    }
}
