//! Looks into JSON as RavenDB sends it without building it: where documents lie, where their
//! metadata. What is not JSON ends a walk early; nothing here panics on it.

use std::borrow::Cow;

use memchr::memchr2;

/// Walks over JSON text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    /// From its beginning.
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    /// The next byte that is no white space, without taking it.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.space();
        self.text.get(self.at).copied()
    }

    /// Where it is in its text.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Takes this byte, if it is the next.
    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
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

    /// Takes any value; gives its text. Brackets and quotes must match; the rest is not checked.
    pub(super) fn value(&mut self) -> Option<&'a [u8]> {
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
        Some(&self.text[start..self.at])
    }

    /// Takes an object or array with all that is in it. Not recursive, so that no depth ends the stack.
    fn container(&mut self) -> Option<()> {
        // A bit for each open bracket, 1 for an object: deeper than that is nothing that RavenDB stores.
        let (mut open, mut depth) = (0_u128, 0_u32);
        loop {
            match *self.text.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                bracket @ (b'{' | b'[') => {
                    depth += 1;
                    if depth > DEEPEST {
                        return None;
                    }
                    open = open << 1 | u128::from(bracket == b'{');
                }
                bracket @ (b'}' | b']') => {
                    if (open & 1 == 1) != (bracket == b'}') {
                        return None;
                    }
                    open >>= 1;
                    depth -= 1;
                }
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Takes the name of an object's next member and its colon; none at the end of the object, which
    /// is taken. The object's `{` was taken before.
    fn name(&mut self) -> Option<Option<&'a [u8]>> {
        if self.peek()? == b',' {
            self.at += 1;
        }
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(None);
        }
        let name = self.string()?;
        self.take(b':')?;
        Some(Some(name))
    }

    /// Goes to the value of an object's member of this name, which is not taken. The object's `{`
    /// was taken before.
    pub(super) fn seek(&mut self, wanted: &str) -> Option<()> {
        while let Some(name) = self.name()? {
            if name == wanted.as_bytes() {
                return Some(());
            }
            self.value()?;
        }
        None
    }

    /// Goes to the first element of an answer's `Results`.
    pub(super) fn results(&mut self) -> Option<()> {
        self.take(b'{')?;
        self.seek("Results")?;
        self.take(b'[')
    }

    /// Takes the comma before an array's next element, if it is not the first; false at the end of
    /// the array, which is taken. The array's `[` was taken before.
    pub(super) fn element(&mut self) -> Option<bool> {
        if self.peek()? == b',' {
            self.at += 1;
        }
        if self.peek()? == b']' {
            self.at += 1;
            return Some(false);
        }
        Some(true)
    }

    /// Takes a document of RavenDB's.
    pub(super) fn document(&mut self) -> Option<Document<'a>> {
        self.peek()?;
        let start = self.at;
        self.take(b'{')?;
        let (mut metadata, mut cut) = (None, 0..0);
        loop {
            let before = self.at;
            let Some(name) = self.name()? else { break };
            let value = self.value()?;
            if name == b"@metadata" {
                metadata = Some(value);
                // Where it stands first, the comma after it goes with it.
                let first = before == start + 1;
                let end = if first && self.peek()? == b',' { self.at + 1 } else { self.at };
                cut = before - start..end - start;
            }
        }
        Some(Document { text: &self.text[start..self.at], metadata, cut })
    }
}

/// A document as it came.
#[derive(Debug, Clone)]
pub(super) struct Document<'a> {
    text: &'a [u8],
    metadata: Option<&'a [u8]>,
    /// The metadata's member within the text, with one comma.
    cut: std::ops::Range<usize>,
}

impl<'a> Document<'a> {
    /// How many bytes [`Document::append_to`] appends.
    pub(super) fn len(&self) -> usize {
        let unescaped = |text: &[u8]| text.iter().filter(|byte| is_bare_control(**byte)).count();
        let bare = unescaped(&self.text[..self.cut.start]) + unescaped(&self.text[self.cut.end..]);
        self.text.len() - self.cut.len() + bare * (ESCAPE_BYTES - 1)
    }

    /// Appends it without its metadata, as JSON should be.
    pub(super) fn append_to(&self, into: &mut Vec<u8>) {
        push_escaped(&self.text[..self.cut.start], into);
        push_escaped(&self.text[self.cut.end..], into);
    }

