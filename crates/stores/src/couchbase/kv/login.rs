//! The start of a connection: what it may do, who uses it, and which bucket.

use std::time::Duration;

use storebench_engine::store::StoreError;

use super::super::features::Features;
use super::super::settings::Settings;
use super::super::topology::Topology;
use super::frame::{self, Request, opcode, status};
use super::request::leb128;
use super::snappy;
use crate::connection::Dialog;
use crate::net::scram::Scram;
use crate::net::{Host, Secret, Stream, connect};

/// Timeout of a connection until it is ready, and of a question after that.
pub(super) const PATIENCE: Duration = Duration::from_secs(7);

/// What does not change what operations do. In this order: small answers are not delayed, extended errors, a bucket for
/// each connection, answers in any order, and each map only once, however many requests reach a node that does not serve
/// their document.
const FEATURES: [u16; 5] = [0x03, 0x07, 0x08, 0x0e, 0x1e];
/// Servers ask for 4,000 iterations or more. One that asks for hardly any may want to guess the password.
const LEAST_ROUNDS: u32 = 1_000;

const CHECK_THE_PORT: &str =
    "check the port: the default is 11210, or 11207 with TLS (couchbases://), and 8091 is the web console";

/// A connection that is ready for requests, one at a time so far.
pub(super) struct Ready {
    dialog: Dialog,
    host: Host,
    number: u32,
    /// What it does, as the other nodes do.
    features: Features,
}

