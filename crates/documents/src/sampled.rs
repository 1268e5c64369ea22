//! Documents that somebody else put into a store: nothing is known of them but keys, and values of
//! some fields, that were sampled before the measurement.

use std::collections::HashMap;

use serde_json::Value;

/// Sampled keys of one collection, in the order in which the store gave them.
#[derive(Debug, Clone, Default)]
pub struct Sampled {
    keys: String,
    /// Where each key ends.
    ends: Vec<usize>,
    /// Values of fields, of documents spread over the sample.
    values: HashMap<String, Vec<Value>>,
    mean_bytes: u64,
}

impl Sampled {
    /// These keys, each once.
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

    /// A key; nothing beyond the last one.
    pub fn key(&self, index: u64) -> &str {
        let Some((at, end)) = usize::try_from(index).ok().and_then(|at| Some((at, *self.ends.get(at)?))) else {
            return "";
        };
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.keys[begin..end]
    }

    /// Values of a field, from documents spread evenly over the sample.
    pub fn set_values(&mut self, field: impl Into<String>, values: Vec<Value>) {
        self.values.insert(field.into(), values);
    }

    /// Mean size of the documents that were read, in bytes.
    pub fn set_mean_bytes(&mut self, bytes: u64) {
        self.mean_bytes = bytes;
    }

    /// As [`Self::set_mean_bytes`] has it.
    pub fn mean_bytes(&self) -> u64 {
        self.mean_bytes
    }

    /// The value that a page query for this key asks for: of the key's own document, or of one near it.
    pub(super) fn value(&self, index: u64, field: &str) -> Option<Value> {
        let values = self.values.get(field).filter(|values| !values.is_empty())?;
        let at = u128::from(index) * values.len() as u128 / u128::from(self.count().max(1));
        values.get((at as usize).min(values.len() - 1)).cloned()
    }

    /// The beginning of a key: up to and with the last `upto`; without one up to and with the last sign
    /// that is no letter and no digit. The whole key where it holds none.
    pub(super) fn key_prefix(&self, index: u64, upto: Option<&str>) -> &str {
        let key = self.key(index);
        let end = match upto {
            Some(text) => key.rfind(text).map(|at| at + text.len()),
            None => key.char_indices().rfind(|(_, c)| !c.is_alphanumeric()).map(|(at, c)| at + c.len_utf8()),
        };
        &key[..end.unwrap_or(key.len())]
    }
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
        assert_eq!([0, 2, 3].map(|i| sampled.key_prefix(i, None)), ["user/7/", "заказ:", "plain"]);
        assert_eq!(sampled.key_prefix(0, Some("user/")), "user/");
        assert_eq!(sampled.key_prefix(3, Some("/")), "plain");
        assert_eq!(sampled.value(0, "city"), None);
        sampled.set_values("city", vec!["Lima".into(), "Oslo".into()]);
        assert_eq!([0, 1, 2, 3].map(|i| sampled.value(i, "city").unwrap()), ["Lima", "Lima", "Oslo", "Oslo"]);
        assert_eq!(sampled.value(u64::MAX, "city").unwrap(), "Oslo");
    }
}
