//! Serves a folder as S3: its folders are buckets, and files are objects. It checks signatures. It supports reading,
//! listing, writing in one or several parts, and removing, and refuses everything else. Credentials can be made to
//! expire.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use hmac::{Hmac, Mac};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest, Sha256};

/// The valid access key, for the environment variable `AWS_ACCESS_KEY_ID`.
pub const ACCESS_KEY: &str = "AKIDSTOREBENCH";
/// Its secret, for `AWS_SECRET_ACCESS_KEY`.
pub const SECRET_KEY: &str = "s3-secret-of-the-tests";

/// A server that runs until the process ends.
pub struct S3 {
    /// The port on 127.0.0.1.
    pub port: u16,
    state: Arc<State>,
}

struct State {
    /// Whether it requires no credentials.
    open: bool,
    folder: PathBuf,
    requests: AtomicU64,
    /// The number of requests that succeed before the credentials expire.
    good: AtomicI64,
    uploads: AtomicU64,
}

impl S3 {
    /// Serves a folder, whose folders are the buckets, to clients with the key.
    ///
    /// # Errors
    /// If no port is available, or if `folder` is not a folder.
    pub fn serve(folder: &Path) -> io::Result<Self> {
        Self::begin(folder, false)
    }

    /// Serves a folder without credentials.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn serve_open(folder: &Path) -> io::Result<Self> {
        Self::begin(folder, true)
    }

    fn begin(folder: &Path, open: bool) -> io::Result<Self> {
        let (requests, good, uploads) = (AtomicU64::new(0), AtomicI64::new(i64::MAX), AtomicU64::new(0));
        let state = Arc::new(State { open, folder: folder.to_owned(), requests, good, uploads });
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let served = Arc::clone(&state);
        std::thread::spawn(move || runtime.block_on(accept(listener, served)));
        Ok(Self { port, state })
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn make_bucket(&self, name: &str) -> io::Result<()> {
        std::fs::create_dir_all(self.state.folder.join(name))
    }

    /// The URL of an object, or of several with a pattern or a folder.
    pub fn url(&self, bucket: &str, key: &str) -> String {
        let open = if self.state.open { "&anonymous=true" } else { "" };
        format!("s3://{bucket}/{key}?endpoint=http://127.0.0.1:{}{open}", self.port)
    }

    /// The file that holds an object.
    pub fn file(&self, bucket: &str, key: &str) -> PathBuf {
        self.state.folder.join(bucket).join(key)
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// Expires the credentials after this many further requests.
    pub fn expire_after(&self, requests: u32) {
        self.state.good.store(requests.into(), Ordering::Relaxed);
    }

    /// Makes the credentials valid again.
    pub fn renew(&self) {
        self.state.good.store(i64::MAX, Ordering::Relaxed);
    }

    /// The number of uploads that were started, but neither completed nor aborted.
    pub fn open_uploads(&self) -> usize {
        let names = std::fs::read_dir(&self.state.folder).into_iter().flatten().filter_map(Result::ok);
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with(UPLOAD)).count()
    }
}

async fn accept(listener: std::net::TcpListener, state: Arc<State>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let state = Arc::clone(&state);
                async move { Ok::<_, Infallible>(answer(&state, request).await) }
            });
            // Ignore clients that disconnect.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

/// The prefix of uploads: folders next to the buckets, with a file for each part.
const UPLOAD: &str = ".upload-";
/// The maximum number of objects in a page of a listing.
const PAGE: usize = 1_000;

type Answer = Response<Full<Bytes>>;

/// The error of a refused request: status, code, message.
struct Refused(StatusCode, &'static str, String);

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => no_such_key(),
            _ => Self(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", error.to_string()),
        }
    }
}

fn no_such_key() -> Refused {
    Refused(StatusCode::NOT_FOUND, "NoSuchKey", "The specified key does not exist.".into())
}

async fn answer(state: &State, request: Request<Incoming>) -> Answer {
    state.requests.fetch_add(1, Ordering::Relaxed);
    let head = *request.method() == Method::HEAD;
    let (parts, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return refusal(Refused(StatusCode::BAD_REQUEST, "IncompleteBody", error.to_string()), head),
    };
    let asked = Asked::of(parts.method, &parts.uri, parts.headers, body);
    done(state, &asked).unwrap_or_else(|refused| refusal(refused, head))
}

