//! Pages, key ranges, queries and views: through the official client and the view engine.

use std::rc::Rc;
use std::time::Duration;

use couchbase::scope::Scope;
use serde_json::value::RawValue;
use storebench_engine::store::{BatchBuf, Collected, CollectionId, Op, OpError, OwnedReply, Request};
use storebench_study::workload::Body;

use super::link::Link;
use super::queries::{Query, Row};
use super::views::{Asked, Views};
use crate::document::{collection_of, wrong_collection};

/// A collection of the layout.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) scope: Scope,
    pub(super) body: Body,
    /// Whether the server has views of it.
    pub(super) has_views: bool,
}

/// What all operations of a session share.
pub(super) struct Context {
    /// Kept for its connections.
    pub(super) _link: Link,
    pub(super) targets: Vec<Target>,
    /// Whether queries wait for earlier writes.
    pub(super) fresh: bool,
    pub(super) timeout: Duration,
    pub(super) read_only: bool,
    /// Whether pages and scans by key are offered.
    pub(super) by_key: bool,
    /// Whether the cluster answers queries.
    pub(super) queries: bool,
    pub(super) views: Views,
}

/// What a service is asked for.
pub(super) struct Call {
    collection: CollectionId,
    contents: bool,
    what: What,
}

enum What {
    /// A page or a key range.
    Page(Query),
    /// A query of the study.
    Asked(Query),
    View(Asked),
}

/// What a service answered.
pub(super) enum ServiceAnswer {
    Reply(OwnedReply),
    Keys(Keys),
}

/// The keys of the documents that remain to be read.
pub(super) struct Keys {
    pub(super) collection: CollectionId,
    pub(super) contents: bool,
    pub(super) keys: BatchBuf,
    /// Whether there must be one such document at least.
    pub(super) must_exist: bool,
}

impl Keys {
    fn new<'k>(call: &Call, keys: impl Iterator<Item = &'k str>, must_exist: bool) -> Self {
        let mut batch = BatchBuf::new();
        keys.for_each(|key| batch.push(key, b""));
        Self { collection: call.collection, contents: call.contents, keys: batch, must_exist }
    }
}

impl Call {
    /// Copies what a request lends.
    ///
    /// # Errors
    /// *Refused* for what this cluster or this collection cannot do.
    pub(super) fn of(request: &Request<'_>, context: &Context) -> Result<Self, OpError> {
        let target = collection_of(request, &context.targets, context.read_only)?;
        let what = match request.op {
            Op::Prefix { .. } | Op::Scan { .. } if !context.by_key => return Err(OpError::unsupported()),
            Op::Page { .. } | Op::Query { .. } if !context.queries => return Err(OpError::unsupported()),
            Op::Page { .. } | Op::Prefix { .. } | Op::Scan { .. } => {
                let bodies = target.body == Body::Json;
                What::Page(Query::of(&request.op, &target.name, bodies)?.ok_or(OpError::unsupported())?)
            }
            Op::Query { text, values, .. } => What::Asked(Query::asked(text, values, &target.name)?),
            Op::View { .. } if !target.has_views => {
                return Err(wrong_collection(
                    "Couchbase has views of a bucket's default collection only; read it with existing = \"_default\"",
                ));
            }
            _ => What::View(Asked::of(&request.op).ok_or(OpError::unsupported())?),
        };
        let Request { collection, contents, .. } = *request;
        Ok(Self { collection, contents, what })
    }
}

/// Asks the service.
pub(super) async fn perform(context: Rc<Context>, call: Call) -> Result<ServiceAnswer, OpError> {
    let Context { targets, fresh, timeout, views, .. } = &*context;
    let Target { scope, body, .. } = &targets[call.collection.position()];
    let mut found = Collected::default();
    found.begin(call.contents);
    match &call.what {
        What::Page(query) => {
            let rows: Vec<Row> = query.run(scope, *fresh, *timeout).await?;
            if *body != Body::Json {
                return Ok(ServiceAnswer::Keys(Keys::new(&call, rows.iter().map(|row| &*row.key), false)));
            }
            for row in &rows {
                found.add(&row.key, row.body.as_deref().map_or(&b"null"[..], |body| body.get().as_bytes()));
            }
        }
        What::Asked(query) => {
            let rows: Vec<Box<RawValue>> = query.run(scope, *fresh, *timeout).await?;
            rows.iter().for_each(|row| found.add("", row.get().as_bytes()));
        }
        What::View(asked) => {
            let keys = views.keys(asked, *fresh, *timeout).await?;
            // A client that reads page after page would take an empty page for the end.
            let must_exist = *fresh && asked.is_filled_by(keys.len());
            return Ok(ServiceAnswer::Keys(Keys::new(&call, keys.iter().map(String::as_str), must_exist)));
        }
    }
    Ok(ServiceAnswer::Reply(found.into_reply()))
}
