//! Streams all documents of a collection that Storebench did not make.
//!
//! `streams/queries` returns a collection in the order of its last writes, as it was when the stream began. With
//! RavenDB 4.1, the stream included a document that was removed meanwhile, and the server waited for a client that
//! paused for minutes (measured). Pages would have to be skipped to, and if a document is removed meanwhile, the next
//! page begins after a document that nobody has seen. A stream that breaks starts again, and its reader omits what it
//! has already seen.

use std::ops::Range;

use memchr::memchr2;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use storebench_engine::store::{BadRow, LocalFuture, RowPage, RowStream, StoreError};

use super::errors::store_error;
use super::expiry;
use super::json::{self, Walk};
use super::server::Server;
use crate::http::{Answer, Client, Download};

/// The approximate size of a page.
const PAGE_BYTES: usize = 1 << 20;
/// The most documents in a page, whatever their size.
const MOST: usize = 5_000;
/// The text before and after the documents is shorter than this.
const FRAME_BYTES: usize = 64 * 1024;
/// A larger document is an error.
const DOCUMENT_BYTES: usize = 1 << 30;
/// A stream that breaks this often without progress is given up.
const MOST_BREAKS: u32 = 5;
/// What belongs to a document but would not be copied: the member of its metadata, and a word for it.
const BESIDES: [(&str, &str); 3] =
    [("@attachments", "attachments"), ("@counters", "counters"), ("@timeseries", "time series")];

/// A stream of a collection, started as often as necessary.
pub(super) struct Listing {
    client: Client,
    /// Path and query of the stream.
    path: String,
    /// The database, for errors.
    place: String,
    /// Whether the database may remove documents that have expired.
    expires: bool,
    stream: Option<Stream>,
    ended: bool,
    /// How many documents this stream has returned, and the most that a broken one has.
    given: usize,
    furthest: usize,
    breaks: u32,
}

/// A stream in progress.
struct Stream {
    body: Download,
    /// The received text. It has not been consumed from `at` on.
    text: Vec<u8>,
    at: usize,
    /// For the document that begins at `at`: how far its end was searched, and the state of the search.
    looked: usize,
    ends: Option<Ends>,
}

impl Server {
    /// Begins to list a collection.
    ///
    /// # Errors
    /// `NotSupported` if the stream would omit documents.
    pub(super) async fn listing(&self, collection: &str, expires: bool) -> Result<Listing, StoreError> {
        let told = self.get("/collections/stats", "count its documents").await?;
        if let Some(conflicts) = told["CountOfConflicts"].as_u64().filter(|conflicts| *conflicts > 0) {
            return Err(StoreError::NotSupported(format!(
                "{}: {conflicts} documents are in conflict between nodes, and RavenDB omits them; resolve the \
                 conflicts first",
                self.shown()
            )));
        }
        let query = everything(collection);
        let query = utf8_percent_encode(&query, NON_ALPHANUMERIC);
        Ok(Listing {
            client: self.client.clone(),
            path: self.path(&format!("/streams/queries?query={query}")),
            place: self.shown(),
            expires,
            stream: None,
            ended: false,
            given: 0,
            furthest: 0,
            breaks: 0,
        })
    }
}

/// The query of all documents of a collection.
fn everything(collection: &str) -> String {
    format!("from '{}'", collection.replace('\\', "\\\\").replace('\'', "\\'"))
}

impl Listing {
    async fn begin(&self) -> Result<Stream, StoreError> {
        let mut body = self.client.download(&self.path).await?;
        let mut text = Vec::new();
        if body.status != 200 {
            while text.len() < FRAME_BYTES && body.more(&mut text).await? {}
            let answer = Answer::of_parts(body.status, b"", &text);
            return Err(store_error(&self.place, "stream a collection", &answer));
        }
        loop {
            if let Some(at) = json::results(&text).map(|walk| walk.at()) {
                return Ok(Stream { body, text, at, looked: at, ends: None });
            }
            if text.len() > FRAME_BYTES || !body.more(&mut text).await? {
                return Err(self.garbled());
            }
        }
    }

    fn garbled(&self) -> StoreError {
        StoreError::Failed(format!(
            "{}: the server's stream is not RavenDB's; check for a proxy or another server in between",
            self.place
        ))
    }