    /// A text of its metadata.
    pub(super) fn meta(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.meta_value(name)?)
    }

    /// The text of a member of its metadata.
    pub(super) fn meta_value(&self, name: &str) -> Option<&'a [u8]> {
        member(self.metadata?, name)
    }

    /// Appends the members of its metadata but for these, each with a comma before it.
    pub(super) fn push_metadata(&self, but: &[&str], into: &mut Vec<u8>) {
        let mut walk = Walk::new(self.metadata.unwrap_or(b"{}"));
        if walk.take(b'{').is_none() {
            return;
        }
        while let Some(Some(name)) = walk.name() {
            let Some(value) = walk.value() else { return };
            if !but.iter().any(|other| other.as_bytes() == name) {
                into.extend_from_slice(b",\"");
                into.extend_from_slice(name);
                into.extend_from_slice(b"\":");
                into.extend_from_slice(value);
            }
        }
    }

    /// The text of one of its members.
    pub(super) fn member(&self, name: &str) -> Option<&'a [u8]> {
        member(self.text, name)
    }
}

/// The text of an object's member.
pub(super) fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut walk = Walk::new(object);
    walk.take(b'{')?;
    walk.seek(name)?;
    walk.value()
}

/// What a control character is escaped as: `\u0001`.
const ESCAPE_BYTES: usize = 6;

