//! Looks into JSON without building it: members and elements are slices of the text, and a document stays the bytes
//! that came. Brackets and quotes must match; the rest is not checked. What is not JSON ends a walk early: nothing
//! here panics on it, and no depth ends the stack.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// Walks over JSON text.
#[derive(Debug, Clone)]
pub struct Walk<'a> {
    text: &'a [u8],
    at: usize,
    deepest: u32,
}

/// A member of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// What stands between the quotes of its name, escapes and all; [`name`] says what it means.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Both, with what stands between.
    pub whole: &'a [u8],
}

impl<'a> Walk<'a> {
    /// From its beginning.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, deepest: 0 }
    }

    /// The next byte that is no white space, without taking it.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Where it is in its text.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What was taken since it was at this place.
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// How deep brackets stood in each other in the values that were taken.
    pub fn deepest(&self) -> u32 {
        self.deepest
    }

    /// Takes this byte, if it is the next.
    pub fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Takes a string; gives what stands between its quotes, escapes and all.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let start = self.at;
        loop {
            self.at += memchr2(b'"', b'\\', self.text.get(self.at..)?)?;
            if self.text[self.at] == b'"' {
                self.at += 1;
                return Some(&self.text[start..self.at - 1]);
            }
            self.at += 2;
        }
    }

    /// Takes any value; gives its text.
    pub fn value(&mut self) -> Option<&'a [u8]> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => {
                self.string()?;
            }
            b'{' | b'[' => self.container()?,
            b',' | b':' | b'}' | b']' => return None,
            _ => {
                while let Some(byte) = self.text.get(self.at)
                    && !matches!(byte, b',' | b'}' | b']' | b':' | b'"' | b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n')
                {
                    self.at += 1;
                }
            }
        }
        Some(self.since(start))
    }

    /// Takes an object or array with all that is in it.
    fn container(&mut self) -> Option<()> {
        // A bit for each open bracket, 1 for an object; the outer ones of many are kept apart.
        let (mut open, mut outer, mut depth) = (0_u128, Vec::new(), 0_u32);
        loop {
            // Between strings only brackets count.
            self.at += self.text[self.at..].iter().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
            match self.text[self.at] {
                b'"' => {
                    self.string()?;
                    continue;
                }
                bracket @ (b'{' | b'[') => {
                    if depth > 0 && depth.is_multiple_of(u128::BITS) {
                        outer.push(open);
                    }
                    depth += 1;
                    self.deepest = self.deepest.max(depth);
                    open = open << 1 | u128::from(bracket == b'{');
                }
                bracket => {
                    if (open & 1 == 1) != (bracket == b'}') {
                        return None;
                    }
                    open >>= 1;
                    depth -= 1;
                    if depth > 0 && depth.is_multiple_of(u128::BITS) {
                        open = outer.pop()?;
                    }
                }
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Takes a comma, if one is next, and this bracket; false where something else follows.
    fn ends(&mut self, bracket: u8) -> Option<bool> {
        if self.peek()? == b',' {
            self.at += 1;
        }
        let ends = self.peek()? == bracket;
        self.at += usize::from(ends);
        Some(ends)
    }

    /// Takes the name of an object's next member and its colon; none at the end of the object, which
    /// is taken. The object's `{` was taken before.
    fn name(&mut self) -> Option<Option<&'a [u8]>> {
        if self.ends(b'}')? {
            return Some(None);
        }
        let name = self.string()?;
        self.take(b':')?;
        Some(Some(name))
    }

    /// Takes an object's next member; none at the end of the object, which is taken. The object's `{` was taken before.
    pub fn member(&mut self) -> Option<Option<Member<'a>>> {
        if self.ends(b'}')? {
            return Some(None);
        }
        let start = self.at;
        let name = self.string()?;
        self.take(b':')?;
        let value = self.value()?;
        Some(Some(Member { name, value, whole: self.since(start) }))
    }

    /// Goes to the value of an object's member of this name, which is not taken. The object's `{`
    /// was taken before.
    pub fn seek(&mut self, wanted: &str) -> Option<()> {
        while let Some(name) = self.name()? {
            if name == wanted.as_bytes() {
                return Some(());
            }
            self.value()?;
        }
        None
    }

    /// Takes the comma before an array's next element, if it is not the first; false at the end of
    /// the array, which is taken. The array's `[` was taken before.
    pub fn element(&mut self) -> Option<bool> {
        self.ends(b']').map(|ends| !ends)
    }
}

/// The elements of an array.
#[derive(Debug, Clone)]
pub struct Elements<'a>(Option<Walk<'a>>);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let walk = self.0.as_mut()?;
        let found = walk.element().filter(|more| *more).and_then(|_| walk.value());
        if found.is_none() {
            self.0 = None;
        }
        found
    }
}

/// The elements of `text`, if that begins as an array. Ends early where it is not JSON.
pub fn elements(text: &[u8]) -> Elements<'_> {
    let mut walk = Walk::new(text);
    Elements(walk.take(b'[').map(|()| walk))
}

/// The members of `text`, if that begins as an object. Ends early where it is not JSON.
pub fn members(text: &[u8]) -> impl Iterator<Item = Member<'_>> {
    let mut walk = Walk::new(text);
    let mut walk = walk.take(b'{').map(|()| walk);
    std::iter::from_fn(move || {
        let found = walk.as_mut()?.member().flatten();
        if found.is_none() {
            walk = None;
        }
        found
    })
}

