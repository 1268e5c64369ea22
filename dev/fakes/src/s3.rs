//! A folder served as S3: `s3s` speaks the protocol and checks signatures, `s3s-fs` keeps the objects.
//!
//! What that lets pass is refused here: it would make a bucket that is not there. Credentials can be made to
//! expire.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpResponse};
use s3s_fs::FileSystem;

/// The key that is good, also as the environment variable `AWS_ACCESS_KEY_ID`.
pub const ACCESS_KEY: &str = "AKIDSTOREBENCH";
/// Its secret, as `AWS_SECRET_ACCESS_KEY`.
pub const SECRET_KEY: &str = "s3-secret-of-the-tests";

/// A server, until the process ends.
pub struct S3 {
    /// The port on 127.0.0.1.
    pub port: u16,
    state: Arc<State>,
}

struct State {
    service: S3Service,
    /// Whether nobody needs credentials.
    open: bool,
    folder: PathBuf,
    requests: AtomicU64,
    /// Requests that are answered before credentials have expired.
    good: AtomicI64,
}

impl S3 {
    /// Serves a folder, whose folders are the buckets, to those who have the key.
    ///
    /// # Errors
    /// When no port can be had, or the folder is none.
    pub fn serve(folder: &Path) -> io::Result<Self> {
        Self::begin(folder, false)
    }

    /// Serves a folder to everybody.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn serve_open(folder: &Path) -> io::Result<Self> {
        Self::begin(folder, true)
    }

    fn begin(folder: &Path, open: bool) -> io::Result<Self> {
        let files = FileSystem::new(folder).map_err(|e| io::Error::other(format!("{e:?}")))?;
        let mut builder = S3ServiceBuilder::new(files);
        if !open {
            builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        }
        let state = Arc::new(State {
            service: builder.build(),
            open,
            folder: folder.to_owned(),
            requests: AtomicU64::new(0),
            good: AtomicI64::new(i64::MAX),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let served = Arc::clone(&state);
        std::thread::spawn(move || runtime.block_on(accept(listener, served)));
        Ok(Self { port, state })
    }

    /// Makes a bucket.
    ///
    /// # Errors
    /// The system's.
    pub fn make_bucket(&self, name: &str) -> io::Result<()> {
        std::fs::create_dir_all(self.state.folder.join(name))
    }

    /// The URL of an object, or with a pattern or a folder of several.
    pub fn url(&self, bucket: &str, key: &str) -> String {
        let open = if self.state.open { "&anonymous=true" } else { "" };
        format!("s3://{bucket}/{key}?endpoint=http://127.0.0.1:{}{open}", self.port)
    }

    /// The file that holds an object.
    pub fn file(&self, bucket: &str, key: &str) -> PathBuf {
        self.state.folder.join(bucket).join(key)
    }

    /// Requests until now.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// After so many further requests credentials have expired.
    pub fn expire_after(&self, requests: u32) {
        self.state.good.store(requests.into(), Ordering::Relaxed);
    }

    /// They are good again.
    pub fn renew(&self) {
        self.state.good.store(i64::MAX, Ordering::Relaxed);
    }

    /// Uploads that were begun, and neither completed nor given up.
    pub fn open_uploads(&self) -> usize {
        let names = std::fs::read_dir(&self.state.folder).into_iter().flatten().filter_map(Result::ok);
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with(".upload_id-")).count()
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
            // A client that goes away is no matter.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn answer(state: &State, request: Request<Incoming>) -> HttpResponse {
    state.requests.fetch_add(1, Ordering::Relaxed);
    if state.good.fetch_sub(1, Ordering::Relaxed) <= 0 {
        state.good.store(0, Ordering::Relaxed);
        return refused(StatusCode::BAD_REQUEST, "ExpiredToken", "The provided token has expired.");
    }
    let bucket = request.uri().path().split('/').nth(1).unwrap_or_default();
    if !state.folder.join(bucket).is_dir() {
        return refused(StatusCode::NOT_FOUND, "NoSuchBucket", "The specified bucket does not exist");
    }
    match state.service.call(request.map(Body::from)).await {
        Ok(response) => response,
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &format!("{error:?}")),
    }
}

fn refused(status: StatusCode, code: &str, message: &str) -> HttpResponse {
    let xml = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>");
    let mut response = HttpResponse::new(Body::from(xml));
    *response.status_mut() = status;
    response
}
