//! One object of a store, in the version that was inspected.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, TryStreamExt as _};
use glob::{MatchOptions, Pattern};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt as _};

pub(super) use super::blocks::Blocks;
use super::fault::{When, changed, fault};
use super::open::{UNKNOWN, open};
use super::runtime::wait;
use super::upload;
use super::url::{RemoteUrl, Scheme};
use crate::error::TransferError;
use crate::retry::Access;

/// Objects inspected concurrently.
const LOOKS: usize = 16;

/// An object that may or may not exist.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) key: Key,
    pub(super) url: Arc<RemoteUrl>,
    /// Its URL for display, without options.
    pub(super) shown: Arc<str>,
    access: Access,
}

/// The version of an object that was inspected.
#[derive(Debug, Clone)]
pub(super) struct Version {
    meta: ObjectMeta,
    /// Whether it can be read from any offset.
    pub(super) ranges: bool,
}

impl Version {
    pub(super) fn bytes(&self) -> Option<u64> {
        (self.meta.size != UNKNOWN).then_some(self.meta.size)
    }

    pub(super) fn mark(&self) -> String {
        self.meta.e_tag.clone().unwrap_or_else(|| self.meta.last_modified.to_rfc3339())
    }

    fn is(&self, found: &ObjectMeta) -> bool {
        let same = match (&self.meta.e_tag, &found.e_tag) {
            (Some(then), Some(now)) => then == now,
            _ => self.meta.last_modified == found.last_modified,
        };
        same && self.meta.size == found.size
    }
}

/// Inspects objects. The results are in the same order. Stops after the first error.
pub(super) fn look(objects: Vec<Object>) -> Vec<Result<(Version, Vec<u8>), TransferError>> {
    if objects.is_empty() {
        return Vec::new();
    }
    let work = async move {
        let looks = objects.into_iter().map(|object| async move { object.look().await });
        let mut looks = futures_util::stream::iter(looks).buffered(LOOKS);
        let mut found = Vec::new();
        while let Some(look) = looks.next().await {
            let failed = look.is_err();
            found.push(look);
            if failed {
                break;
            }
        }
        Ok(found)
    };
    wait(work).unwrap_or_else(|error| vec![Err(error)])
}

impl Object {
    pub(super) fn open(url: &RemoteUrl, access: &Access) -> Result<Self, TransferError> {
        let key = key(url, &url.key)?;
        Ok(Self::of(open(url, access)?, Arc::new(url.clone()), key, *access))
    }

    fn of(store: Arc<dyn ObjectStore>, url: Arc<RemoteUrl>, key: Key, access: Access) -> Self {
        let shown = match url.scheme {
            Scheme::Http => super::url::shown(&url.whole),
            _ => url.shown_with(key.as_ref()),
        };
        Self { store, url, shown: shown.into(), key, access }
    }

    pub(super) fn join(&self, name: &str) -> Self {
        Self::of(Arc::clone(&self.store), Arc::clone(&self.url), self.key.clone().join(name), self.access)
    }

    pub(super) fn fault(&self, when: When, error: &object_store::Error) -> TransferError {
        fault(&self.shown, self.url.scheme, when, error)
    }