    async fn page(&mut self, page: &mut RowPage) -> Result<bool, StoreError> {
        page.clear();
        if self.ended {
            return Ok(false);
        }
        // If this fails, the connection is dropped, and the next try begins on another one.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                self.given = 0;
                self.begin().await?
            }
        };
        let more = self.fill(&mut stream, page).await;
        self.given += page.rows.len() + page.bad.len();
        match more {
            Ok(true) => self.stream = Some(stream),
            Ok(false) => self.ended = true,
            Err(error) => return Err(self.broke(error)),
        }
        Ok(true)
    }

    /// Adds documents to the page until it is full. Returns false after the last one.
    async fn fill(&self, stream: &mut Stream, page: &mut RowPage) -> Result<bool, StoreError> {
        while page.rows.as_batch().total_bytes() < PAGE_BYTES && page.rows.len() + page.bad.len() < MOST {
            match stream.document() {
                NextInStream::Document(place) => {
                    put(&stream.text[place], self.expires, page).ok_or_else(|| self.garbled())?;
                }
                NextInStream::End => return self.end(stream).await.map(|()| false),
                NextInStream::Nothing if stream.text.len() > DOCUMENT_BYTES => {
                    return Err(StoreError::Failed(format!("{}: a document is larger than 1 GiB", self.place)));
                }
                NextInStream::Nothing => {
                    if !stream.more().await? {
                        return Err(stream.body.broken("it ended in the middle of its documents"));
                    }
                }
                NextInStream::Garbage => return Err(self.garbled()),
            }
        }
        Ok(true)
    }

    /// Reads what follows the last document: an error if the server could not continue.
    async fn end(&self, stream: &mut Stream) -> Result<(), StoreError> {
        while stream.text.len() - stream.at <= FRAME_BYTES && stream.body.more(&mut stream.text).await? {}
        let rest = [&b"{"[..], &stream.text[stream.at..]].concat();
        if Walk::new(&rest).value().is_none() {
            return Err(stream.body.broken("it ended after its documents"));
        }
        match json::member(&rest, "Error") {
            None => Ok(()),
            Some(error) => {
                let said: String = String::from_utf8_lossy(error).chars().take(300).collect();
                Err(StoreError::Failed(format!("{}: RavenDB could not continue with a stream: {said}", self.place)))
            }
        }
    }

    /// Handles a broken stream. It may be restarted, but only a limited number of times.
    fn broke(&mut self, error: StoreError) -> StoreError {
        if !matches!(error, StoreError::Unreachable(_)) {
            return error;
        }
        if self.given > self.furthest {
            (self.furthest, self.breaks) = (self.given, 0);
        }
        self.breaks += 1;
        if self.breaks < MOST_BREAKS {
            return error;
        }
        StoreError::Failed(format!(
            "{error}; it broke {} times after no more than {} documents",
            self.breaks, self.furthest
        ))
    }
}

impl RowStream for Listing {
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.page(page))
    }
}

/// What is next in a stream.
enum NextInStream {
    /// A document, at this range of the text.
    Document(Range<usize>),
    /// There are no more documents.
    End,
    /// More text is needed first.
    Nothing,
    Garbage,
}

impl Stream {
    /// Takes the next document.
    fn document(&mut self) -> NextInStream {
        if self.ends.is_none() {
            let here = &self.text[self.at..];
            let between = here.iter().position(|byte| !matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n'));
            let Some(between) = between else { return NextInStream::Nothing };
            self.at += between;
            match self.text[self.at] {
                b']' => {
                    self.at += 1;
                    return NextInStream::End;
                }
                b'{' => (self.looked, self.ends) = (self.at, Some(Ends::default())),
                _ => return NextInStream::Garbage,
            }
        }
        let found = self.ends.as_mut().and_then(|ends| ends.find(&self.text[self.looked..]));
        let Some(length) = found else {
            self.looked = self.text.len();
            return NextInStream::Nothing;
        };
        let start = self.at;
        (self.at, self.ends) = (self.looked + length, None);
        NextInStream::Document(start..self.at)
    }

    /// Waits for more text. Returns false at the end.
    async fn more(&mut self) -> Result<bool, StoreError> {
        self.text.drain(..self.at);
        self.looked = self.looked.saturating_sub(self.at);
        self.at = 0;
        self.body.more(&mut self.text).await
    }
}

/// Finds the end of an object in text that arrives in pieces. Looks at each byte once.
#[derive(Debug, Default)]
struct Ends {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Ends {
    /// The offset after the object's end in these bytes, which follow those of the previous call.
    fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if self.escaped {
                self.escaped = false;
            } else if self.in_text {
                at += memchr2(b'"', b'\\', &bytes[at..])?;
                (self.in_text, self.escaped) = (bytes[at] != b'"', bytes[at] == b'\\');
            } else {
                match byte {
                    b'"' => self.in_text = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                if self.depth == 0 {
                    return Some(at + 1);
                }
            }
            at += 1;
        }
        None
    }
}

/// Adds a document to a page, or the reason why it cannot be copied. `None` if it is not a document of RavenDB.
fn put(text: &[u8], expires: bool, page: &mut RowPage) -> Option<()> {
    let document = json::document(&mut Walk::new(text))?;
    let id = document.meta("@id")?;
    let bad = |why: String| BadRow::of(id.as_bytes(), why);
    let beside = BESIDES.iter().find(|(name, _)| document.meta_value(name).is_some_and(|value| value != b"[]"));
    if let Some((_, "attachments")) = beside {
        page.attached.push(page.rows.len());
    } else if let Some((_, beside)) = beside {
        page.bad.push(bad(format!("it has {beside}, which are not copied")));
        return Some(());
    }
    let expiry = document.meta("@expires");
    if expiry.is_some() && !expires {
        page.unheeded_expiry += 1;
    }
    if let Some(at) = expiry.filter(|_| expires) {
        match expiry::left(&at) {
            Some(left) => page.expiring.push((page.rows.len(), left)),
            None => {
                page.attached.pop_if(|row| *row == page.rows.len());
                page.bad.push(bad(format!("it expires at `{at}`, which has no time zone")));
                return Some(());
            }
        }
    }
    page.rows.push_with(|key| key.extend_from_slice(id.as_bytes()), |body| document.append_to(body));
    Some(())
}

#[cfg(test)]
mod tests;
