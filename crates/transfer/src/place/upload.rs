//! Files of this machine into objects: there when they are whole, never before.

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

/// Bytes of a part of an upload, at least; some stores want all but the last alike.
const PART_BYTES: u64 = 8 << 20;
/// S3 takes so many parts, and no more.
const MOST_PARTS: u64 = 10_000;
/// Parts under way.
const PARTS: usize = 3;

/// Refuses what an upload will not be taken to: begins one and gives it up.
pub(super) fn check(object: &Object) -> Result<(), TransferError> {
    if object.url.scheme == Scheme::Http {
        return Err(TransferError::BadInput(format!(
            "{}: is only read; write to a file, or to s3://, gs://, az:// or hdfs://",
            object.shown()
        )));
    }
    let object = object.clone();
    wait(async move {
        let failed = |error| object.fault(When::Look, &error);
        let mut upload = object.store.put_multipart(&object.key).await.map_err(failed)?;
        upload.abort().await.map_err(failed)
    })
}

/// Uploads a file, and looks whether all of it is there.
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
            "{}: of {bytes} bytes that were uploaded it holds {there}; does another program write it? Go on with --resume",
            object.shown()
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
        // What was sent is not seen anyway; without this it is kept until the bucket's rules remove it.
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

/// The next bytes of a file, read where that holds nobody up.
async fn piece(mut file: File, bytes: u64, name: &str) -> Result<(File, Vec<u8>), TransferError> {
    let read = spawn_blocking(move || {
        let mut piece = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        file.read_exact(&mut piece).map(|()| (file, piece))
    });
    read.await.map_err(io::Error::other).flatten().map_err(|e| TransferError::read(name, &e))
}