fn refusal(Refused(status, code, message): Refused, head: bool) -> Answer {
    let xml = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>");
    with_status(status, if head { Vec::new() } else { xml.into_bytes() })
}

fn with_status(status: StatusCode, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Full::from(body));
    *answer.status_mut() = status;
    answer
}

/// A parsed request.
struct Asked {
    method: Method,
    /// The path as it was sent.
    path: String,
    bucket: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: HeaderMap,
    body: Bytes,
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

impl Asked {
    fn of(method: Method, uri: &hyper::Uri, headers: HeaderMap, body: Bytes) -> Self {
        let path = uri.path().to_owned();
        let (bucket, key) = path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_matches('/'), ""));
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let query = pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (decoded(name), decoded(value))
            })
            .collect();
        Self { bucket: decoded(bucket), key: decoded(key), method, query, headers, body, path }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn value(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    /// The expected signature (version 4 of the protocol) for the scope and the signed headers.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html>
    fn signature(&self, scope: &str, signed: &str) -> String {
        const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
        let encoded = |text: &str| utf8_percent_encode(text, PLAIN).to_string();
        let query: Vec<String> =
            self.query.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        let headers: String = signed
            .split(';')
            .map(|name| format!("{name}:{}\n", self.header(name).unwrap_or_default().trim()))
            .collect();
        let payload = self.header("x-amz-content-sha256").unwrap_or_default();
        let canonical = format!("{}\n{}\n{}\n{headers}\n{signed}\n{payload}", self.method, self.path, query.join("&"));
        let date = self.header("x-amz-date").unwrap_or_default();
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        let key = scope.split('/').fold(format!("AWS4{SECRET_KEY}").into_bytes(), |key, part| mac(&key, part));
        hex(&mac(&key, &text))
    }

    fn check_signature(&self) -> Result<(), Refused> {
        let denied = |code, message: &str| Err(Refused(StatusCode::FORBIDDEN, code, message.to_owned()));
        let Some(said) = self.header("authorization").and_then(|text| text.strip_prefix("AWS4-HMAC-SHA256 ")) else {
            return denied("AccessDenied", "Access Denied");
        };
        let part = |name: &str| said.split(',').find_map(|part| part.trim().strip_prefix(name)).unwrap_or_default();
        let (credential, scope) = part("Credential=").split_once('/').unwrap_or_default();
        if credential != ACCESS_KEY {
            return denied("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.");
        }
        if self.signature(scope, part("SignedHeaders=")) != part("Signature=") {
            return denied("SignatureDoesNotMatch", "The request signature we calculated does not match.");
        }
        let said = self.header("x-amz-content-sha256").unwrap_or_default();
        if said != "UNSIGNED-PAYLOAD" && said != hex(&Sha256::digest(&self.body)) {
            return Err(Refused(StatusCode::BAD_REQUEST, "XAmzContentSHA256Mismatch", "The body is another.".into()));
        }
        Ok(())
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    // HMAC accepts keys of any length.
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("any length will do");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn done(state: &State, asked: &Asked) -> Result<Answer, Refused> {
    if !state.open {
        asked.check_signature()?;
    }
    if state.good.fetch_sub(1, Ordering::Relaxed) <= 0 {
        state.good.store(0, Ordering::Relaxed);
        return Err(Refused(StatusCode::BAD_REQUEST, "ExpiredToken", "The provided token has expired.".into()));
    }
    let bucket = state.folder.join(&asked.bucket);
    if asked.bucket.is_empty() || !bucket.is_dir() {
        let message = "The specified bucket does not exist".into();
        return Err(Refused(StatusCode::NOT_FOUND, "NoSuchBucket", message));
    }
    if asked.key.split('/').any(|part| part == "..") {
        return Err(Refused(StatusCode::BAD_REQUEST, "InvalidURI", "no way up".into()));
    }
    let (file, upload) = (bucket.join(&asked.key), asked.query.get("uploadId"));
    let known = |names: &[&str]| asked.query.keys().all(|name| names.contains(&name.as_str()) || name == "x-id");
    match (asked.method.as_str(), asked.key.is_empty(), upload) {
        ("GET", true, None) if asked.value("list-type") == "2" => list(asked, &bucket),
        ("POST", true, None) if known(&["delete"]) => remove(asked, &bucket),
        ("GET" | "HEAD", false, None) if known(&[]) => read(asked, &file),
        ("PUT", false, None) if known(&[]) && asked.header("x-amz-copy-source").is_none() => put(asked, &file),
        ("DELETE", false, None) if known(&[]) => match std::fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(with_status(StatusCode::NO_CONTENT, Vec::new())),
        },
        ("POST", false, None) if known(&["uploads"]) => {
            let id = state.uploads.fetch_add(1, Ordering::Relaxed).to_string();
            std::fs::create_dir(state.folder.join(format!("{UPLOAD}{id}")))?;
            Ok(xml("InitiateMultipartUploadResult", &format!("<UploadId>{id}</UploadId>")))
        }
        (method, false, Some(id)) if known(&["uploadId", "partNumber"]) => {
            let parts = state.folder.join(format!("{UPLOAD}{id}"));
            if !id.bytes().all(|byte| byte.is_ascii_digit()) || !parts.is_dir() {
                return Err(Refused(
                    StatusCode::NOT_FOUND,
                    "NoSuchUpload",
                    "The specified upload does not exist.".into(),
                ));
            }
            match method {
                "PUT" => put(asked, &parts.join(asked.value("partNumber"))),
                "POST" => complete(asked, &parts, &file),
                "DELETE" => {
                    std::fs::remove_dir_all(parts)?;
                    Ok(with_status(StatusCode::NO_CONTENT, Vec::new()))
                }
                _ => Err(not_implemented(asked)),
            }
        }
        _ => Err(not_implemented(asked)),
    }
}

fn not_implemented(asked: &Asked) -> Refused {
    Refused(StatusCode::NOT_IMPLEMENTED, "NotImplemented", format!("{} with {:?}", asked.method, asked.query))
}

fn xml(element: &str, inner: &str) -> Answer {
    let text = format!("<?xml version=\"1.0\"?><{element}>{inner}</{element}>");
    with_status(StatusCode::OK, text.into_bytes())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A hash of an object's contents. Equal contents have equal tags.
fn etag(file: &Path) -> io::Result<String> {
    /// The hashes of files, valid while size and modification time are unchanged.
    static KNOWN: Mutex<BTreeMap<PathBuf, (u64, SystemTime, String)>> = Mutex::new(BTreeMap::new());
    let of = file.metadata()?;
    if !of.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let (bytes, changed) = (of.len(), of.modified()?);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, _, sum)) = known().get(file).filter(|(b, c, _)| (*b, *c) == (bytes, changed)) {
        return Ok(sum.clone());
    }
    let sum = format!("\"{}\"", &hex(&Sha256::digest(std::fs::read(file)?))[..32]);
    known().insert(file.to_owned(), (bytes, changed, sum.clone()));
    Ok(sum)
}

