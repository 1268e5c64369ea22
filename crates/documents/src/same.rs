//! Whether two documents are the same, for every verb that compares: hashes a document to 128 bits, independent of its
//! notation.
//!
//! Two documents are equal if RFC 8259 gives them the same value. The order of members, whitespace, escapes and the
//! notation of numbers (`1.0`, `1`, `1e0`) do not matter. Of members with the same name, the last one counts, as in
//! most parsers. Numbers with a fraction or an exponent are rounded to doubles; integers are exact, however long.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

const NULL: u64 = 1;
const BOOL: u64 = 2;
const NUMBER: u64 = 3;
const TEXT: u64 = 5;
const LIST: u64 = 6;
const OBJECT: u64 = 7;
const BYTES: u64 = 8;

/// A record that was written or read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Seen {
    /// Hash of key and document.
    pub hash: u128,
    /// Values in the document that stores often change.
    pub odd: Odd,
}

/// Number of values in a document of each kind that stores often change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Odd(pub [u32; ODD]);

/// Number of these kinds.
pub const ODD: usize = 6;
const FRACTION: usize = 0;
const NEGATIVE_ZERO: usize = 1;
const REPEATED: usize = 2;
const LONG: usize = 3;
const HUGE: usize = 4;
const HALF: usize = 5;

/// For each kind: singular, plural, and how stores change it.
const KINDS: [[&str; 3]; ODD] = [
    ["whole number", "whole numbers", "written with a fraction or an exponent, such as 1.0 to 1"],
    ["negative zero", "negative zeros", "-0.0 to 0"],
    ["member with a repeated name", "members with repeated names", "the last one stays"],
    ["long whole number", "long whole numbers", "more digits than a double holds"],
    ["number", "numbers", "out of a double's range, such as 1e400"],
    ["unpaired surrogate", "unpaired surrogates", "not a character by itself"],
];

impl AddAssign for Odd {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count = count.saturating_add(more));
    }
}

impl Odd {
    /// The values that are missing in what was read back.
    pub fn lost(self, found: Self) -> Self {
        let mut lost = self;
        lost.0.iter_mut().zip(found.0).for_each(|(count, kept)| *count = count.saturating_sub(kept));
        lost
    }

    /// For each kind that occurs: the number of values, and a description.
    pub fn told(self) -> impl Iterator<Item = (u64, String)> {
        self.0.into_iter().zip(KINDS).filter(|(count, _)| *count > 0).map(|(count, [one, several, what])| {
            (u64::from(count), format!("{} ({what})", if count == 1 { one } else { several }))
        })
    }
}

/// The hash of a key and its document. A body that is not JSON is hashed as bytes. `own` are top-level members to leave
/// out. Without `nulls`, null members are left out at any depth.
pub fn of_record(key: &str, body: &[u8], own: &[&str], nulls: bool) -> u128 {
    seen(key, body, own, nulls).hash
}

/// The same, with the values that stores may change.
pub fn seen(key: &str, body: &[u8], own: &[&str], nulls: bool) -> Seen {
    let mut walk = Walk::new(body, own, nulls);
    let (body, odd) = match std::str::from_utf8(body).ok().and_then(|_| walk.document()) {
        Some(hash) => (hash, walk.odd),
        None => (xxh3_128_with_seed(body, BYTES), Odd::default()),
    };
    let mut hasher = Xxh3::new();
    hasher.update(key.as_bytes());
    hasher.update(&body.to_le_bytes());
    Seen { hash: hasher.digest128(), odd }
}

/// The hash of a key.
pub fn of_key(key: &str) -> u128 {
    xxh3_128_with_seed(key.as_bytes(), TEXT)
}

/// The text that stands for a number in any notation, itself a number: `1.0`, `01` and `1e0` have the same. `None` if it is
/// no number.
pub fn number(text: &str) -> Option<String> {
    let text = text.trim();
    let bare = text.strip_prefix('+').unwrap_or(text);
    // Not `inf` and `nan`.
    let is_number = bare.ends_with(|c: char| c.is_ascii_digit() || c == '.') && bare.parse::<f64>().is_ok();
    is_number.then(|| {
        let Decimal { negative, digits, exponent } = Decimal::of(bare);
        let sign = if negative { "-" } else { "" };
        let digits = if digits.is_empty() { "0".into() } else { String::from_utf8_lossy(&digits) };
        format!("{sign}{digits}e{exponent}")
    })
}

/// The text that stands for a moment, itself one, in whatever offset it is written, to the microsecond. `None` if it is no
/// time with an offset.
pub fn moment(text: &str) -> Option<String> {
    let moment: jiff::Timestamp = text.trim().parse().ok()?;
    Some(moment.round(jiff::Unit::Microsecond).unwrap_or(moment).to_string())
}

