//! An embedded store in a separate process, so that it can be killed, paused and limited like a server.
//!
//! `storebench host URL --socket FILE` hosts an embedded store ([`serve`]). `hosted+URL?socket=FILE` is the store that
//! talks to it. Capabilities and file paths are known locally. Everything else is requested from the other process.

#[cfg(test)]
mod fuzz;
mod serve;
mod session;
mod wire;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use storebench_engine::store::{
    Account, AnyStore, BuiltIndex, Capabilities, CollectionId, CollectionLayout, Description, Explanation, Holdings,
    Layout, LocalFuture, Namespace, Owner, Prepare, Request, RowStream, Rows, Runtime, SameKeys, SessionOptions, Stats,
    Store, StoreError, StoreSettings,
};

use crate::connection::{Dialog, Link, again};
use crate::net::Stream;
use crate::registry::{OptionHelp, Scheme};
use session::HostedSession;
use wire::{Ask, Hello};

pub use serve::serve;

pub(crate) const SCHEME: Scheme = Scheme {
    name: "hosted",
    what: "An embedded store in a separate process, which `storebench host` runs",
    example: "hosted+sqlite:documents.db?socket=/run/user/1000/documents",
    options: &[OptionHelp { name: "socket", meaning: "socket of the process that hosts the store" }],
    decorator: true,
    aliases: &[],
};

/// How long a session or a control call waits for a connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a control call waits for its answer. Settling instead waits for the requested time plus [`PATIENCE`].
const LONGEST_CALL: Duration = Duration::from_secs(600);
/// How long building an index may take.
const LONGEST_BUILD: Duration = Duration::from_secs(24 * 3_600);

/// A store that another process hosts.
pub(crate) struct HostedStore {
    /// The same store in this process. It is never opened, because the other process owns its files.
    inner: Arc<dyn AnyStore>,
    socket: PathBuf,
    /// The prepared layout, for processes that start later.
    layout: Mutex<Option<(Layout, Prepare)>>,
    version: Mutex<Option<String>>,
}

impl HostedStore {
    pub(crate) fn new(inner: Arc<dyn AnyStore>, socket: &str) -> Result<Self, StoreError> {
        if inner.runtime() != Runtime::Plain {
            return Err(StoreError::BadUrl(format!(
                "{} is already a server; remove `hosted+`",
                inner.describe().scheme
            )));
        }
        Ok(Self { inner, socket: socket.into(), layout: Mutex::default(), version: Mutex::default() })
    }

    /// Makes a control call: its name and its arguments.
    fn ask<T: DeserializeOwned>(&self, call: (&str, impl Serialize)) -> Result<T, StoreError> {
        self.ask_within(call, LONGEST_CALL)
    }

    fn ask_within<T: DeserializeOwned>(&self, call: (&str, impl Serialize), within: Duration) -> Result<T, StoreError> {
        let unreachable = |e: io::Error| not_there(&self.socket, &e);
        let mut stream = UnixStream::connect(&self.socket).map_err(unreachable)?;
        stream.set_read_timeout(Some(within)).map_err(unreachable)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(unreachable)?;
        wire::write_frame(&mut stream, &Hello::Control).map_err(unreachable)?;
        wire::write_frame(&mut stream, &call).map_err(unreachable)?;
        let mut buffer = Vec::new();
        if !wire::read_frame(&mut stream, &mut buffer).map_err(unreachable)? {
            return Err(unreachable(io::Error::other("the process closed the connection")));
        }
        wire::outcome(&buffer)
    }
}

fn not_there(socket: &Path, error: &io::Error) -> StoreError {
    StoreError::Unreachable(format!(
        "no process hosts the store at {}: {error}; start it with `storebench host URL --socket {}`",
        socket.display(),
        socket.display()
    ))
}

