//! The SDK's calls for each operation.

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use couchbase::collection::Collection;
use couchbase::durability_level::DurabilityLevel;
use couchbase::error::{Error, ErrorKind as Kind};
use couchbase::options::kv_binary_options::{AppendOptions, PrependOptions};
use couchbase::options::kv_options::{InsertOptions, RemoveOptions, ReplaceOptions, UpsertOptions};
use couchbase::results::kv_results::MutationResult;
use couchbase::scope::Scope;
use couchbase::transcoding::{DataType, encode_common_flags};
use serde_json::value::RawValue;
use storebench_engine::store::{BatchBuf, Collected, ErrorKind, Op, OpError, OpKind, OwnedReply, Request};
use storebench_study::workload::Body;

use super::errors::{closed_in_flight, op_error};
use super::link::unwound;
use super::lost_nodes::{LostNodes, Unanswered};
use super::queries::{Query, Row};
use super::views::{Asked, Views};
use super::{bulk, counter, merge};
use crate::document::collection_of;
use crate::net::lost;

/// A collection of the layout.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) scope: Scope,
    pub(super) collection: Collection,
    pub(super) body: Body,
    /// Whether the server has views of it.
    pub(super) has_views: bool,
}

/// What all operations of a session share.
pub(super) struct Context {
    pub(super) targets: Vec<Target>,
    pub(super) level: Option<DurabilityLevel>,
    /// Whether queries wait for earlier writes.
    pub(super) fresh: bool,
    pub(super) timeout: Duration,
    pub(super) read_only: bool,
    /// Whether pages and scans by key are offered.
    pub(super) by_key: bool,
    /// Whether the cluster answers queries.
    pub(super) queries: bool,
    pub(super) lost_nodes: Rc<LostNodes>,
    pub(super) views: Views,
}

/// An operation that owns what it needs.
pub(super) struct Task {
    pub(super) position: usize,
    pub(super) kind: OpKind,
    pub(super) contents: bool,
    pub(super) key: String,
    pub(super) body: Vec<u8>,
    pub(super) what: What,
}

/// What an operation has besides key and body.
pub(super) enum What {
    /// Nothing else.
    Single,
    Touch(Duration),
    Counter {
        delta: i64,
        initial: i64,
    },
    Swap(u64),
    Batch(BatchBuf),
    Query(Box<Query>),
    /// A query of the study.
    Asked(Box<Query>),
    View(Box<Asked>),
    /// The operation cannot be done, for this reason.
    Refused(OpError),
}

const NOT_BYTES: OpError = refused("append and prepend work on collections of bytes only");
const NOT_COUNTERS: OpError = refused("counter works on collections of counters only");
const NO_VIEWS: OpError =
    refused("Couchbase has views of a bucket's default collection only; read it with existing = \"_default\"");
const NOT_JSON: OpError = refused("merge works on collections of JSON only");
/// A revision that no document has. It replaces what cannot be read as a revision.
pub(super) const NO_REVISION: u64 = u64::MAX;

const fn refused(message: &'static str) -> OpError {
    OpError { kind: ErrorKind::Refused, message: Cow::Borrowed(message) }
}

impl Task {
    /// Copies what a request lends.
    pub(super) fn of(request: &Request<'_>, context: &Context) -> Self {
        let position = request.collection.position();
        let mut task = Self {
            position,
            kind: request.op.kind(),
            contents: request.contents,
            key: String::new(),
            body: Vec::new(),
            what: What::Single,
        };
        if let Err(error) = task.fill(request, context) {
            task.what = What::Refused(error);
        }
        task
    }

