//! Documents that were already in a store. Only their keys and the values of some fields are known, sampled before the
//! measurement.

use std::collections::HashMap;

use serde_json::Value;

/// Sampled keys of one collection, in the order in which the store returned them.
#[derive(Debug, Clone, Default)]
pub struct Sampled {
    keys: String,
    /// Where each key ends.
    ends: Vec<usize>,
    /// Values of fields, from documents spread over the sample.
    values: HashMap<String, Vec<Value>>,
    mean_bytes: u64,
}

impl Sampled {
    /// A sample of these keys, without duplicates.
    pub fn new(keys: impl IntoIterator<Item = String>) -> Self {
        let mut sampled = Self::default();
        let mut seen = std::collections::HashSet::new();
        for key in keys {
            if seen.contains(&key) {
                continue;
            }
            sampled.keys.push_str(&key);
            sampled.ends.push(sampled.keys.len());
            seen.insert(key);
        }
        sampled
    }

    /// How many keys there are.
    pub fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    /// The key at this index; empty beyond the last one.
    pub fn key(&self, index: u64) -> &str {
        let Some((at, end)) = usize::try_from(index).ok().and_then(|at| Some((at, *self.ends.get(at)?))) else {
            return "";
        };
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.keys[begin..end]
    }

    /// Sets the values of a field, from documents spread evenly over the sample.
    pub fn set_values(&mut self, field: impl Into<String>, values: Vec<Value>) {
        self.values.insert(field.into(), values);
    }

    /// Sets the mean size of the documents that were read, in bytes.
    pub fn set_mean_bytes(&mut self, bytes: u64) {
        self.mean_bytes = bytes;
    }

    /// Mean size of the documents that were read, in bytes; 0 if it was not set.
    pub fn mean_bytes(&self) -> u64 {
        self.mean_bytes
    }

    /// The field value that a page query for this key asks for: that of the key's own document, or of one near it.
    pub(super) fn value(&self, index: u64, field: &str) -> Option<Value> {
        let values = self.values.get(field).filter(|values| !values.is_empty())?;
        let at = u128::from(index) * values.len() as u128 / u128::from(self.count().max(1));
        values.get((at as usize).min(values.len() - 1)).cloned()
    }
}

/// The key up to and including the last occurrence of `upto`; without `upto`, up to and including the last character that
/// is neither a letter nor a digit. The whole key if there is none.
pub(super) fn prefix_of<'k>(key: &'k str, upto: Option<&str>) -> &'k str {
    let end = match upto {
        Some(text) => key.rfind(text).map(|at| at + text.len()),
        None => key.char_indices().rfind(|(_, c)| !c.is_alphanumeric()).map(|(at, c)| at + c.len_utf8()),
    };
    &key[..end.unwrap_or(key.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_values_and_prefixes_are_those_of_the_sample() {
        let keys = ["user/7/a", "user/7/b", "заказ:9", "user/7/a", "plain"];
        let mut sampled = Sampled::new(keys.map(str::to_owned));
        assert_eq!(sampled.count(), 4);
        assert_eq!([0, 1, 2, 3, 4].map(|i| sampled.key(i)), ["user/7/a", "user/7/b", "заказ:9", "plain", ""]);
        assert_eq!([0, 2, 3].map(|i| prefix_of(sampled.key(i), None)), ["user/7/", "заказ:", "plain"]);
        assert_eq!(prefix_of(sampled.key(0), Some("user/")), "user/");
        assert_eq!(prefix_of(sampled.key(3), Some("/")), "plain");
        assert_eq!(sampled.value(0, "city"), None);
        sampled.set_values("city", vec!["Lima".into(), "Oslo".into()]);
        assert_eq!([0, 1, 2, 3].map(|i| sampled.value(i, "city").unwrap()), ["Lima", "Lima", "Oslo", "Oslo"]);
        assert_eq!(sampled.value(u64::MAX, "city").unwrap(), "Oslo");
    }
}
