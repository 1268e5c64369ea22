//! Reads JSON without building a tree: members and elements are slices of the text, so a document keeps its original
//! bytes. Brackets and quotes must match; the rest is not checked. Invalid JSON ends a walk early. It never causes a
//! panic, and no nesting depth overflows the stack.

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
    /// The text between the quotes of its name, with escapes; [`name`] decodes it.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Name and value, with everything between them.
    pub whole: &'a [u8],
}

impl<'a> Walk<'a> {
    /// Starts at the beginning of `text`.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, deepest: 0 }
    }

    /// The next byte that is not white space, without consuming it.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// The current offset in the text.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The text consumed since this offset.
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// The deepest nesting of brackets in the values consumed so far.
    pub fn deepest(&self) -> u32 {
        self.deepest
    }

    /// Consumes this byte if it is the next one.
    pub fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Consumes a string and returns the text between its quotes, with escapes.
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

    /// Consumes any value and returns its text.
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

    /// Consumes an object or array with its contents.
    fn container(&mut self) -> Option<()> {
        // One bit per open bracket, 1 for an object. Beyond 128 levels, `outer` keeps the bits of the outer brackets.
        let (mut open, mut outer, mut depth) = (0_u128, Vec::new(), 0_u32);
        loop {
            // Outside of strings only brackets matter.
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

    /// Consumes a comma if one is next, then this bracket. Returns false if something else follows.
    fn ends(&mut self, bracket: u8) -> Option<bool> {
        if self.peek()? == b',' {
            self.at += 1;
        }
        let ends = self.peek()? == bracket;
        self.at += usize::from(ends);
        Some(ends)
    }

    /// Consumes the name of an object's next member and its colon. At the end of the object, consumes the `}` and
    /// returns `Some(None)`. The object's `{` must already be consumed.
    pub(crate) fn name(&mut self) -> Option<Option<&'a [u8]>> {
        if self.ends(b'}')? {
            return Some(None);
        }
        let name = self.string()?;
        self.take(b':')?;
        Some(Some(name))
    }

    /// Consumes an object's next member. At the end of the object, consumes the `}` and returns `Some(None)`. The
    /// object's `{` must already be consumed.
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

    /// Moves to the value of the object's member with this name, without consuming the value. The object's `{` must
    /// already be consumed.
    pub fn seek(&mut self, wanted: &str) -> Option<()> {
        while let Some(name) = self.name()? {
            if name == wanted.as_bytes() {
                return Some(());
            }
            self.value()?;
        }
        None
    }

    /// Consumes the comma before an array's next element, if it is not the first. At the end of the array, consumes the
    /// `]` and returns `Some(false)`. The array's `[` must already be consumed.
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

/// The elements of `text`, if it begins with an array. Ends early at invalid JSON.
pub fn elements(text: &[u8]) -> Elements<'_> {
    let mut walk = Walk::new(text);
    Elements(walk.take(b'[').map(|()| walk))
}

/// The members of `text`, if it begins with an object. Ends early at invalid JSON.
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

/// The value of the member with this name, if `object` has one.
pub fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut walk = Walk::new(object);
    walk.take(b'{')?;
    walk.seek(name)?;
    walk.value()
}

/// The name of a member that occurs twice in one object of `text`, at any depth. Parsers disagree about which one counts.
pub fn repeated(text: &[u8]) -> Option<Cow<'_, str>> {
    // Each name with the number of its object.
    let mut names: Vec<(u32, Cow<'_, str>)> = Vec::new();
    // The numbers of the open objects; `None` for an array.
    let (mut open, mut objects) = (Vec::new(), 0_u32);
    let mut walk = Walk::new(text);
    let next = |at: usize| text[at..].iter().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'));
    while let Some(after) = next(walk.at) {
        walk.at += after;
        match text[walk.at] {
            b'"' => {
                let string = walk.string()?;
                if let Some(Some(object)) = open.last()
                    && walk.peek() == Some(b':')
                {
                    names.push((*object, name(string)?));
                }
                continue;
            }
            b'{' => {
                open.push(Some(objects));
                objects += 1;
            }
            b'[' => open.push(None),
            _ => drop(open.pop()),
        }
        walk.at += 1;
    }
    names.sort_unstable();
    let twice = names.windows(2).position(|two| two[0] == two[1])?;
    Some(names.swap_remove(twice).1)
}

/// Whether `text` begins with a complete JSON array, judging by its brackets.
pub fn is_array(text: &[u8]) -> bool {
    let mut walk = Walk::new(text);
    walk.peek() == Some(b'[') && walk.value().is_some()
}

/// Decodes a JSON string; `None` if it is not a string. Unescaped control characters are accepted.
pub fn text(json: &[u8]) -> Option<Cow<'_, str>> {
    name(json.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
}

/// Decodes a name or another string without its quotes.
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

/// Length of an escaped control character, such as `\u0001`.
pub const ESCAPE_BYTES: usize = 6;

/// Whether this byte is a control character that JSON does not allow anywhere. Some servers (RavenDB 4.1) still leave
/// such bytes unescaped in strings. Tab, line feed and carriage return are allowed between values, and servers escape
/// them in strings.
pub fn is_bare_control(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Appends JSON with [bare control characters](is_bare_control) escaped.
pub fn push_escaped(text: &[u8], into: &mut Vec<u8>) {
    // Most documents have none, and checking is much faster than copying byte by byte.
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
    fn names_are_repeated_only_within_one_object() {
        for text in [r#"{"a":{"a":"a","b":["a","a",{"a":1},{"a":2}]},"b":"a"}"#, r#"["a","a"]"#, "{}", "1", "", "{\"a"]
        {
            assert_eq!(repeated(text.as_bytes()), None, "{text}");
        }
        for text in [
            r#"{"a":1,"b":2,"a":3}"#,
            r#"{"b":[[{"c":1,"a" : 1, "\u0061" :2}]]}"#,
            r#"{"x":{"y":1},"a":{"a":1},"z":{},"a":2}"#,
        ] {
            assert_eq!(repeated(text.as_bytes()).as_deref(), Some("a"), "{text}");
        }
        let deep = format!("{}{{\"a\":1,\"a\":2}}", "[".repeat(100_000));
        assert_eq!(repeated(deep.as_bytes()).as_deref(), Some("a"));
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