/// Walks over JSON. It does not recurse, so that deep nesting cannot overflow the stack.
struct Walk<'a> {
    text: &'a [u8],
    at: usize,
    own: &'a [&'a str],
    nulls: bool,
    odd: Odd,
    open: Vec<Open>,
    /// Names and values of all open containers. Elements of arrays have the name 0.
    inside: Vec<(u128, u128)>,
    /// A decoded string, or the bytes to hash for a container.
    scratch: Vec<u8>,
}

/// An object or array that is not closed yet.
struct Open {
    object: bool,
    /// Where its members start in `inside`.
    start: usize,
    /// Name of the current member; `None` if the member is left out.
    name: Option<u128>,
}

impl<'a> Walk<'a> {
    fn new(text: &'a [u8], own: &'a [&'a str], nulls: bool) -> Self {
        let (open, inside, scratch) = (Vec::new(), Vec::new(), Vec::new());
        Self { text, at: 0, own, nulls, odd: Odd::default(), open, inside, scratch }
    }

    /// The hash of the whole text; `None` if it is not JSON.
    fn document(&mut self) -> Option<u128> {
        loop {
            self.space();
            let mut hash = match self.peek()? {
                bracket @ (b'{' | b'[') => {
                    let object = bracket == b'{';
                    self.at += 1;
                    self.space();
                    self.open.push(Open { object, start: self.inside.len(), name: None });
                    if self.peek()? != if object { b'}' } else { b']' } {
                        self.name()?;
                        continue;
                    }
                    self.close()
                }
                b'"' => {
                    self.string()?;
                    xxh3_128_with_seed(&self.scratch, TEXT)
                }
                b't' => self.word(b"true", b"\x01", BOOL)?,
                b'f' => self.word(b"false", b"\x00", BOOL)?,
                b'n' => self.word(b"null", b"", NULL)?,
                _ => self.number()?,
            };
            // The value is complete; containers may end with it.
            loop {
                self.space();
                let Some(open) = self.open.last() else { return (self.at == self.text.len()).then_some(hash) };
                let object = open.object;
                let counts = self.nulls || !object || hash != xxh3_128_with_seed(b"", NULL);
                if let Some(name) = open.name.filter(|_| counts) {
                    self.inside.push((name, hash));
                }
                match (self.peek()?, object) {
                    (b',', _) => {
                        self.at += 1;
                        self.name()?;
                        break;
                    }
                    (b'}', true) | (b']', false) => hash = self.close(),
                    _ => return None,
                }
            }
        }
    }

    /// Reads the name of the next member, if the open container is an object.
    fn name(&mut self) -> Option<()> {
        let mut name = Some(0);
        if self.open.last()?.object {
            self.space();
            self.string()?;
            let own = self.open.len() == 1 && self.own.iter().any(|own| own.as_bytes() == self.scratch);
            name = (!own).then(|| xxh3_128_with_seed(&self.scratch, TEXT));
            self.space();
            self.take(b':')?;
        }
        self.open.last_mut()?.name = name;
        Some(())
    }

    /// Closes the innermost container and returns its hash.
    fn close(&mut self) -> u128 {
        self.at += 1;
        let Some(Open { object, start, .. }) = self.open.pop() else { return 0 };
        let inside = &mut self.inside[start..];
        self.scratch.clear();
        if object {
            // The sort is stable: of members with the same name, the last stays last.
            inside.sort_by_key(|(name, _)| *name);
        }
        for (at, (name, value)) in inside.iter().enumerate() {
            if object && inside.get(at + 1).is_some_and(|(next, _)| next == name) {
                self.odd.0[REPEATED] += 1;
                continue;
            }
            self.scratch.extend_from_slice(&name.to_le_bytes());
            self.scratch.extend_from_slice(&value.to_le_bytes());
        }
        self.inside.truncate(start);
        xxh3_128_with_seed(&self.scratch, if object { OBJECT } else { LIST })
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &[u8], value: &[u8], seed: u64) -> Option<u128> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            xxh3_128_with_seed(value, seed)
        })
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<u128> {
        let start = self.at;
        self.at += usize::from(self.peek()? == b'-');
        if self.take(b'0').is_none() {
            self.digits()?;
        }
        let mut whole = true;
        if self.take(b'.').is_some() {
            whole = false;
            self.digits()?;
        }
        if self.take(b'e').or_else(|| self.take(b'E')).is_some() {
            whole = false;
            let _ = self.take(b'-').or_else(|| self.take(b'+'));
            self.digits()?;
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).ok()?;
        let double: f64 = text.parse().ok()?;
        let exact = Decimal::of(text);
        // A double keeps all of 15 digits (DBL_DIG), except near the limits of its range.
        let short = exact.digits.len() <= 15 && (double == 0.0 || (1e-290..1e290).contains(&double.abs()));
        let near = if short { exact.clone() } else { Decimal::of(&format!("{double:e}")) };
        let value = match () {
            // The double overflowed to infinity or underflowed to zero.
            () if double.is_infinite() || double == 0.0 && !exact.digits.is_empty() => {
                self.odd.0[HUGE] += 1;
                exact
            }
            () if whole => {
                self.odd.0[LONG] += u32::from(exact != near);
                self.odd.0[NEGATIVE_ZERO] += u32::from(text == "-0");
                exact
            }
            () => {
                let zero = double == 0.0 && double.is_sign_negative();
                self.odd.0[if zero { NEGATIVE_ZERO } else { FRACTION }] += u32::from(double.fract() == 0.0);
                near
            }
        };
        Some(value.hash())
    }

    /// Reads a string and leaves its text in the scratch buffer. Unpaired surrogates are encoded as in WTF-8.
    fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        self.scratch.clear();
        loop {
            let length = memchr::memchr2(b'"', b'\\', &self.text[self.at..])?;
            self.scratch.extend_from_slice(&self.text[self.at..self.at + length]);
            self.at += length + 1;
            if self.text[self.at - 1] == b'"' {
                return Some(());
            }
            let plain = match self.peek()? {
                byte @ (b'"' | b'\\' | b'/') => byte,
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'u' => {
                    self.escaped()?;
                    continue;
                }
                _ => return None,
            };
            self.at += 1;
            self.scratch.push(plain);
        }
    }

    /// The four hex digits at this position, those of a `\u` escape.
    fn half(&self, at: usize) -> Option<u16> {
        let digits = self.text.get(at..at + 4)?;
        digits.iter().try_fold(0, |value, byte| Some(value << 4 | char::from(*byte).to_digit(16)? as u16))
    }

    fn escaped(&mut self) -> Option<()> {
        let first = self.half(self.at + 1)?;
        self.at += 5;
        let second = if self.text[self.at..].starts_with(b"\\u") { self.half(self.at + 2) } else { None };
        let both = char::decode_utf16([first].into_iter().chain(second)).next()?;
        match both {
            Ok(c) => {
                // Consume the second escape only if both are one character.
                self.at += if c.len_utf16() == 2 { 6 } else { 0 };
                self.scratch.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Err(_) => {
                self.odd.0[HALF] += 1;
                let [high, low] = [first >> 6 & 0x3F, first & 0x3F].map(|six| 0x80 | six as u8);
                self.scratch.extend_from_slice(&[0xE0 | (first >> 12) as u8, high, low]);
            }
        }
        Some(())
    }
}

