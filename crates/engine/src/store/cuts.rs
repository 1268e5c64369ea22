//! Where a collection is cut into ranges.

/// Keys that are asked for to cut a range off: more make ranges more alike, and some stores search for each.
pub const SAMPLES_A_RANGE: usize = 4;

/// Keys that cut what these are a sample of, in the order of ranges and each once, into at most so many ranges of
/// about equal size.
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
