//! What a document is, in 128 bits: the same for every way of writing it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

const NULL: u64 = 1;
const BOOL: u64 = 2;
const INTEGER: u64 = 3;
const DECIMAL: u64 = 4;
const TEXT: u64 = 5;
const LIST: u64 = 6;
const OBJECT: u64 = 7;
const BYTES: u64 = 8;

/// Integers beyond this are not told apart by stores that keep numbers as doubles.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The hash of a key and its document. Members in any order, blanks, escapes and ways to write a number do
/// not count; what is no JSON counts as its bytes. `own` are top-level members that are left out; without
/// `nulls` so are members that are null, however deep.
pub(crate) fn of_record(key: &str, body: &[u8], own: &[&str], nulls: bool) -> u128 {
    let mut parser = serde_json::Deserializer::from_slice(body);
    let body = match (HashVisitor { own, nulls }).deserialize(&mut parser).and_then(|hash| parser.end().map(|()| hash))
    {
        Ok(hash) => hash,
        Err(_) => xxh3_128_with_seed(body, BYTES),
    };
    let mut hasher = Xxh3::new();
    hasher.update(key.as_bytes());
    hasher.update(&body.to_le_bytes());
    hasher.digest128()
}

/// The hash of a key.
pub(crate) fn of_key(key: &str) -> u128 {
    xxh3_128_with_seed(key.as_bytes(), TEXT)
}

/// Hashes a value; of an object without the members of these names.
#[derive(Clone, Copy)]
struct HashVisitor<'n> {
    own: &'n [&'n str],
    nulls: bool,
}

impl HashVisitor<'_> {
    /// For what is within.
    fn inner(self) -> HashVisitor<'static> {
        HashVisitor { own: &[], nulls: self.nulls }
    }
}

impl<'de> DeserializeSeed<'de> for HashVisitor<'_> {
    type Value = u128;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<u128, D::Error> {
        parser.deserialize_any(self)
    }
}

/// Hashes a member's name; none for one that is left out.
struct Name<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<u128>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Option<u128>, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<u128>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<u128>, E> {
        Ok((!self.0.contains(&name)).then(|| xxh3_128_with_seed(name.as_bytes(), TEXT)))
    }
}

fn integer(value: i64) -> u128 {
    xxh3_128_with_seed(&value.to_le_bytes(), INTEGER)
}

fn number(value: f64) -> u128 {
    // Stores that keep doubles write 7.0 as 7.
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return integer(value as i64);
    }
    xxh3_128_with_seed(&value.to_bits().to_le_bytes(), DECIMAL)
}

impl<'de> Visitor<'de> for HashVisitor<'_> {
    type Value = u128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<u128, E> {
        Ok(xxh3_128_with_seed(b"", NULL))
    }

    fn visit_bool<E>(self, value: bool) -> Result<u128, E> {
        Ok(xxh3_128_with_seed(&[u8::from(value)], BOOL))
    }

    fn visit_i64<E>(self, value: i64) -> Result<u128, E> {
        Ok(integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<u128, E> {
        Ok(i64::try_from(value).map_or_else(|_| number(value as f64), integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<u128, E> {
        Ok(number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<u128, E> {
        Ok(xxh3_128_with_seed(value.as_bytes(), TEXT))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<u128, A::Error> {
        let mut hasher = Xxh3::with_seed(LIST);
        while let Some(item) = list.next_element_seed(self.inner())? {
            hasher.update(&item.to_le_bytes());
        }
        Ok(hasher.digest128())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u128, A::Error> {
        let (mut sum, mut count) = (0u128, 0u64);
        while let Some(name) = map.next_key_seed(Name(self.own))? {
            let Some(name) = name else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value = map.next_value_seed(self.inner())?;
            if !self.nulls && value == xxh3_128_with_seed(b"", NULL) {
                continue;
            }
            let mut member = [0; 32];
            member[..16].copy_from_slice(&name.to_le_bytes());
            member[16..].copy_from_slice(&value.to_le_bytes());
            sum = sum.wrapping_add(xxh3_128_with_seed(&member, OBJECT));
            count += 1;
        }
        let mut whole = [0; 24];
        whole[..16].copy_from_slice(&sum.to_le_bytes());
        whole[16..].copy_from_slice(&count.to_le_bytes());
        Ok(xxh3_128_with_seed(&whole, OBJECT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_of_writing_do_not_count() {
        let hash = |json: &str| of_record("k", json.as_bytes(), &[], true);
        let one = hash(r#"{"a":1,"b":{"c":[1,2.5,"é"],"d":null}}"#);
        assert_eq!(one, hash("{ \"b\" : {\"d\":null, \"c\":[1.0, 2.50, \"\\u00e9\"]},\n \"a\":1e0 }"));
        assert_eq!(hash("9007199254740992"), hash("9007199254740992.0"));
    }

    #[test]
    fn a_store_s_own_members_are_left_out_at_the_top_only() {
        let own = |json: &str| of_record("k", json.as_bytes(), &["_rev"], true);
        assert_eq!(own(r#"{"_rev":"1","a":{"_rev":2}}"#), of_record("k", br#"{"a":{"_rev":2}}"#, &[], true));
        assert_ne!(own(r#"{"a":{"_rev":2}}"#), own(r#"{"a":{}}"#));
    }

    #[test]
    fn nulls_are_left_out_where_a_format_has_none() {
        let hash = |json: &str| of_record("k", json.as_bytes(), &[], false);
        assert_eq!(hash(r#"{"a":null,"b":[{"c":null,"d":1}]}"#), hash(r#"{"b":[{"d":1}]}"#));
        assert_ne!(hash("[null]"), hash("[]"));
    }

    #[test]
    fn what_differs_is_told_apart() {
        let texts = [
            "null",
            "false",
            "true",
            "0",
            "1",
            "-1",
            "0.5",
            "\"\"",
            "\"0\"",
            "\"null\"",
            "[]",
            "[0]",
            "[[0]]",
            "[0,0]",
            "[1,2]",
            "[2,1]",
            "{}",
            "{\"a\":1}",
            "{\"a\":2}",
            "{\"b\":1}",
            "{\"a\":{\"b\":1}}",
            "{\"a\":1,\"b\":2}",
            "{\"a\":2,\"b\":1}",
            "{\"a\":1,\"b\":1}",
            "9007199254740993",
            "9007199254740994",
            "no json",
            "",
        ];
        let mut hashes: Vec<u128> = texts.iter().map(|text| of_record("k", text.as_bytes(), &[], true)).collect();
        hashes.extend(texts.iter().map(|text| of_record("l", text.as_bytes(), &[], true)));
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), texts.len() * 2);
    }
}
