//! One session: the SDK's connections to every node, driven in place.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as Waking, Poll};

use storebench_engine::store::{
    Completions, FutureSession, Request, Session, SessionCounters, SessionOptions, StoreError, Token,
};

use super::gate::Gate;
use super::link::Link;
use super::operations::{Context, Target, Task, perform};
use super::settings::Settings;
use super::topology::Topology;
use super::views::{KEPT_IN, Views};
use super::{Ready, durability};

/// A session. Its connections end with it.
pub(crate) struct CouchbaseSession {
    /// Boxed because the SDK's futures have no names. This costs once per session, not once per operation.
    inner: Box<dyn Session>,
    gate: Rc<Gate>,
}

impl CouchbaseSession {
    pub(super) fn new(
        settings: &Arc<Settings>,
        link: Link,
        topology: Topology,
        ready: &Ready,
        options: &SessionOptions,
        fresh: bool,
        queries: bool,
    ) -> Result<Self, StoreError> {
        let link = Arc::new(link);
        let views = Views::new(settings, &topology)?;
        let target = |(scope, name, body): &(String, String, _)| {
            let has_views = scope == KEPT_IN && name == KEPT_IN;
            let scope = link.bucket.scope(scope);
            let collection = scope.collection(name);
            Target { name: name.clone(), scope, collection, body: *body, has_views }
        };
        let targets = ready.collections.iter().map(target).collect();
        let gate = Gate::new(Arc::clone(settings), Arc::clone(&link), topology);
        let context = Rc::new(Context {
            targets,
            level: durability::level(options.durability),
            fresh,
            timeout: options.timeout,
            read_only: ready.read_only,
            queries,
            by_key: queries && settings.key_index,
            gate: Rc::clone(&gate),
            views,
        });
        let respond = move |request: &Request<'_>| {
            let task = Task::of(request, &context);
            perform(Rc::clone(&context), task)
        };
        Ok(Self { inner: Box::new(FutureSession::new(respond)), gate })
    }
}

impl Session for CouchbaseSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        self.inner.submit(request, token, out);
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn poll(&mut self, cx: &mut Waking<'_>, out: &mut dyn Completions) -> Poll<()> {
        self.inner.poll(cx, out)
    }

    fn abandon(&mut self, token: Token) {
        self.inner.abandon(token);
    }

    fn counters(&self) -> SessionCounters {
        self.gate.counters()
    }
}
