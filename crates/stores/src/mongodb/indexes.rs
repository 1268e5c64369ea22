//! Indexes of the study, as `createIndexes` takes them.

use std::time::Instant;

use ::bson::doc;
use storebench_documents::json;
use storebench_engine::store::{BuiltIndex, StoreError};

use super::bson::{self, ARRAY, DOCUMENT, Members};
use super::control::{ControlConnection, LONG, PATIENCE};
use super::{encode, stats, wire};
use crate::refusals::not_supported;

/// Error codes for an index that the server does not accept: BadValue, FailedToParse, TypeMismatch, CannotCreateIndex,
/// InvalidOptions, IndexOptionsConflict, IndexKeySpecsConflict, InvalidIndexSpecificationOption.
const REFUSED: [i64; 8] = [2, 9, 14, 67, 72, 85, 86, 197];

/// Builds an index, unless the collection has one like it with this name.
pub(super) async fn build(
    control: &mut ControlConnection<'_>,
    collection: &str,
    name: &str,
    text: &str,
) -> Result<BuiltIndex, StoreError> {
    let mut index = Vec::new();
    encode::members(text.as_bytes(), &mut index).map_err(not_supported)?;
    if json::members(json::member(text.as_bytes(), "key").unwrap_or_default()).next().is_none() {
        return Err(StoreError::NotSupported("an index is a table, such as { key = { city = 1 } }".into()));
    }
    let mut command = Vec::new();
    bson::text(&mut command, "createIndexes", collection);
    bson::nested(&mut command, ARRAY, "indexes", |out| {
        bson::nested(out, DOCUMENT, "0", |out| {
            bson::text(out, "name", name);
            out.extend_from_slice(&index);
        });
    });
    let database = &control.target.database;
    let mut message = wire::encoded_message(database, &command);
    let begun = Instant::now();
    let answer = control.send(&mut message, LONG).await?;
    let took = begun.elapsed();
    let doing = format!("build the index `{name}` of `{collection}`");
    let reply = answer.map_err(|told| match told.control(&control.place(), &doing) {
        StoreError::Failed(why) if REFUSED.contains(&told.code) => StoreError::NotSupported(why),
        other => other,
    })?;
    let count = |name| Members::of(&reply).ok().and_then(|told| told.get(name)?.as_f64());
    let existed = count("numIndexesBefore").is_some() && count("numIndexesBefore") == count("numIndexesAfter");
    let told = control.ask(database, PATIENCE, doc! { "collStats": collection }).await?;
    let size = told.ok().and_then(|reply| stats::number(Members::of(&reply).ok()?, &["indexSizes", name]));
    Ok(BuiltIndex { took: (!existed).then_some(took), bytes: size.map(|bytes| bytes as u64) })
}

/// Removes an index.
pub(super) async fn drop(
    control: &mut ControlConnection<'_>,
    collection: &str,
    name: &str,
    text: &str,
) -> Result<(), StoreError> {
    // Servers with this protocol that ignore the name find it by its key.
    let key = json::member(text.as_bytes(), "key").unwrap_or_default();
    let mut by_key = Vec::new();
    bson::text(&mut by_key, "dropIndexes", collection);
    let encoded = encode::member("index", key, &mut by_key);
    let mut message = wire::encoded_message(&control.target.database, &by_key);
    if encoded.is_ok() && control.send(&mut message, LONG).await?.is_ok() {
        return Ok(());
    }
    let command = doc! { "dropIndexes": collection, "index": name };
    control.done(&format!("remove the index `{name}` of `{collection}`"), LONG, command).await.map(std::mem::drop)
}
