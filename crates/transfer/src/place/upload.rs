//! Uploads local files to objects, which become visible only when complete.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object_store::{MultipartUpload, ObjectStoreExt as _, PutPayload};
use tokio::task::{JoinSet, spawn_blocking};

use super::fault::When;
use super::object::Object;
use super::runtime::wait;
use super::url::Scheme;
use crate::error::TransferError;

/// Minimum part size of an upload. Some stores require all parts except the last to have the same size.
const PART_BYTES: u64 = 8 << 20;
/// S3 accepts at most this many parts.
const MOST_PARTS: u64 = 10_000;
/// Parts uploaded concurrently.
const PARTS: usize = 3;

/// Checks that uploads are accepted: starts one and aborts it.
pub(super) fn check(object: &Object) -> Result<(), TransferError> {
    if object.url.scheme == Scheme::Http {
        return Err(TransferError::BadInput(format!(
            "{}: is read-only; write to a file, or to s3://, gs://, az:// or hdfs://",
            object.shown
        )));
    }
    let object = object.clone();
    wait(async move {
        let failed = |error| object.fault(When::Look, &error);
        let mut upload = object.store.put_multipart(&object.key).await.map_err(failed)?;
        upload.abort().await.map_err(failed)
    })
}

/// Uploads a file, then checks the size of the object.
pub(super) fn upload(object: &Object, from: &Path) -> Result<(), TransferError> {
    let unreadable = |e: io::Error| TransferError::read(&from.display().to_string(), &e);
    let file = File::open(from).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let (object, name) = (object.clone(), from.display().to_string());
    wait(async move {
        put(&object, file, bytes, &name).await?;
        let there = object.store.head(&object.key).await.map_err(|e| object.fault(When::Write, &e))?.size;
        if there == bytes {
            return Ok(());
        }
        Err(TransferError::Target(format!(
            "{}: uploaded {bytes} bytes, but the object has {there}; is another program writing it? Continue with --resume",
            object.shown
        )))
    })
}

async fn put(object: &Object, file: File, bytes: u64, name: &str) -> Result<(), TransferError> {
    let failed = |error| object.fault(When::Write, &error);
    if bytes <= PART_BYTES {
        let (_, all) = piece(file, bytes, name).await?;
        object.store.put(&object.key, all.into()).await.map_err(failed)?;
        return Ok(());
    }
    let mut upload = object.store.put_multipart(&object.key).await.map_err(failed)?;
    let sent = match parts(object, &mut *upload, file, bytes, name).await {
        Ok(()) => upload.complete().await.map(drop).map_err(failed),
        Err(error) => Err(error),
    };
    if sent.is_err() {
        // Sent parts are not visible, but are kept until the bucket's rules delete them.
        let _ = upload.abort().await;
    }
    sent
}

async fn parts(
    object: &Object,
    upload: &mut dyn MultipartUpload,
    mut file: File,
    bytes: u64,
    name: &str,
) -> Result<(), TransferError> {
    let each = PART_BYTES.max(bytes.div_ceil(MOST_PARTS).next_multiple_of(1 << 20));
    let mut under_way = JoinSet::new();
    let mut left = bytes;
    while left > 0 {
        let (back, part) = piece(file, each.min(left), name).await?;
        file = back;
        left -= part.len() as u64;
        if under_way.len() == PARTS {
            ended(object, &mut under_way).await?;
        }
        under_way.spawn(upload.put_part(PutPayload::from(part)));
    }
    while !under_way.is_empty() {
        ended(object, &mut under_way).await?;
    }
    Ok(())
}

async fn ended(object: &Object, under_way: &mut JoinSet<object_store::Result<()>>) -> Result<(), TransferError> {
    let ended = under_way.join_next().await.unwrap_or(Ok(Ok(()))).unwrap_or_else(|e| Err(e.into()));
    ended.map_err(|error| object.fault(When::Write, &error))
}

/// Reads the next bytes of a file, on a thread that may block.
async fn piece(mut file: File, bytes: u64, name: &str) -> Result<(File, Vec<u8>), TransferError> {
    let read = spawn_blocking(move || {
        let mut piece = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        file.read_exact(&mut piece).map(|()| (file, piece))
    });
    read.await.map_err(io::Error::other).flatten().map_err(|e| TransferError::read(name, &e))
}