/// Whether RavenDB 4.1 leaves this byte unescaped in a string, where JSON allows none. Those that
/// may stand between values it does escape within them.
fn is_bare_control(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Appends JSON of RavenDB's with its control characters escaped.
fn push_escaped(text: &[u8], into: &mut Vec<u8>) {
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

/// What a JSON string says.
pub(super) fn text(json: &[u8]) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if inner.contains(&b'\\') {
        let mut clean = Vec::with_capacity(json.len());
        push_escaped(json, &mut clean);
        return serde_json::from_slice::<String>(&clean).ok().map(Cow::Owned);
    }
    std::str::from_utf8(inner).ok().map(Cow::Borrowed)
}

/// What a name says that stands between quotes.
fn json_name(name: &[u8]) -> Option<String> {
    text(&[b"\"", name, b"\""].concat()).map(Cow::into_owned)
}

/// Appends a text as a JSON string.
pub(super) fn push_text(text: &str, into: &mut Vec<u8>) {
    // Writing into a Vec cannot fail, and a str is always a JSON string.
    let _ = serde_json::to_writer(into, text);
}

/// Deepest nesting that a walk follows.
const DEEPEST: u32 = u128::BITS;

/// Whether brackets stand deeper in each other than a walk follows.
fn is_too_deep(text: &[u8]) -> bool {
    let (mut walk, mut depth) = (Walk::new(text), 0_u32);
    while let Some(byte) = walk.text.get(walk.at) {
        match byte {
            b'"' if walk.string().is_none() => return false,
            b'"' => continue,
            b'{' | b'[' if depth == DEEPEST => return true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        walk.at += 1;
    }
    false
}

/// Appends a document with RavenDB's collection in its metadata.
///
/// # Errors
/// Says what is wrong with the text: not one JSON object, nested too deep, or with metadata of its own.
pub(super) fn push_document(
    document: &[u8],
    collection: &str,
    more: &str,
    into: &mut Vec<u8>,
) -> Result<(), &'static str> {
    const WRONG: &str = "RavenDB stores JSON objects only, and this is none";
    const DEEP: &str = "the document is nested deeper than 128 levels, which this driver does not read back";
    const OWN: &str =
        "the document has a member `@metadata`, which RavenDB keeps for itself; rename it or leave it out";
    let mut walk = Walk::new(document);
    if walk.peek() != Some(b'{') {
        return Err(WRONG);
    }
    // Brackets that match keep the document within its place in the request.
    let text = walk.value().ok_or_else(|| if is_too_deep(document) { DEEP } else { WRONG })?;
    if walk.peek().is_some() || text.len() < 2 {
        return Err(WRONG);
    }
    into.extend_from_slice(b"{\"@metadata\":{\"@collection\":\"");
    into.extend_from_slice(collection.as_bytes());
    into.push(b'"');
    into.extend_from_slice(more.as_bytes());
    into.push(b'}');
    let start = into.len();
    let find = |part: &str| memchr::memmem::find(text, part.as_bytes()).is_some();
    if find("@metadata") || find("\\u0040") {
        let mut members = Walk::new(text);
        members.take(b'{').ok_or(WRONG)?;
        while let Some(name) = members.name().ok_or(WRONG)? {
            if json_name(name).as_deref() == Some("@metadata") {
                return Err(OWN);
            }
            members.value().ok_or(WRONG)?;
        }
        push_joined(text, into);
    } else if find("\\ud") || find("\\uD") {
        push_joined(text, into);
    } else {
        into.extend_from_slice(text);
    }
    // `{` becomes the comma between the metadata and what follows.
    into[start] = b',';
    if Walk::new(&into[start + 1..]).peek() == Some(b'}') {
        into.truncate(start);
        into.push(b'}');
    }
    Ok(())
}

/// Appends JSON with each character that is escaped as two halves (`\ud83d\ude00`) written as it
/// is: RavenDB 4.1 stores the halves as two characters that are none.
fn push_joined(text: &[u8], into: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, escape) = rest.split_at(at);
        into.extend_from_slice(before);
        let half = |at: usize| {
            let digits = escape.get(at..at + 6)?.strip_prefix(b"\\u")?;
            u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        };
        let joined = half(0).zip(half(6)).and_then(|pair| char::decode_utf16([pair.0, pair.1]).next()?.ok());
        let taken = match joined {
            // One that is whole by itself, and another behind it.
            Some(c) if c.len_utf16() == 2 => {
                into.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                12
            }
            // The character behind the backslash goes with it, as that may be another backslash.
            _ => {
                let taken = escape.len().min(2);
                into.extend_from_slice(&escape[..taken]);
                taken
            }
        };
        rest = &escape[taken..];
    }
    into.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Option<String> {
        let document = Walk::new(text.as_bytes()).document()?;
        let mut body = Vec::new();
        document.append_to(&mut body);
        assert_eq!(body.len(), document.len());
        Some(String::from_utf8(body).unwrap())
    }

    #[test]
    fn metadata_is_taken_out_wherever_it_stands() {
        for (text, expected) in [
            (r#"{"a":1,"@metadata":{"@id":"x"}}"#, r#"{"a":1}"#),
            (r#"{"@metadata":{"@id":"x"},"a":1}"#, r#"{"a":1}"#),
            (r#"{"a":1,"@metadata":{"@id":"x"},"b":{"@metadata":7}}"#, r#"{"a":1,"b":{"@metadata":7}}"#),
            (r#"{"@metadata":{}}"#, "{}"),
            ("{\"a\":\"\u{1}\u{1f}\",\n\"@metadata\":{}}", r#"{"a":"\u0001\u001f"}"#),
            (r#"{"a":"}\"@metadata\":{"}"#, r#"{"a":"}\"@metadata\":{"}"#),
        ] {
            assert_eq!(body(text).as_deref(), Some(expected));
        }
        for text in ["", "{", "[]", "7", r#"{"a":}"#, r#"{"a"}"#, r#"{"a":1"#, r#"{"a":"x}"#, r#"{"a":[}}"#] {
            assert_eq!(body(text), None, "{text}");
        }
    }

    #[test]
    fn rows_of_an_answer_are_walked_one_by_one() {
        let text = br#"{"IndexName":"x","Results":[{"n":1,"@metadata":{"@id":"c\/1"}},null,{"n":2}],"IsStale":true}"#;
        let mut walk = Walk::new(text);
        walk.results().unwrap();
        assert_eq!(walk.element(), Some(true));
        assert_eq!(walk.document().unwrap().meta("@id").as_deref(), Some("c/1"));
        assert_eq!(walk.element(), Some(true));
        assert_eq!(walk.value(), Some(&b"null"[..]));
        assert_eq!(walk.element(), Some(true));
        assert_eq!(walk.document().unwrap().meta("@id"), None);
        assert_eq!(walk.element(), Some(false));
        walk.seek("IsStale").unwrap();
        assert_eq!(walk.value(), Some(&b"true"[..]));
    }

    #[test]
    fn a_document_is_put_into_its_collection_and_cannot_leave_its_place() {
        let put = |text: &str| {
            let mut into = Vec::new();
            push_document(text.as_bytes(), "C", "", &mut into).map(|()| String::from_utf8(into).unwrap())
        };
        let meta = r#"{"@metadata":{"@collection":"C"}"#;
        assert_eq!(put("{}").unwrap(), format!("{meta}}}"));
        assert_eq!(put(" { \"a\" : 1 } ").unwrap(), format!("{meta}, \"a\" : 1 }}"));
        for own in [r#"{"a":1,"@metadata":{"@collection":"D"}}"#, r#"{"\u0040metadata":{}}"#] {
            assert!(put(own).unwrap_err().contains("keeps for itself"), "{own}");
        }
        let inner = r#"{"a":"@metadata","b":{"@metadata":7}}"#;
        assert_eq!(put(inner).unwrap(), format!("{meta},{}", &inner[1..]));
        let pair = r#"{"a":"\\ud83d\ude00 \uD83D\uDE00 \ud83d \ude00\ud83d \u00e9\u00e8 \"","b":1}"#;
        let joined = r#","a":"\\ud83d\ude00 😀 \ud83d \ude00\ud83d \u00e9\u00e8 \"","b":1}"#;
        assert_eq!(put(pair).unwrap(), format!("{meta}{joined}"));
        for text in ["", "7", "[]", "{", "{}{}", r#"{"a":1},"Type":"DELETE"}"#, r#"{"a":"x}"#, "{]", "x{}"] {
            assert!(put(text).is_err(), "{text}");
        }
        assert!(put(&format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100))).is_ok());
        assert!(put(&"{\"a\":".repeat(10_000)).unwrap_err().contains("128 levels"));
    }
}