fn modified(file: &Path) -> io::Result<jiff::Timestamp> {
    jiff::Timestamp::try_from(file.metadata()?.modified()?).map_err(io::Error::other)
}

fn read(asked: &Asked, file: &Path) -> Result<Answer, Refused> {
    let etag = etag(file)?;
    if asked.header("if-match").is_some_and(|wanted| wanted != etag) {
        return Err(precondition());
    }
    let mut opened = std::fs::File::open(file)?;
    let bytes = opened.metadata()?.len();
    let range = asked.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let (from, until) = match range {
        None => (0, bytes),
        Some(("", last)) => (bytes.saturating_sub(last.parse().unwrap_or(0)), bytes),
        Some((from, to)) => {
            (from.parse().unwrap_or(0), to.parse::<u64>().map_or(bytes, |to| to.saturating_add(1)).min(bytes))
        }
    };
    if range.is_some() && from >= bytes {
        return Err(Refused(StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange", "The range is not satisfiable".into()));
    }
    let mut body = Vec::new();
    if asked.method == Method::GET {
        opened.seek(SeekFrom::Start(from))?;
        opened.take(until - from).read_to_end(&mut body)?;
    }
    let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
    let changed = printer.timestamp_to_rfc9110_string(&modified(file)?).map_err(io::Error::other)?;
    let mut answer = Response::builder()
        .status(if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK })
        .header("ETag", etag)
        .header("Accept-Ranges", "bytes")
        .header("Last-Modified", changed)
        .header("Content-Length", until - from);
    if range.is_some() {
        answer = answer.header("Content-Range", format!("bytes {from}-{}/{bytes}", until.saturating_sub(1)));
    }
    answer.body(Full::from(body)).map_err(|error| io::Error::other(error).into())
}

fn precondition() -> Refused {
    let message = "At least one of the pre-conditions you specified did not hold".into();
    Refused(StatusCode::PRECONDITION_FAILED, "PreconditionFailed", message)
}

/// Writes an object, or a part of one, atomically.
fn put(asked: &Asked, file: &Path) -> Result<Answer, Refused> {
    if asked.header("if-none-match") == Some("*") && file.exists() {
        return Err(precondition());
    }
    place(file, &asked.body)?;
    let mut answer = with_status(StatusCode::OK, Vec::new());
    if let Ok(etag) = etag(file)?.parse() {
        answer.headers_mut().insert("ETag", etag);
    }
    Ok(answer)
}

fn place(file: &Path, bytes: &[u8]) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let folder = file.parent().unwrap_or(file);
    std::fs::create_dir_all(folder)?;
    let new = folder.join(format!(".new-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    std::fs::write(&new, bytes)?;
    std::fs::rename(new, file)
}

/// Removes the named objects.
fn remove(asked: &Asked, bucket: &Path) -> Result<Answer, Refused> {
    let text = String::from_utf8_lossy(&asked.body).into_owned();
    let mut inner = String::new();
    for key in text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
        let name = key.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
        match std::fs::remove_file(bucket.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => inner += &format!("<Deleted><Key>{key}</Key></Deleted>"),
        }
    }
    Ok(xml("DeleteResult", &inner))
}

/// Concatenates the named parts in order.
fn complete(asked: &Asked, parts: &Path, file: &Path) -> Result<Answer, Refused> {
    if asked.header("if-none-match") == Some("*") && file.exists() {
        return Err(precondition());
    }
    let text = String::from_utf8_lossy(&asked.body);
    let mut whole = Vec::new();
    for part in text.split("<Part>").skip(1) {
        let within = |name: &str| -> String {
            let inner = part.split_once(&format!("<{name}>")).and_then(|(_, rest)| rest.split_once("</"));
            inner.map_or(String::new(), |(inner, _)| inner.replace("&quot;", "\""))
        };
        let path = parts.join(within("PartNumber"));
        if etag(&path).ok() != Some(within("ETag")) {
            let message = "One or more of the specified parts could not be found.".into();
            return Err(Refused(StatusCode::BAD_REQUEST, "InvalidPart", message));
        }
        whole.extend(std::fs::read(path)?);
    }
    place(file, &whole)?;
    std::fs::remove_dir_all(parts)?;
    Ok(xml("CompleteMultipartUploadResult", &format!("<ETag>{}</ETag>", etag(file)?)))
}

/// Collects the objects below a folder, by key.
fn objects(folder: &Path, prefix: &str, found: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let key = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            objects(&entry.path(), &format!("{key}/"), found)?;
        } else if !name.starts_with(".new-") {
            found.insert(key, entry.path());
        }
    }
    Ok(())
}