    /// The objects in a folder, or those that match a pattern, sorted by name. Empty if there are none. Also how many
    /// objects of a folder are left out because a name begins with `_`.
    pub(super) fn list(url: &RemoteUrl, access: &Access) -> Result<(Vec<Self>, u64), TransferError> {
        let (store, url) = (open(url, access)?, Arc::new(url.clone()));
        let shown = url.shown_with(&url.key);
        let pattern = match url.is_pattern() {
            true => Some(
                Pattern::new(&url.key).map_err(|e| TransferError::BadInput(format!("the pattern `{shown}` {e}")))?,
            ),
            false => None,
        };
        let literal = url.key.find(['*', '?', '[']).unwrap_or(url.key.len());
        let folder = url.key[..literal].rfind('/').map_or("", |at| &url.key[..at]).to_owned();
        // If the pattern has no folder part, skip subfolders: they may be huge.
        let deep = pattern.is_none() || url.key[folder.len()..].trim_start_matches('/').contains('/');
        let prefix = key(&url, &folder)?;
        let (lister, from, scheme, at) = (Arc::clone(&store), prefix.clone(), url.scheme, shown.clone());
        let mut keys = wait(async move {
            let listed = if deep {
                lister.list(Some(&from)).map_ok(|meta| meta.location).try_collect::<Vec<Key>>().await
            } else {
                let listed = lister.list_with_delimiter(Some(&from)).await;
                listed.map(|listed| listed.objects.into_iter().map(|meta| meta.location).collect())
            };
            match listed {
                Err(object_store::Error::NotFound { .. }) => Ok(Vec::new()),
                listed => listed.map_err(|e| fault(&at, scheme, When::Look, &e)),
            }
        })?;
        let by =
            MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
        let mut left_out = 0;
        keys.retain(|key| match &pattern {
            Some(pattern) => pattern.matches_with(key.as_ref(), by),
            None => {
                let below = key.as_ref().strip_prefix(prefix.as_ref()).unwrap_or(key.as_ref());
                let begins = |with: char| below.split('/').any(|name| name.starts_with(with));
                left_out += u64::from(begins('_') && !begins('.'));
                !begins('_') && !begins('.')
            }
        });
        keys.sort();
        let objects =
            keys.into_iter().map(|key| Self::of(Arc::clone(&store), Arc::clone(&url), key, *access)).collect();
        Ok((objects, left_out))
    }

    /// The object's version and its first bytes.
    async fn look(&self) -> Result<(Version, Vec<u8>), TransferError> {
        let failed = |error| self.fault(When::Look, &error);
        if self.url.scheme == Scheme::Http {
            return self.look_by_reading().await;
        }
        let meta = self.store.head(&self.key).await.map_err(failed)?;
        let version = Version { meta, ranges: true };
        let first = self.piece(&version, 0..version.meta.size.min(4)).await?;
        Ok((version, first.to_vec()))
    }

    /// Inspects by reading, for servers that may not answer `HEAD` like `GET`. Requests the first bytes, without a
    /// range if the server does not support ranges.
    async fn look_by_reading(&self) -> Result<(Version, Vec<u8>), TransferError> {
        let ranged = GetOptions { range: Some(GetRange::Bounded(0..4)), ..GetOptions::default() };
        match self.store.get_opts(&self.key, ranged).await {
            Ok(got) => {
                let meta = got.meta.clone();
                let first = got.bytes().await.map_err(|e| self.fault(When::Look, &e))?;
                Ok((Version { meta, ranges: true }, first.to_vec()))
            }
            Err(error @ object_store::Error::NotFound { .. }) => Err(self.fault(When::Look, &error)),
            Err(error) => {
                let told = self.fault(When::Look, &error);
                if matches!(told, TransferError::Store { .. }) {
                    return Err(told);
                }
                let failed = |error| self.fault(When::Look, &error);
                let got = self.store.get_opts(&self.key, GetOptions::default()).await.map_err(failed)?;
                let meta = got.meta.clone();
                let mut first = Vec::new();
                let mut stream = got.into_stream();
                while first.len() < 4 {
                    let Some(piece) = stream.next().await else { break };
                    first.extend_from_slice(&piece.map_err(failed)?);
                }
                first.truncate(4);
                Ok((Version { meta, ranges: false }, first))
            }
        }
    }

    /// Requests all or a range of the inspected version.
    pub(super) async fn get(&self, version: &Version, range: Option<Range<u64>>) -> Result<GetResult, TransferError> {
        let options = GetOptions {
            // By the rules of `If-Match`, a weak tag never matches; it is compared below.
            if_match: version.meta.e_tag.clone().filter(|tag| !tag.starts_with("W/")),
            range: range.map(GetRange::Bounded),
            ..GetOptions::default()
        };
        let got = self.store.get_opts(&self.key, options).await.map_err(|e| self.fault(When::Read, &e))?;
        if version.is(&got.meta) { Ok(got) } else { Err(changed(&self.shown)) }
    }

