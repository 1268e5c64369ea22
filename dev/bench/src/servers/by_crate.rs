//! A client crate in place of a driver's session, so that both do the same work in the same loop.

use std::sync::Arc;

use storebench_engine::store::{
    AnyStore, Capabilities, Description, FutureSession, Layout, Namespace, Prepare, Respond, Runtime, SessionOptions,
    Store, StoreError,
};

/// Connects a crate's client.
pub(super) trait Connect: Send + Sync + 'static {
    type Client: Respond + 'static;

    /// Called on the worker that will drive the client.
    fn connect(&self) -> impl Future<Output = Result<Self::Client, StoreError>>;
}

/// The store of a driver, with the sessions of a crate.
pub(super) fn through_a_crate(driver: &Arc<dyn AnyStore>, connect: impl Connect) -> Arc<dyn AnyStore> {
    Arc::new(ByCrate { driver: Arc::clone(driver), connect })
}

struct ByCrate<C> {
    driver: Arc<dyn AnyStore>,
    connect: C,
}

impl<C: Connect> Store for ByCrate<C> {
    type Session = FutureSession<C::Client>;

    fn describe(&self) -> Description {
        self.driver.describe()
    }
    fn capabilities(&self) -> Capabilities {
        self.driver.capabilities()
    }
    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        self.driver.inspect()
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        self.driver.prepare(layout, how)
    }
    async fn open(&self, _options: &SessionOptions) -> Result<Self::Session, StoreError> {
        self.connect.connect().await.map(FutureSession::new)
    }
    fn remove(&self) -> Result<(), StoreError> {
        self.driver.remove()
    }
}