/// Connects and sends the session's guarantees.
async fn connect(socket: &Path, hello: &Hello) -> Result<Stream, StoreError> {
    let unreachable = |e: io::Error| not_there(socket, &e);
    let work = async {
        let stream = tokio::net::UnixStream::connect(socket).await.map_err(unreachable)?;
        let mut dialog = Dialog::new(Stream::Unix(stream));
        let mut out = Vec::new();
        wire::push(hello, &mut out).map_err(|e| StoreError::Failed(e.to_string()))?;
        dialog.send(&out).await.map_err(unreachable)?;
        loop {
            let found = wire::frame(dialog.input()).map_err(|e| unreachable(io::Error::other(e)))?;
            if let Some((frame, _)) = found {
                wire::outcome::<()>(frame)?;
                return Ok(dialog.into_stream().0);
            }
            dialog.read().await.map_err(unreachable)?;
        }
    };
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => Err(unreachable(io::Error::other(format!("no answer within {PATIENCE:?}")))),
    }
}

/// Methods that send the calls, each with its name and a tuple of its arguments.
macro_rules! send {
    (() $($name:ident($($argument:ident: $of:ty),*) -> $gives:ty;)*) => {
        $(fn $name(&self, $($argument: $of),*) -> $gives { self.ask((stringify!($name), ($($argument,)*))) })*
    };
}

#[deny(clippy::missing_trait_methods)]
impl Store for HostedStore {
    type Session = HostedSession;

    storebench_engine::sent_calls!(send!);

    fn describe(&self) -> Description {
        let inner = self.inner.describe();
        let version = self.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Description { url: format!("hosted+{}", inner.url), version: version.unwrap_or(inner.version), ..inner }
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.gives_up_at_timeout = true;
        capabilities.embedded = false;
        capabilities.rows = &[];
        capabilities.notes.push("The store runs in a separate process; each operation goes over a local socket.");
        capabilities
    }

    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }

    fn answers(&self) -> Result<(), StoreError> {
        let version = self.ask(("describe", ()))?;
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = Some(version);
        Ok(())
    }

    fn inspect(&self) -> Result<Namespace, StoreError> {
        Store::answers(self)?;
        self.ask(("inspect", ()))
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        self.ask::<()>(("prepare", (layout, how)))?;
        *self.layout.lock().unwrap_or_else(PoisonError::into_inner) = Some((layout.clone(), how));
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<HostedSession, StoreError> {
        let prepared = self.layout.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((layout, how)) = prepared else {
            return Err(StoreError::Failed("the store must be prepared before a session opens".into()));
        };
        let hello = Arc::new(Hello::Session {
            guarantees: wire::Guarantees::of(options.durability, options.consistency),
            timeout: options.timeout,
            layout,
            how,
        });
        let stream = connect(&self.socket, &hello).await?;
        let again =
            again((self.socket.clone(), hello), |(socket, hello)| async move { connect(&socket, &hello).await });
        Ok(HostedSession::over(Link::connected(stream, again, options.in_flight, options.timeout)))
    }

    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        self.ask_within(("settle", at_most), at_most + PATIENCE)
    }

    fn range_order(&self, collection: CollectionId) -> Option<String> {
        self.ask(("range_order", collection)).unwrap_or_default()
    }

    fn same_keys(&self, collection: CollectionId) -> SameKeys {
        self.ask(("same_keys", collection)).unwrap_or_default()
    }

    fn key_members(&self, _: CollectionId) -> Vec<String> {
        Vec::new()
    }

    fn rows<'a>(&'a self, _: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Box::pin(async { Err(StoreError::NotSupported("hosted+ cannot stream rows".into())) })
    }

    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError> {
        self.ask(("try_query", Ask::of(request)))
    }

    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        self.ask(("explain", Ask::of(request)))
    }

    fn build_index(&self, collection: CollectionId, name: &str, text: &str) -> Result<BuiltIndex, StoreError> {
        self.ask_within(("build_index", (collection, name, text)), LONGEST_BUILD)
    }

    fn full_name(&self, collection: &CollectionLayout) -> String {
        self.inner.full_name(collection)
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.inner.paths()
    }
}