    /// Reads a range of the inspected version.
    pub(super) async fn piece(&self, version: &Version, range: Range<u64>) -> Result<Bytes, TransferError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let (piece, fault) = self.beginning(version, range).await?;
        fault.map_or(Ok(piece), Err)
    }

    fn short(&self, bytes: usize, wanted: u64) -> TransferError {
        TransferError::Source(format!("{}: the server returned {bytes} bytes, expected {wanted}", self.shown))
    }

    /// Reads a range as far as possible. A response that breaks off is continued by another request, until the attempts
    /// are used up: then returns the bytes before that, and the error.
    pub(super) async fn beginning(
        &self,
        version: &Version,
        range: Range<u64>,
    ) -> Result<(Bytes, Option<TransferError>), TransferError> {
        let wanted = range.end - range.start;
        let mut gathered = BytesMut::new();
        let begun = Instant::now();
        let mut tries = 0;
        let mut wait = self.access.retry.first;
        loop {
            let rest = range.start + gathered.len() as u64..range.end;
            let fault = match self.get(version, Some(rest)).await {
                Err(error) if tries == 0 => return Err(error),
                // It was retried already.
                Err(error) => return Ok((gathered.freeze(), Some(error))),
                Ok(got) => self.take(got, &mut gathered).await,
            };
            let missing = gathered.len() as u64 != wanted;
            let fault = fault.or_else(|| missing.then(|| self.short(gathered.len(), wanted)));
            tries += 1;
            let is_last = tries >= self.access.retry.tries || begun.elapsed() >= self.access.retry.total;
            if !missing || is_last || gathered.len() as u64 > wanted {
                return Ok((gathered.freeze(), fault.filter(|_| missing)));
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(self.access.retry.cap);
        }
    }

    /// Adds what a response contains. Returns the error with which it broke off.
    async fn take(&self, got: GetResult, gathered: &mut BytesMut) -> Option<TransferError> {
        let mut pieces = got.into_stream();
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) => gathered.extend_from_slice(&piece),
                Err(error) => return Some(self.fault(When::Read, &error)),
            }
        }
        None
    }

    pub(super) fn chunks(&self, version: &Version) -> Result<Blocks, TransferError> {
        match version.bytes().filter(|_| version.ranges) {
            Some(bytes) => Ok(Blocks::new(self.clone(), version.clone(), bytes)),
            None => Err(TransferError::BadInput(format!(
                "{}: the server does not support range requests, which Parquet needs; download the file first",
                self.shown
            ))),
        }
    }

    pub(super) fn is_there(&self) -> Result<bool, TransferError> {
        if self.url.scheme == Scheme::Http {
            // Refused as a target anyway.
            return Ok(false);
        }
        use object_store::Error::{NotFound, PermissionDenied, Unauthenticated};
        let object = self.clone();
        let looked = wait(async move { Ok(object.store.head(&object.key).await) })?;
        match looked {
            Ok(_) => Ok(true),
            Err(NotFound { .. }) => Ok(false),
            Err(PermissionDenied { .. } | Unauthenticated { .. }) => {
                // This response has no text. If writing is denied too, its response says why.
                upload::check(self)?;
                Err(TransferError::BadInput(format!(
                    "{}: these credentials can write the file but cannot check whether it exists; use --force to write it \
                     anyway",
                    self.shown
                )))
            }
            Err(error) => Err(self.fault(When::Look, &error)),
        }
    }

    /// The objects directly below this one, treated as a folder.
    pub(super) fn within(&self) -> Result<Vec<Self>, TransferError> {
        let object = self.clone();
        wait(async move {
            match object.store.list_with_delimiter(Some(&object.key)).await {
                Ok(listed) => {
                    let of = |meta: ObjectMeta| {
                        let (store, url) = (Arc::clone(&object.store), Arc::clone(&object.url));
                        Self::of(store, url, meta.location, object.access)
                    };
                    Ok(listed.objects.into_iter().map(of).collect())
                }
                Err(object_store::Error::NotFound { .. }) => Ok(Vec::new()),
                Err(error) => Err(object.fault(When::Look, &error)),
            }
        })
    }

    /// The last component of its name.
    pub(super) fn name(&self) -> &str {
        self.key.filename().unwrap_or_default()
    }

    pub(super) fn remove(&self) -> Result<(), TransferError> {
        let object = self.clone();
        wait(async move { object.store.delete(&object.key).await.map_err(|e| object.fault(When::Write, &e)) })
    }
}

fn key(url: &RemoteUrl, text: &str) -> Result<Key, TransferError> {
    if url.scheme == Scheme::Http {
        // The store's address is already the whole URL.
        return Ok(Key::default());
    }
    Key::parse(text).map_err(|e| TransferError::BadInput(format!("{}: {e}", url.shown_with(text))))
}
