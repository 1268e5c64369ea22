//! The names of our collections and keys in RavenDB.
//!
//! RavenDB ignores case when it compares document ids, orders them by the bytes of their lower-case form, and adds a
//! number to an id that ends in `/` or `|`. Keys here are compared exactly, and ordered by their UTF-8 bytes. So a
//! document's id is `collection/key`, with the key written in printable ASCII without capitals. The order of ids is
//! then the order of keys, and a prefix of a key gives a prefix of its id:
//!
//! | of a key | in an id |
//! |---|---|
//! | U+0000 to U+0021 (controls, space, `!`) | `!` and two hexadecimal digits |
//! | `@`, `A` to `Z` | `@@`, `@a` to `@z` |
//! | `~`, U+007F | `~0`, `~1` |
//! | beyond ASCII | `~` and two hexadecimal digits for each byte of UTF-8 |
//! | the end, after `/` or `|` or nothing | `!` |
//!
//! Keys such as `users/17` or `highlights/ab-3/00000000000004` are unchanged in the id.

use storebench_engine::store::OpError;

use crate::refusals::refused;

/// The longest id that RavenDB 4.1 reads. It stores ids of up to 2025 bytes, but then refuses to return them.
const LONGEST_ID_BYTES: usize = 512;

/// How the keys of a collection are written as document ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Naming {
    /// `name/` for our collections. Empty if ids are the keys.
    pub(super) prefix: String,
    /// Whether Storebench chose the ids.
    pub(super) ours: bool,
}

impl Naming {
    /// For a collection that Storebench made.
    pub(super) fn ours(name: &str) -> Self {
        Self { prefix: format!("{name}/"), ours: true }
    }

    /// For documents of other programs, whose ids are the keys.
    pub(super) fn theirs() -> Self {
        Self { prefix: String::new(), ours: false }
    }

    /// Replaces the contents of the buffer with the id of a key.
    ///
    /// # Errors
    /// *Refused*, if the id would be empty, or longer than RavenDB can read.
    pub(super) fn id(&self, key: &str, into: &mut String) -> Result<(), OpError> {
        self.id_prefix(key, into);
        if self.ours && (key.is_empty() || key.ends_with(['/', '|'])) {
            into.push('!');
        }
        if into.len() > LONGEST_ID_BYTES {
            return Err(refused(format!(
                "a key of {} bytes becomes a document id of {}; RavenDB allows ids of at most {LONGEST_ID_BYTES} bytes, \
                 in which a non-ASCII byte takes at least two",
                key.len(),
                into.len()
            )));
        }
        if into.is_empty() {
            return Err(refused("RavenDB has no document with an empty id"));
        }
        Ok(())
    }

    /// Replaces the contents of the buffer with the start of the ids of all keys with this prefix.
    pub(super) fn id_prefix(&self, prefix: &str, into: &mut String) {
        into.clear();
        into.push_str(&self.prefix);
        if !self.ours {
            into.push_str(prefix);
            return;
        }
        for c in prefix.chars() {
            match c {
                '\0'..='!' => push_hex(b'!', &[c as u8], into),
                '@' => into.push_str("@@"),
                'A'..='Z' => {
                    into.push('@');
                    into.push(c.to_ascii_lowercase());
                }
                '~' => into.push_str("~0"),
                '\u{7f}' => into.push_str("~1"),
                c if c.is_ascii() => into.push(c),
                c => push_hex(b'~', c.encode_utf8(&mut [0; 4]).as_bytes(), into),
            }
        }
    }

    /// Replaces the contents of the buffer with the key of an id. Returns false for an id that this collection cannot
    /// have.
    pub(super) fn key(&self, id: &str, into: &mut Vec<u8>) -> bool {
        into.clear();
        // The prefix has the case in which we wrote it.
        let Some(rest) = id.strip_prefix(&self.prefix) else { return false };
        if !self.ours {
            into.extend_from_slice(rest.as_bytes());
            return true;
        }
        let mut rest = rest.as_bytes();
        while let [first, after @ ..] = rest {
            let (byte, taken) = match (first, after) {
                (b'!', []) => return true,
                (b'@', [b'@', ..]) => (b'@', 2),
                (b'@', [c @ b'a'..=b'z', ..]) => (c.to_ascii_uppercase(), 2),
                (b'~', [b'0', ..]) => (b'~', 2),
                (b'~', [b'1', ..]) => (0x7f, 2),
                (b'~', _) => {
                    let Some(taken) = from_hex(after, into) else { return false };
                    rest = &after[taken..];
                    continue;
                }
                (b'!', [high, low, ..]) => match (digit(*high), digit(*low)) {
                    (Some(high), Some(low)) => (high << 4 | low, 3),
                    _ => return false,
                },
                (b'!' | b'@', _) => return false,
                (other, _) => (*other, 1),
            };
            into.push(byte);
            rest = &rest[taken..];
        }
        true
    }
}