    fn fill(&mut self, request: &Request<'_>, context: &Context) -> Result<(), OpError> {
        let target = collection_of(request, &context.targets, context.read_only)?;
        let mut single = |key: &str, body: &[u8]| {
            self.key = key.to_owned();
            self.body = body.to_vec();
        };
        match request.op {
            Op::Insert { key, body } | Op::Upsert { key, body } | Op::Replace { key, body } => single(key, body),
            Op::Append { key, bytes } | Op::Prepend { key, bytes } => {
                if target.body != Body::Bytes {
                    return Err(NOT_BYTES);
                }
                single(key, bytes);
            }
            Op::Read { key } | Op::Exists { key } | Op::Delete { key } => single(key, b""),
            Op::Touch { key, expiry } => {
                single(key, b"");
                self.what = What::Touch(expiry);
            }
            Op::Counter { key, delta, initial } => {
                if target.body != Body::Counter {
                    return Err(NOT_COUNTERS);
                }
                single(key, b"");
                self.what = What::Counter { delta, initial };
            }
            Op::CompareAndSwap { key, expected, body } => {
                single(key, body);
                let revision = expected.try_into().map_or(0, u64::from_be_bytes);
                // 0 would mean any revision.
                self.what = What::Swap(if revision == 0 { NO_REVISION } else { revision });
            }
            Op::MergePatch { key, patch } => {
                if target.body != Body::Json {
                    return Err(NOT_JSON);
                }
                single(key, patch);
            }
            Op::BulkWrite { items, .. } | Op::BulkRead { keys: items } | Op::BulkDelete { keys: items } => {
                let mut batch = BatchBuf::new();
                items.iter().for_each(|(key, body)| batch.push(key, body));
                self.what = What::Batch(batch);
            }
            Op::Transaction { .. } => return Err(OpError::unsupported()),
            Op::Prefix { .. } | Op::Scan { .. } if !context.by_key => return Err(OpError::unsupported()),
            Op::Page { .. } if !context.queries => return Err(OpError::unsupported()),
            Op::Page { .. } | Op::Prefix { .. } | Op::Scan { .. } => {
                let bodies = target.body == Body::Json;
                let query = Query::of(&request.op, &target.name, bodies)?.ok_or(OpError::unsupported())?;
                self.what = What::Query(Box::new(query));
            }
            Op::Query { text, values, .. } => {
                if !context.queries {
                    return Err(OpError::unsupported());
                }
                self.what = What::Asked(Box::new(Query::asked(text, values, &target.name)?));
            }
            Op::View { .. } => {
                if !target.has_views {
                    return Err(NO_VIEWS);
                }
                self.what = What::View(Box::new(Asked::of(&request.op).ok_or(OpError::unsupported())?));
            }
        }
        Ok(())
    }
}

/// Does an operation.
pub(super) async fn perform(context: Rc<Context>, task: Task) -> Result<OwnedReply, OpError> {
    let Task { position, kind, contents, key, body, what } = task;
    let what = match what {
        What::Refused(error) => return Err(error),
        what => what,
    };
    let target = &context.targets[position];
    match what {
        // Boxed: they are rare and their futures are large, and every operation's place has room for the largest.
        What::Batch(batch) => Box::pin(bulk::perform(&context, target, kind, batch, contents)).await,
        What::View(asked) => Box::pin(view(&context, target, kind, &asked, contents)).await,
        What::Asked(query) => Box::pin(asked(&context, target, kind, *query, contents)).await,
        What::Query(query) => Box::pin(page(&context, target, kind, *query, contents)).await,
        What::Counter { delta, initial } => Box::pin(counter::add(&context, target, &key, delta, initial)).await,
        What::Single if kind == OpKind::MergePatch => Box::pin(merge::apply(&context, target, &key, &body)).await,
        what => single(&context, target, kind, &key, &body, &what, contents).await,
    }
}

/// Calls the SDK for one key, unless its node is lost. Errors and panics are explained.
pub(super) async fn call<T>(
    context: &Context,
    kind: OpKind,
    key: &str,
    calling: impl Future<Output = Result<T, Error>>,
) -> Result<T, Called> {
    context.lost_nodes.pass(key).map_err(Called::Answered)?;
    let unanswered = Unanswered::new(&context.lost_nodes, key);
    let called = unwound(calling).await;
    unanswered.answered();
    match called {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => {
            if closed_in_flight(&error) {
                context.lost_nodes.lost(key);
            }
            Err(Called::Failed(kind, error))
        }
        None => Err(Called::Answered(lost(kind, "the node's answer is invalid"))),
    }
}

/// How a call failed.
pub(super) enum Called {
    /// With an error of the SDK.
    Failed(OpKind, Error),
    /// With an error that is already explained.
    Answered(OpError),
}

impl Called {
    /// The kind of the SDK's error.
    pub(super) fn kind(&self) -> Option<&Kind> {
        match self {
            Self::Failed(_, error) => Some(error.kind()),
            Self::Answered(_) => None,
        }
    }
}

impl From<Called> for OpError {
    fn from(called: Called) -> Self {
        match called {
            Called::Failed(kind, error) => op_error(kind, &error),
            Called::Answered(error) => error,
        }
    }
}

/// The flags that tell SDKs the format of a document.
pub(super) fn flags(body: Body) -> u32 {
    encode_common_flags(if body == Body::Bytes { DataType::Binary } else { DataType::Json })
}

/// The reply of a write.
pub(super) fn written(result: &MutationResult) -> OwnedReply {
    OwnedReply::documents(1).revision(result.cas().to_be_bytes().to_vec())
}