/// A number as decimal digits, without leading and trailing zeros.
#[derive(Clone, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    /// The power of ten of the last digit.
    exponent: i64,
}

impl Decimal {
    /// Parses a JSON number or a formatted double. Exponents beyond 64 bits are clamped.
    fn of(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let largest = if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
        let exponent: i64 = exponent.trim_start_matches('+').parse().unwrap_or(largest);
        let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0');
        let mut digits: Vec<u8> = digits.collect();
        let mut exponent = exponent.clamp(i64::MIN / 2, i64::MAX / 2) - fraction.len() as i64;
        while digits.last() == Some(&b'0') {
            digits.pop();
            exponent += 1;
        }
        if digits.is_empty() {
            return Self { negative: false, digits, exponent: 0 };
        }
        Self { negative, digits, exponent }
    }

    fn hash(&self) -> u128 {
        let mut hasher = Xxh3::with_seed(NUMBER);
        hasher.update(&[u8::from(self.negative)]);
        hasher.update(&self.exponent.to_le_bytes());
        hasher.update(&self.digits);
        hasher.digest128()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_and_moments_have_one_text() {
        for alike in [["1", "1.0"], ["+01", "10e-1"], ["-0", "0.00"], ["-2.50", "-25e-1"]] {
            let text = number(alike[0]);
            assert!(text.is_some() && text == number(alike[1]), "{alike:?}");
            // It is sent to stores as a key.
            assert_eq!(text.as_deref().unwrap().parse::<f64>().unwrap(), alike[0].parse::<f64>().unwrap());
        }
        for other in ["x", "", "inf", "NaN", "1,0"] {
            assert_eq!(number(other), None, "{other}");
        }
        assert_ne!(number("1"), number("10"));
        let noon = moment("2024-01-01T12:00:00Z");
        assert!(noon.is_some());
        for same in ["2024-01-01 13:00:00+01", "2024-01-01T07:00:00-05:00", "2024-01-01T12:00:00.0000001Z"] {
            assert_eq!(moment(same), noon, "{same}");
        }
        assert!(moment("2024-01-01T12:00:00.000001Z") != noon && moment("noon").is_none());
    }

    #[test]
    fn ways_of_writing_do_not_count() {
        let hash = |json: &str| of_record("k", json.as_bytes(), &[], true);
        let one = hash(r#"{"a":1,"b":{"c":[1,2.5,"é"],"d":null}}"#);
        assert_eq!(one, hash("{ \"b\" : {\"d\":null, \"c\":[1.0, 2.50, \"\\u00e9\"]},\n \"a\":1e0 }"));
        for alike in [
            ["9007199254740992", "9007199254740992.0"],
            ["1e25", "10000000000000000000000000"],
            ["-0.0", "0"],
            ["-0", "0e7"],
            ["1e400", "10e399"],
            ["0.1", "0.1000000000000000055"],
            [r#""\ud83d\ude00\/\n""#, "\"😀/\\u000a\""],
            [r#"{"a":1,"a":2}"#, r#"{"a":2}"#],
        ] {
            assert_eq!(hash(alike[0]), hash(alike[1]), "{alike:?}");
        }
        let exact = format!("1{}", "0".repeat(400));
        assert_eq!(hash("1e400"), hash(&exact));
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
            "{\"\":1}",
            "{\"a\":{\"b\":1}}",
            "{\"a\":1,\"b\":2}",
            "{\"a\":2,\"b\":1}",
            "{\"a\":1,\"b\":1}",
            "9007199254740993",
            "9007199254740994",
            "18446744073709551615",
            "18446744073709552000",
            "12345678901234567890123",
            "1.2345678901234568e22",
            "1e400",
            "-1e400",
            "1e-400",
            "\"\\ud800\"",
            "\"\\ud801\"",
            "\"\u{FFFD}\"",
            "[1,]",
            "{\"a\"}",
            "01",
            "1.",
            "\"\\x\"",
            "[1} ",
            "tru",
            "no json",
            "",
        ];
        let mut hashes: Vec<u128> = texts.iter().map(|text| of_record("k", text.as_bytes(), &[], true)).collect();
        hashes.extend(texts.iter().map(|text| of_record("l", text.as_bytes(), &[], true)));
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), texts.len() * 2);
    }

    #[test]
    fn what_stores_change_is_counted_by_its_kind() {
        let odd = |json: &str| seen("k", json.as_bytes(), &[], true).odd.0;
        assert_eq!(odd(r#"{"a":[1,1.5,"x",null,9007199254740992,-1e-5]}"#), [0; ODD]);
        assert_eq!(odd(r#"{"a":[1.0,1e2,-0.0,-0]}"#), [2, 2, 0, 0, 0, 0]);
        assert_eq!(odd(r#"{"a":1,"a":2,"b":{"c":1,"c":1,"c":1}}"#), [0, 0, 3, 0, 0, 0]);
        assert_eq!(
            odd(r#"[9007199254740993,18446744073709551615,1e400,1e-400,"\ud800\ud83d\ude00"]"#),
            [0, 0, 0, 2, 2, 1]
        );
        let lost = seen("k", b"[1.0,1e400]", &[], true).odd.lost(seen("k", b"[1,null]", &[], true).odd);
        let told: Vec<(u64, String)> = lost.told().collect();
        assert_eq!(told.len(), 2);
        assert!(told[0].1.contains("1.0 to 1") && told[1].1.contains("1e400"), "{told:?}");
    }

    #[test]
    fn no_depth_ends_the_stack() {
        let deep = format!("{{\"a\":{}1.0{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let spaced = deep.replace("[1.0", "[ 1 ");
        assert_eq!(of_record("k", deep.as_bytes(), &[], true), of_record("k", spaced.as_bytes(), &[], true));
    }

    proptest! {
        #[test]
        fn anything_is_hashed(bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "[{}\\[\\]\",:0-9.eE\\\\u-]{0,40}") {
            let _ = (seen("k", &bytes, &[], true), seen("k", text.as_bytes(), &[], false));
        }

        #[test]
        fn what_serde_takes_is_taken(value in any::<f64>().prop_filter("finite", |f| f.is_finite()), text in any::<String>()) {
            let json = serde_json::json!({"a": [value, text]}).to_string();
            let spaced = serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(&json).unwrap()).unwrap();
            prop_assert_eq!(seen("k", json.as_bytes(), &[], true), seen("k", spaced.as_bytes(), &[], true));
            prop_assert!(Walk::new(json.as_bytes(), &[], true).document().is_some());
        }
    }
}
