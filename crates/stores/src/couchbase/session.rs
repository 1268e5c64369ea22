//! One session: its own connections to every node for operations on documents, and the SDK's for the rest.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as Waking, Poll};

use storebench_engine::store::{
    Completions, ErrorKind, Op, OpError, Reply, Request, Session, SessionCounters, SessionOptions, StoreError, Token,
};

use super::Ready;
use super::kv::KvSession;
use super::link::Link;
use super::operations::{Call, Context, ServiceAnswer, Target, perform};
use super::settings::Settings;
use super::tasks::Tasks;
use super::topology::Topology;
use super::views::{KEPT_IN, Views};

/// A session. Its connections end with it.
pub(crate) struct CouchbaseSession {
    kv: KvSession,
    tasks: Tasks<Result<ServiceAnswer, OpError>>,
    context: Rc<Context>,
    /// The operations whose keys are known, and of which one document must exist at least.
    must_exist: HashSet<Token>,
}

impl CouchbaseSession {
    pub(super) fn new(
        settings: &Arc<Settings>,
        (link, kv): (Link, KvSession),
        topology: &Topology,
        ready: &Ready,
        options: &SessionOptions,
        fresh: bool,
        queries: bool,
    ) -> Result<Self, StoreError> {
        let target = |(scope, name, body): &(String, String, _)| {
            let has_views = scope == KEPT_IN && name == KEPT_IN;
            Target { name: name.clone(), scope: link.bucket.scope(scope), body: *body, has_views }
        };
        let context = Rc::new(Context {
            targets: ready.collections.iter().map(target).collect(),
            fresh,
            timeout: options.timeout,
            read_only: ready.read_only,
            queries,
            by_key: queries && settings.key_index,
            views: Views::new(settings, topology)?,
            _link: link,
        });
        Ok(Self { kv, tasks: Tasks::new(), context, must_exist: HashSet::new() })
    }
}

/// Passes completions on. Those of operations that found nothing although something must exist are errors.
struct Checked<'o> {
    out: &'o mut dyn Completions,
    must_exist: &'o mut HashSet<Token>,
}

impl Completions for Checked<'_> {
    fn complete(&mut self, token: Token, result: Result<Reply<'_>, OpError>) {
        let must_exist = self.must_exist.remove(&token);
        let result = match result {
            Ok(reply) if must_exist && reply.documents == 0 => Err(OpError::new(
                ErrorKind::Temporary,
                "no document of this page of the view exists any more: expired documents stay in a view until the server \
                 removes them",
            )),
            result => result,
        };
        self.out.complete(token, result);
    }

    fn arrived(&mut self) {
        self.out.arrived();
    }
}

impl Session for CouchbaseSession {
    #[inline]
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        use Op::{Page, Prefix, Query, Scan, View};
        // A service is asked for these, and the nodes that hold the documents for all others.
        if !matches!(request.op, Page { .. } | Prefix { .. } | Scan { .. } | View { .. } | Query { .. }) {
            if self.must_exist.is_empty() {
                return self.kv.submit(request, token, out);
            }
            // It may find that a connection is lost, and so complete others.
            return self.kv.submit(request, token, &mut Checked { out, must_exist: &mut self.must_exist });
        }
        match Call::of(request, &self.context) {
            Ok(call) => self.tasks.start(token, perform(Rc::clone(&self.context), call)),
            Err(error) => out.complete(token, Err(error)),
        }
    }

    fn flush(&mut self) {
        self.kv.flush();
        self.tasks.flush();
    }

    fn poll(&mut self, cx: &mut Waking<'_>, out: &mut dyn Completions) -> Poll<()> {
        // Before the other one, whose reads set the time of what completes after them.
        for (token, found) in self.tasks.poll(cx) {
            match found {
                Ok(ServiceAnswer::Reply(reply)) => out.complete(token, Ok(reply.as_reply())),
                Ok(ServiceAnswer::Keys(keys)) => {
                    if keys.must_exist {
                        self.must_exist.insert(token);
                    }
                    let op = Op::BulkRead { keys: keys.keys.as_batch() };
                    let request = Request { collection: keys.collection, op, contents: keys.contents };
                    let mut checked = Checked { out, must_exist: &mut self.must_exist };
                    self.kv.submit(&request, token, &mut checked);
                    self.kv.flush();
                }
                Err(error) => out.complete(token, Err(error)),
            }
        }
        let own = if self.must_exist.is_empty() {
            self.kv.poll(cx, out)
        } else {
            self.kv.poll(cx, &mut Checked { out, must_exist: &mut self.must_exist })
        };
        if own.is_ready() && self.tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn abandon(&mut self, token: Token) {
        self.kv.abandon(token);
        self.tasks.abandon(token);
        self.must_exist.remove(&token);
    }

    fn counters(&self) -> SessionCounters {
        self.kv.counters()
    }
}