/// Every character that our ids may contain after the collection, in the order of ids.
pub(super) fn id_characters() -> impl Iterator<Item = char> {
    ('!'..='~').filter(|c| !c.is_ascii_uppercase())
}

/// RavenDB's name of a collection. Its first letter is a capital, as is usual there, and so that it is no keyword of
/// the index language. `_` replaces `-`, which names in that language cannot contain.
pub(super) fn collection(name: &str) -> String {
    let mut collection = name.replace('-', "_");
    if let Some(first) = collection.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    collection
}

/// Whether RavenDB would treat two names of collections as the same.
pub(super) fn alike(one: &str, other: &str) -> bool {
    collection(one).eq_ignore_ascii_case(&collection(other))
}

fn push_hex(mark: u8, bytes: &[u8], into: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    into.push(char::from(mark));
    for byte in bytes {
        into.push(char::from(DIGITS[usize::from(byte >> 4)]));
        into.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// Appends one UTF-8 character that is written in hexadecimal. Returns how many digits it took.
fn from_hex(digits: &[u8], into: &mut Vec<u8>) -> Option<usize> {
    let byte = |at: usize| Some(digit(*digits.get(at)?)? << 4 | digit(*digits.get(at + 1)?)?);
    let length = match byte(0)? {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return None,
    };
    for at in 0..length {
        into.push(byte(2 * at)?);
    }
    Some(2 * length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use storebench_engine::store::ErrorKind;

    use super::*;

    fn id(key: &str) -> String {
        let mut id = String::new();
        Naming::ours("c").id(key, &mut id).unwrap();
        id
    }

    #[test]
    fn usual_keys_stand_as_they_are_and_odd_ones_are_written_out() {
        assert_eq!(id("users/17"), "c/users/17");
        assert_eq!(id("Key a@~"), "c/@key!20a@@~0");
        assert_eq!(id("sl//"), "c/sl//!");
        assert_eq!(id("é"), "c/~c3a9");
        assert_eq!(id(""), "c/!");
    }

    #[test]
    fn what_is_no_id_of_ours_is_no_key() {
        let mut key = Vec::new();
        for id in ["d/a", "c/~zz", "c/~c3", "c/@1", "c/!4", "c/!zz", "c/~ff"] {
            assert!(!Naming::ours("c").key(id, &mut key), "{id}");
        }
        assert!(Naming::theirs().key("users/1-A", &mut key));
        assert_eq!(key, b"users/1-A");
    }

    #[test]
    fn a_key_too_long_is_refused_with_the_figures() {
        let error = Naming::ours("c").id(&"é".repeat(600), &mut String::new()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.message.contains("1200") && error.message.contains("3002"), "{error}");
    }

    #[test]
    fn collections_are_named_as_ravendb_can() {
        assert_eq!(collection("users-books"), "Users_books");
        assert_eq!(collection("class"), "Class");
        assert!(alike("Users-books", "users_Books") && !alike("users", "user"));
    }

    proptest! {
        #[test]
        fn ids_keep_order_prefixes_and_case(a in any::<String>(), b in any::<String>(), short in "[ -~é]{0,3}") {
            for (a, b) in [(&a, &b), (&short, &b), (&a, &format!("{a}{b}"))] {
                let (x, y) = (id(a), id(b));
                prop_assert_eq!(a.as_bytes().cmp(b.as_bytes()), x.as_bytes().cmp(y.as_bytes()));
                prop_assert_eq!(&x.to_lowercase(), &x);
                prop_assert!(!x.ends_with(['/', '|']) && x.bytes().all(|c| c.is_ascii_graphic()));
                let mut prefix = String::new();
                Naming::ours("c").id_prefix(a, &mut prefix);
                prop_assert_eq!(y.starts_with(&prefix), b.starts_with(a.as_str()));
                let mut key = Vec::new();
                prop_assert!(Naming::ours("c").key(&x, &mut key));
                prop_assert_eq!(key, a.as_bytes());
            }
        }
    }
}
