//! One session: its own connections to every node for operations on documents, and the SDK's for the rest.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as Waking, Poll};

use storebench_engine::store::{Completions, Op, Request, Session, SessionCounters, SessionOptions, StoreError, Token};

use super::kv::KvSession;
use super::link::Link;
use super::lost_nodes::LostNodes;
use super::operations::{Context, Target, Task, perform};
use super::settings::Settings;
use super::tasks::Tasks;
use super::topology::Topology;
use super::views::{KEPT_IN, Views};
use super::{Ready, durability};
use crate::repeats::{Rounds, Within};

/// A session. Its connections end with it.
pub(crate) struct CouchbaseSession {
    /// Boxed because the SDK's futures have no names. This costs once per session, not once per operation.
    sdk: Box<dyn Session>,
    lost_nodes: Rc<LostNodes>,
    kv: Option<KvSession>,
    /// Finds out whether a bulk operation has a key twice.
    rounds: Rounds,
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
        let lost_nodes = LostNodes::new(Arc::clone(settings), Arc::clone(&link), topology);
        let context = Rc::new(Context {
            targets,
            level: durability::level(options.durability),
            fresh,
            timeout: options.timeout,
            read_only: ready.read_only,
            queries,
            by_key: queries && settings.key_index,
            lost_nodes: Rc::clone(&lost_nodes),
            views,
        });
        let respond = move |request: &Request<'_>| {
            let task = Task::of(request, &context);
            perform(Rc::clone(&context), task)
        };
        Ok(Self { sdk: Box::new(Tasks::new(respond)), lost_nodes, kv: None, rounds: Rounds::default() })
    }

    /// Sends operations on documents over these connections.
    pub(super) fn over(self, kv: KvSession) -> Self {
        Self { kv: Some(kv), ..self }
    }

    /// Whether a request goes over the own connections.
    #[inline]
    fn is_own(&mut self, op: &Op<'_>) -> bool {
        match *op {
            // Counters are signed here and unsigned there, which takes a loop for some of them.
            Op::Counter { .. } | Op::Page { .. } | Op::Prefix { .. } | Op::Scan { .. } | Op::View { .. } => false,
            Op::Query { .. } | Op::Transaction { .. } => false,
            // The server may do the requests for one key in any order.
            Op::BulkWrite { items, .. } | Op::BulkDelete { keys: items } => {
                self.rounds.arrange(items, Within::Given);
                self.rounds.ranges().count() <= 1
            }
            _ => true,
        }
    }
}

impl Session for CouchbaseSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let is_own = self.kv.is_some() && self.is_own(&request.op);
        match self.kv.as_mut().filter(|_| is_own) {
            Some(kv) => kv.submit(request, token, out),
            None => self.sdk.submit(request, token, out),
        }
    }

    fn flush(&mut self) {
        if let Some(kv) = &mut self.kv {
            kv.flush();
        }
        self.sdk.flush();
    }

    fn poll(&mut self, cx: &mut Waking<'_>, out: &mut dyn Completions) -> Poll<()> {
        // Before the other one, whose reads set the time of what completes after them.
        let sdk = self.sdk.poll(cx, out);
        let own = self.kv.as_mut().map_or(Poll::Ready(()), |kv| kv.poll(cx, out));
        if own.is_ready() { sdk } else { own }
    }

    fn abandon(&mut self, token: Token) {
        if let Some(kv) = &mut self.kv {
            kv.abandon(token);
        }
        self.sdk.abandon(token);
    }

    fn counters(&self) -> SessionCounters {
        self.kv.as_ref().map_or_else(|| self.lost_nodes.counters(), Session::counters)
    }
}