/// The value of an object's member of this name, if `object` has one.
pub fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut walk = Walk::new(object);
    walk.take(b'{')?;
    walk.seek(name)?;
    walk.value()
}

/// Whether the whole of `text` begins with one JSON array, as far as its brackets tell.
pub fn is_array(text: &[u8]) -> bool {
    let mut walk = Walk::new(text);
    walk.peek() == Some(b'[') && walk.value().is_some()
}

/// What a JSON string says; none where it is no string. Control characters may stand in it as they are.
pub fn text(json: &[u8]) -> Option<Cow<'_, str>> {
    name(json.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
}

/// What a name, or another string, says whose quotes were taken off.
pub fn name(inside: &[u8]) -> Option<Cow<'_, str>> {
    if memchr(b'\\', inside).is_none() {
        return std::str::from_utf8(inside).ok().map(Cow::Borrowed);
    }
    let mut quoted = Vec::with_capacity(inside.len() + 2);
    quoted.push(b'"');
    push_escaped(inside, &mut quoted);
    quoted.push(b'"');
    serde_json::from_slice::<String>(&quoted).ok().map(Cow::Owned)
}

/// Appends a text as a JSON string.
pub fn push_text(text: &str, into: &mut Vec<u8>) {
    // Writing into a Vec cannot fail, and a str is always a JSON string.
    let _ = serde_json::to_writer(into, text);
}

/// What a control character is escaped as: `\u0001`.
pub const ESCAPE_BYTES: usize = 6;

/// Whether this byte may stand nowhere in JSON, though servers leave it unescaped in strings (RavenDB 4.1). Those that
/// may stand between values are escaped within them.
pub fn is_bare_control(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Appends JSON with such characters escaped.
pub fn push_escaped(text: &[u8], into: &mut Vec<u8>) {
    // The usual document has none: looking is much quicker than copying byte by byte.
    if !text.iter().fold(false, |found, byte| found | is_bare_control(*byte)) {
        return into.extend_from_slice(text);
    }
    for byte in text {
        if is_bare_control(*byte) {
            let digit = b"0123456789abcdef"[usize::from(byte & 15)];
            into.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), digit]);
        } else {
            into.push(*byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn members_and_elements_are_slices_of_the_text() {
        let json = br#" {"a" : [1, "x]\"", {"b":2}] ,"c":null,"d":"e\u00e9"} "#;
        let found: Vec<_> = members(json).collect();
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].name, found[0].value), (&b"a"[..], &br#"[1, "x]\"", {"b":2}]"#[..]));
        assert_eq!(found[0].whole, br#""a" : [1, "x]\"", {"b":2}]"#);
        let inner: Vec<_> = elements(found[0].value).collect();
        assert_eq!(inner, [&b"1"[..], br#""x]\"""#, br#"{"b":2}"#]);
        assert_eq!(text(found[2].value).as_deref(), Some("eé"));
        assert_eq!(elements(b"[]").count() + members(b"{}").count() + elements(b"").count(), 0);
        assert!(is_array(b" [] ") && !is_array(b"[") && !is_array(b"{}"));
        assert_eq!(text(b"\"a\\\"\x01\"").as_deref(), Some("a\"\u{1}"));
    }

    #[test]
    fn what_is_not_json_has_no_value() {
        for text in ["", "{", r#"{"a":1"#, r#"{"a":"x}"#, r#"{"a":[}}"#, "[}", "]", ":"] {
            assert_eq!(Walk::new(text.as_bytes()).value(), None, "{text}");
        }
    }

    #[test]
    fn brackets_match_at_any_depth() {
        for depth in [1, 127, 128, 129, 256, 100_000] {
            let deep = format!(r#"{{"a":{}{},"b":2}}"#, "[".repeat(depth), "]".repeat(depth));
            assert_eq!(member(deep.as_bytes(), "b"), Some(&b"2"[..]));
            let mut walk = Walk::new(deep.as_bytes());
            assert!(walk.value().is_some());
            assert_eq!(walk.deepest() as usize, depth + 1);
            for wrong in [deep.replacen('[', "{", 1), deep.replace("],", "},")] {
                assert_eq!(Walk::new(wrong.as_bytes()).value(), None, "{depth}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>) {
            let _ = (members(&bytes).count(), elements(&bytes).count());
            let _ = (text(&bytes), name(&bytes), is_array(&bytes), member(&bytes, "a"));
            let mut walk = Walk::new(&bytes);
            prop_assert!(walk.value().is_none_or(|value| value.len() <= bytes.len()));
        }

        #[test]
        fn whatever_serde_writes_is_read(values: Vec<(String, Vec<i32>)>) {
            let json = serde_json::to_vec(&values).unwrap();
            let read: Vec<(String, usize)> = elements(&json)
                .map(|pair| {
                    let mut pair = elements(pair);
                    let name = text(pair.next().unwrap()).unwrap().into_owned();
                    (name, elements(pair.next().unwrap()).count())
                })
                .collect();
            let expected: Vec<_> = values.iter().map(|(name, list)| (name.clone(), list.len())).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
