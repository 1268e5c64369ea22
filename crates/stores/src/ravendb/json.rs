//! Finds documents in RavenDB's answers, and the metadata in documents.

use std::borrow::Cow;

use storebench_documents::json::{ESCAPE_BYTES, Member, is_bare_control, members, name, push_escaped};
pub(super) use storebench_documents::json::{Walk, member, push_text, text};

/// Walks over the elements of an answer's `Results`.
pub(super) fn results(answer: &[u8]) -> Option<Walk<'_>> {
    let mut walk = Walk::new(answer);
    walk.take(b'{')?;
    walk.seek("Results")?;
    walk.take(b'[')?;
    Some(walk)
}

/// Reads one of RavenDB's documents.
pub(super) fn document<'a>(walk: &mut Walk<'a>) -> Option<Document<'a>> {
    walk.peek()?;
    let start = walk.at();
    walk.take(b'{')?;
    let (mut metadata, mut cut) = (None, 0..0);
    loop {
        let before = walk.at();
        let Some(member) = walk.member()? else { break };
        if member.name == b"@metadata" {
            metadata = Some(member.value);
            // If it comes first, the comma after it is cut too.
            let first = before == start + 1;
            let end = if first && walk.peek()? == b',' { walk.at() + 1 } else { walk.at() };
            cut = before - start..end - start;
        }
    }
    Some(Document { text: walk.since(start), metadata, cut })
}

/// A document as it was received.
#[derive(Debug, Clone)]
pub(super) struct Document<'a> {
    text: &'a [u8],
    metadata: Option<&'a [u8]>,
    /// The range of the metadata member in the text, including one comma.
    cut: std::ops::Range<usize>,
}

impl<'a> Document<'a> {
    /// How many bytes [`Document::append_to`] appends.
    pub(super) fn len(&self) -> usize {
        let unescaped = |text: &[u8]| text.iter().filter(|byte| is_bare_control(**byte)).count();
        let bare = unescaped(&self.text[..self.cut.start]) + unescaped(&self.text[self.cut.end..]);
        self.text.len() - self.cut.len() + bare * (ESCAPE_BYTES - 1)
    }

    /// Appends it without its metadata, with control characters escaped as JSON requires.
    pub(super) fn append_to(&self, into: &mut Vec<u8>) {
        push_escaped(&self.text[..self.cut.start], into);
        push_escaped(&self.text[self.cut.end..], into);
    }

    /// A string in its metadata.
    pub(super) fn meta(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.meta_value(name)?)
    }

    /// The JSON text of a member of its metadata.
    pub(super) fn meta_value(&self, name: &str) -> Option<&'a [u8]> {
        member(self.metadata?, name)
    }

    /// Appends the members of its metadata except `but`, each preceded by a comma.
    pub(super) fn push_metadata(&self, but: &[&str], into: &mut Vec<u8>) {
        for Member { name, whole, .. } in members(self.metadata.unwrap_or_default()) {
            if !but.iter().any(|other| other.as_bytes() == name) {
                into.push(b',');
                into.extend_from_slice(whole);
            }
        }
    }

    /// The JSON text of one of its members.
    pub(super) fn member(&self, name: &str) -> Option<&'a [u8]> {
        member(self.text, name)
    }
}

/// The deepest nesting that is stored. What deeper documents do to a server is unknown.
const DEEPEST: u32 = 128;

/// Appends a document with RavenDB's collection in its metadata.
///
/// # Errors
/// What is wrong with the text: it is not one JSON object, is nested too deeply, or has its own metadata.
pub(super) fn push_document(
    document: &[u8],
    collection: &str,
    more: &str,
    into: &mut Vec<u8>,
) -> Result<(), &'static str> {
    const WRONG: &str = "RavenDB stores JSON objects only, and this body is not one";
    const DEEP: &str = "the document is nested deeper than 128 levels, which this driver does not store";
    const OWN: &str = "RavenDB reserves the member name `@metadata`; rename the member or leave it out";
    let mut walk = Walk::new(document);
    if walk.peek() != Some(b'{') {
        return Err(WRONG);
    }
    // Matching brackets keep the document in its place in the request.
    let text = walk.value().ok_or(WRONG)?;
    if walk.peek().is_some() {
        return Err(WRONG);
    }
    if walk.deepest() > DEEPEST {
        return Err(DEEP);
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
        while let Some(member) = members.member().ok_or(WRONG)? {
            if name(member.name).as_deref() == Some("@metadata") {
                return Err(OWN);
            }
        }
        push_joined(text, into);
    } else if find("\\u") {
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

/// Appends JSON with escapes replaced by their characters, except those of characters that need one. RavenDB 4.1 stores the
/// halves of an escaped surrogate pair (`\ud83d\ude00`) as two invalid characters, and changes a text with an escape such as
/// `\u00f6` at the end of one of its buffers: “Kf6ln” for “Köln”.
fn push_joined(text: &[u8], into: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, escape) = rest.split_at(at);
        into.extend_from_slice(before);
        let half = |at: usize| {
            let digits = escape.get(at..at + 6)?.strip_prefix(b"\\u")?;
            u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        };
        let character = half(0).and_then(|first| char::decode_utf16([first].into_iter().chain(half(6))).next());
        let taken = match character {
            Some(Ok(c)) if c >= ' ' && !matches!(c, '"' | '\\') => {
                into.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                6 * c.len_utf16()
            }
            // The character after the backslash is taken too, since it may be another backslash.
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
mod tests;