/// Asks a node for the bucket's map, and for what it can do.
///
/// # Errors
/// `Unreachable` with cause and remedy.
pub(in super::super) async fn first_contact(settings: &Settings, host: &Host) -> Result<Topology, StoreError> {
    let mut node = Ready::connected(settings, host, Features::ALL).await?;
    let asking = async {
        let said = node.greet(settings.compress).await.map_err(|why| {
            StoreError::Unreachable(format!("{host} is not a Couchbase data service: {why}; {CHECK_THE_PORT}"))
        })?;
        let agreed = node.agreed(&said, settings.compress)?;
        node.log_in(settings).await?;
        node.select(settings).await?;
        let map = node.ask(Request { opcode: opcode::GET_CLUSTER_CONFIG, ..Request::default() }).await?;
        match map.status {
            status::SUCCESS => {
                let config = String::from_utf8_lossy(&map.value).replace("$HOST", &host.name);
                let mut topology = Topology::read(config.as_bytes(), &host.name, settings.address.tls.is_some())?;
                let collections = agreed.collections && topology.features.collections;
                topology.features = Features { collections, ..agreed };
                Ok(topology)
            }
            other => Err(node.odd(&format!("it returned no map of the cluster (status 0x{other:02x})"))),
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| {
        Err(StoreError::Unreachable(format!(
            "{host} accepted a connection, but did not answer within {PATIENCE:?}: it is overloaded or stopped, or is no \
             Couchbase data service; {CHECK_THE_PORT}"
        )))
    })
}

/// An answer, owned.
struct Said {
    status: u16,
    extras: Vec<u8>,
    value: Vec<u8>,
}

impl Ready {
    /// Connects and logs in.
    ///
    /// # Errors
    /// `Unreachable` with cause and remedy.
    pub(super) async fn open(settings: &Settings, host: &Host, features: Features) -> Result<Self, StoreError> {
        let opening = async {
            let mut ready = Self::connected(settings, host, features).await?;
            let said = ready.greet(settings.compress).await.map_err(|why| ready.odd(&why))?;
            let agreed = ready.agreed(&said, settings.compress)?;
            if let Some(why) = agreed.lacks(features) {
                return Err(StoreError::NotSupported(format!(
                    "{host}: {why}, though another node of the cluster has them; use nodes of one version"
                )));
            }
            ready.log_in(settings).await?;
            ready.select(settings).await?;
            Ok(ready)
        };
        tokio::time::timeout(PATIENCE, opening)
            .await
            .unwrap_or_else(|_| Err(StoreError::Unreachable(format!("{host} did not answer within {PATIENCE:?}"))))
    }

    async fn connected(settings: &Settings, host: &Host, features: Features) -> Result<Self, StoreError> {
        let stream = connect(host, settings.address.tls.as_ref(), PATIENCE).await?;
        Ok(Self { dialog: Dialog::new(stream), host: host.clone(), number: 0, features })
    }

    async fn select(&mut self, settings: &Settings) -> Result<(), StoreError> {
        let bucket = Request { opcode: opcode::SELECT_BUCKET, key: settings.bucket.as_bytes(), ..Request::default() };
        match self.ask(bucket).await?.status {
            status::SUCCESS => Ok(()),
            status::KEY_NOT_FOUND | status::NO_ACCESS => {
                let (host, bucket, user) = (&self.host, &settings.bucket, settings.credentials().0);
                Err(StoreError::Unreachable(format!(
                    "{host} has no bucket `{bucket}` for `{user}`: it does not exist, or `{user}` may not use it; create \
                     it, or name another bucket after the host"
                )))
            }
            other => Err(self.odd(&format!("it does not serve the bucket now (status 0x{other:02x})"))),
        }
    }

    pub(super) fn into_stream(self) -> Stream {
        self.dialog.into_stream().0
    }

    /// What stands before the keys of a collection: its number, or nothing if the server has the default one only.
    ///
    /// # Errors
    /// `Failed` if the bucket does not have it, `Unreachable` if there is no answer in time.
    pub(super) async fn collection(&mut self, scope: &str, name: &str) -> Result<Vec<u8>, StoreError> {
        if !self.features.collections {
            return Ok(Vec::new());
        }
        let path = format!("{scope}.{name}");
        let asked = Request { opcode: opcode::GET_COLLECTION_ID, value: path.as_bytes(), ..Request::default() };
        let said = tokio::time::timeout(PATIENCE, self.ask(asked)).await;
        let said = said.map_err(|_| self.odd(&format!("it did not answer within {PATIENCE:?}")))??;
        // The revision of the list of collections, then the number.
        match said.extras.get(8..).and_then(|rest| rest.first_chunk()) {
            Some(number) if said.status == status::SUCCESS => Ok(leb128(u32::from_be_bytes(*number))),
            _ => Err(StoreError::Failed(format!(
                "{} has no collection `{path}` (status 0x{:x}); it may have been dropped",
                self.host, said.status
            ))),
        }
    }

    /// Tells the node what is wanted.
    async fn greet(&mut self, compress: bool) -> Result<Said, String> {
        let compression = compress.then_some(snappy::FEATURE);
        let wanted = FEATURES.into_iter().chain(self.features.numbers()).chain(compression);
        let wanted: Vec<u8> = wanted.flat_map(u16::to_be_bytes).collect();
        self.exchange(Request { opcode: opcode::HELLO, key: b"storebench", value: &wanted, ..Request::default() }).await
    }

    /// What the node can do of that.
    fn agreed(&self, said: &Said, compress: bool) -> Result<Features, StoreError> {
        if said.status != status::SUCCESS {
            return Err(self.odd(&format!("it does not take connections now (status 0x{:02x})", said.status)));
        }
        let agreed: Vec<u16> = said.value.as_chunks().0.iter().copied().map(u16::from_be_bytes).collect();
        if compress && !agreed.contains(&snappy::FEATURE) {
            let host = &self.host;
            return Err(StoreError::NotSupported(format!(
                "{host}: the server takes no compressed documents; leave out compression=snappy"
            )));
        }
        Ok(Features::agreed(&agreed))
    }

    async fn log_in(&mut self, settings: &Settings) -> Result<(), StoreError> {
        let (user, password) = settings.credentials();
        let refused = StoreError::Unreachable(format!(
            "{} refused the login of `{user}`: the user or the password is wrong; set them in the URL, or set the \
             password with STOREBENCH_PASSWORD or password_file=",
            self.host
        ));
        let (opcode, key) = (opcode::SASL_AUTH, b"SCRAM-SHA256");
        // Only over TLS: it sends the password as it is.
        if settings.address.tls.is_some() {
            let text = format!("\0{user}\0{password}");
            let plain = Request { opcode, key: b"PLAIN", value: text.as_bytes(), ..Request::default() };
            return if self.ask(plain).await?.status == status::SUCCESS { Ok(()) } else { Err(refused) };
        }
        let scram = Scram::new(user)?;
        let begun = self.ask(Request { opcode, key, value: scram.first().as_bytes(), ..Request::default() }).await?;
        if begun.status != status::AUTH_CONTINUE {
            let status = begun.status;
            return Err(self.odd(&format!(
                "it refused to log `{user}` in by SCRAM-SHA-256 (status 0x{status:02x}), which may be disabled; use \
                 couchbases://"
            )));
        }
        let Some(proof) = scram.answer(&begun.value, LEAST_ROUNDS, &Secret::new(password), &settings.salt) else {
            return Err(self.odd("it does not log in by SCRAM-SHA-256"));
        };
        let last = Request { opcode: opcode::SASL_STEP, key, value: proof.last.as_bytes(), ..Request::default() };
        let ended = self.ask(last).await?;
        match ended.status {
            status::SUCCESS if ended.value == proof.expected.as_bytes() => Ok(()),
            status::SUCCESS => Err(self.odd("it could not prove that it knows the user's password")),
            _ => Err(refused),
        }
    }

    fn odd(&self, what: &str) -> StoreError {
        StoreError::Unreachable(format!("{}: {what}", self.host))
    }

    /// Sends one request, and waits for its answer.
    async fn ask(&mut self, request: Request<'_>) -> Result<Said, StoreError> {
        self.exchange(request).await.map_err(|why| {
            StoreError::Unreachable(format!("the connection to {} failed while logging in: {why}", self.host))
        })
    }

    /// The same, with the reason alone.
    async fn exchange(&mut self, request: Request<'_>) -> Result<Said, String> {
        self.number += 1;
        let mut packet = Vec::new();
        request.write(&mut packet);
        frame::number(&mut packet, self.number);
        self.dialog.send(&packet).await.map_err(|e| e.to_string())?;
        loop {
            let found = frame::answer(self.dialog.input()).map_err(|what| format!("its answer is invalid: {what}"))?;
            if let Some((answer, used)) = found {
                if answer.number != self.number || answer.opcode != request.opcode {
                    return Err("it answered another request".into());
                }
                let (status, extras, value) = (answer.status, answer.extras.to_vec(), answer.value.to_vec());
                self.dialog.take(used);
                return Ok(Said { status, extras, value });
            }
            self.dialog.read().await.map_err(|e| e.to_string())?;
        }
    }
}