async fn single(
    context: &Context,
    target: &Target,
    kind: OpKind,
    key: &str,
    body: &[u8],
    what: &What,
    contents: bool,
) -> Result<OwnedReply, OpError> {
    let (collection, level) = (&target.collection, context.level.clone());
    let flags = flags(target.body);
    let result = match (kind, what) {
        (OpKind::Insert, _) => {
            let mut options = InsertOptions::new();
            options.durability_level = level;
            call(context, kind, key, collection.insert_raw(key, body, flags, options)).await?
        }
        (OpKind::Upsert, _) => {
            let mut options = UpsertOptions::new();
            options.durability_level = level;
            call(context, kind, key, collection.upsert_raw(key, body, flags, options)).await?
        }
        (OpKind::Replace | OpKind::CompareAndSwap, what) => {
            let mut options = ReplaceOptions::new();
            options.durability_level = level;
            if let What::Swap(revision) = what {
                options.cas = Some(*revision);
            }
            call(context, kind, key, collection.replace_raw(key, body, flags, options)).await?
        }
        (OpKind::Append, _) => {
            let mut options = AppendOptions::new();
            options.durability_level = level;
            call(context, kind, key, collection.binary().append(key, body, options)).await?
        }
        (OpKind::Prepend, _) => {
            let mut options = PrependOptions::new();
            options.durability_level = level;
            call(context, kind, key, collection.binary().prepend(key, body, options)).await?
        }
        (OpKind::Delete, _) => {
            let mut options = RemoveOptions::new();
            options.durability_level = level;
            call(context, kind, key, collection.remove(key, options)).await?;
            return Ok(OwnedReply::documents(1));
        }
        (OpKind::Touch, What::Touch(expiry)) => {
            // The server counts in seconds. A document never lives shorter than requested.
            let seconds = expiry.as_secs() + u64::from(expiry.subsec_nanos() > 0);
            call(context, kind, key, collection.touch(key, Duration::from_secs(seconds.max(1)), None)).await?;
            return Ok(OwnedReply::documents(1));
        }
        (OpKind::Exists, _) => {
            // For a document that never existed the SDK reports that it is not found, for a deleted one `false`.
            return match call(context, kind, key, collection.exists(key, None)).await {
                Ok(found) => Ok(OwnedReply::documents(u32::from(found.exists()))),
                Err(called) if called.kind() == Some(&Kind::DocumentNotFound) => Ok(OwnedReply::documents(0)),
                Err(called) => Err(called.into()),
            };
        }
        (OpKind::Read, _) => {
            let found = call(context, kind, key, collection.get(key, None)).await?;
            let (body, _) = found.content_as_raw();
            let reply = OwnedReply::documents(1).revision(found.cas().to_be_bytes().to_vec());
            return Ok(if contents { reply.body(body.to_vec()) } else { reply.bytes(body.len() as u64) });
        }
        _ => return Err(OpError::unsupported()),
    };
    Ok(written(&result))
}

async fn page(
    context: &Context,
    target: &Target,
    kind: OpKind,
    query: Query,
    contents: bool,
) -> Result<OwnedReply, OpError> {
    let rows: Vec<Row> = query.run(&target.scope, kind, context.fresh, context.timeout).await?;
    if target.body != Body::Json {
        let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
        return bulk::read_in_order(context, target, kind, &keys, contents).await;
    }
    let mut found = Collected::default();
    found.begin(contents);
    for row in &rows {
        found.add(&row.key, row.body.as_deref().map_or(&b"null"[..], |body| body.get().as_bytes()));
    }
    Ok(found.into_reply())
}

async fn asked(
    context: &Context,
    target: &Target,
    kind: OpKind,
    query: Query,
    contents: bool,
) -> Result<OwnedReply, OpError> {
    let rows: Vec<Box<RawValue>> = query.run(&target.scope, kind, context.fresh, context.timeout).await?;
    let mut found = Collected::default();
    found.begin(contents);
    rows.iter().for_each(|row| found.add("", row.get().as_bytes()));
    Ok(found.into_reply())
}

async fn view(
    context: &Context,
    target: &Target,
    kind: OpKind,
    asked: &Asked,
    contents: bool,
) -> Result<OwnedReply, OpError> {
    let keys = context.views.keys(asked, context.fresh, context.timeout).await?;
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let reply = bulk::read_in_order(context, target, kind, &keys, contents).await?;
    // A client that reads page after page would take an empty page for the end.
    if context.fresh && asked.is_filled_by(keys.len()) && reply.as_reply().documents == 0 {
        let why = "no document of this page of the view exists any more: expired documents stay in a view until \
                   the server removes them";
        return Err(OpError::new(ErrorKind::Temporary, why));
    }
    Ok(reply)
}

/// The operation for each item of a bulk operation.
pub(super) fn item_kind(kind: OpKind) -> OpKind {
    match kind {
        OpKind::BulkInsert => OpKind::Insert,
        OpKind::BulkUpsert => OpKind::Upsert,
        OpKind::BulkDelete => OpKind::Delete,
        _ => OpKind::Read,
    }
}

/// Does one item of a bulk operation.
pub(super) async fn item(
    context: &Context,
    target: &Target,
    kind: OpKind,
    key: &str,
    body: &[u8],
    contents: bool,
) -> Result<OwnedReply, OpError> {
    single(context, target, kind, key, body, &What::Single, contents).await
}