fn list(asked: &Asked, bucket: &Path) -> Result<Answer, Refused> {
    let (prefix, delimiter) = (asked.value("prefix"), asked.value("delimiter"));
    let after = asked.value("continuation-token").max(asked.value("start-after"));
    let mut found = BTreeMap::new();
    objects(bucket, "", &mut found)?;
    let (mut inner, mut listed, mut last, mut more) = (String::new(), 0, String::new(), false);
    let mut folders = std::collections::BTreeSet::new();
    for (key, file) in found.iter().filter(|(key, _)| key.starts_with(prefix) && key.as_str() > after) {
        if listed == PAGE {
            more = true;
            break;
        }
        last.clone_from(key);
        let rest = &key[prefix.len()..];
        match rest.split_once(delimiter).filter(|_| !delimiter.is_empty()) {
            Some((folder, _)) => {
                if folders.insert(folder.to_owned()) {
                    let folder = escaped(&format!("{prefix}{folder}{delimiter}"));
                    inner += &format!("<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>");
                }
            }
            None => {
                listed += 1;
                let (size, etag) = (file.metadata()?.len(), escaped(&etag(file)?));
                inner += &format!(
                    "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{etag}</ETag><Size>{size}</Size></Contents>",
                    escaped(key),
                    modified(file)?
                );
            }
        }
    }
    inner += &format!("<KeyCount>{listed}</KeyCount><IsTruncated>{more}</IsTruncated>");
    if more {
        inner += &format!("<NextContinuationToken>{}</NextContinuationToken>", escaped(&last));
    }
    Ok(xml("ListBucketResult", &inner))
}
