//! Connects to the wanted node among a URL's hosts: TCP, TLS, `hello`, login.
//!
//! The rules are those of
//! <https://github.com/mongodb/specifications/blob/master/source/server-discovery-and-monitoring/server-discovery-and-monitoring.md>,
//! without its background monitors. The driver looks for the primary when it makes a connection, and again when a
//! connection breaks or a node reports that it is not the primary.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::bson::doc;
use storebench_engine::store::StoreError;

use super::auth::Login;
use super::bson::Members;
use super::errors::{NO_SUCH_COMMAND, ServerError, is_ok};
use super::srv;
use super::wire::{self, Broken, Connection};
use crate::net::{Host, Tls, connect};

/// The role of the wanted node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The node that accepts writes.
    Primary,
    /// A secondary of a replica set if there is one, otherwise the primary.
    Secondary,
}

/// How the servers are deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deployment {
    /// A standalone server.
    Single,
    /// A replica set with this many data-bearing members.
    ReplicaSet(u32),
    /// Behind a router (`mongos`).
    Sharded,
}

/// What a node reports about itself.
#[derive(Debug, Clone)]
pub(super) struct Hello {
    pub(super) deployment: Deployment,
    writable: bool,
    secondary: bool,
    set: Option<String>,
    primary: Option<Host>,
    members: Vec<Host>,
    /// The most bytes in a document.
    pub(super) most_document_bytes: usize,
    /// The most bytes in a message.
    pub(super) most_message_bytes: usize,
    /// The most documents written by one message.
    pub(super) most_writes: usize,
}

impl Hello {
    fn of(reply: Members<'_>) -> Self {
        let number = |name: &str, default: i64| {
            let told = reply.get(name).and_then(|value| value.as_i64()).filter(|n| *n > 0);
            usize::try_from(told.unwrap_or(default)).unwrap_or(usize::MAX)
        };
        let is = |name: &str| reply.get(name).is_some_and(|value| value.is_true());
        let text = |name: &str| reply.get(name).and_then(|value| value.as_str());
        let mut members = Vec::new();
        for list in ["hosts", "passives"] {
            let list = reply.get(list).and_then(|value| value.members());
            let names = list.into_iter().flatten().filter_map(|member| member.ok()?.1.as_str());
            members.extend(names.filter_map(host_of));
        }
        let set = text("setName").map(str::to_owned);
        let deployment = match (&set, text("msg")) {
            (_, Some("isdbgrid")) => Deployment::Sharded,
            (Some(_), _) => Deployment::ReplicaSet(u32::try_from(members.len()).unwrap_or(u32::MAX).max(1)),
            _ => Deployment::Single,
        };
        Self {
            deployment,
            writable: is("isWritablePrimary") || is("ismaster"),
            secondary: is("secondary"),
            set,
            primary: text("primary").and_then(host_of),
            members,
            most_document_bytes: number("maxBsonObjectSize", 16 << 20),
            most_message_bytes: number("maxMessageSizeBytes", 48_000_000),
            most_writes: number("maxWriteBatchSize", 100_000),
        }
    }

    fn fits(&self, role: Role) -> bool {
        match role {
            Role::Primary => self.writable,
            Role::Secondary => {
                self.secondary || (self.writable && !matches!(self.deployment, Deployment::ReplicaSet(2..)))
            }
        }
    }
}

fn host_of(text: &str) -> Option<Host> {
    let (name, port) = text.rsplit_once(':')?;
    let name = name.trim_start_matches('[').trim_end_matches(']');
    Some(Host { name: name.to_owned(), port: port.parse().ok()? })
}

#[derive(Debug)]
pub(super) struct Finder {
    /// Whether the only host is a DNS name that stands for a list of hosts.
    pub(super) srv: bool,
    pub(super) hosts: Vec<Host>,
    /// The hosts behind that name, once resolved.
    pub(super) resolved: Mutex<Option<Vec<Host>>>,
    pub(super) tls: Option<Tls>,
    pub(super) login: Option<Login>,
    pub(super) replica_set: Option<String>,
    pub(super) direct: bool,
    pub(super) app_name: String,
}

/// The most nodes tried for one connection. A replica set has at most 50 members.
const MOST_NODES: usize = 64;

impl Finder {
    /// Connects to a node of this role, ready for commands.
    ///
    /// # Errors
    /// `Unreachable`, with the first error, or if no node that was reached accepts writes.
    pub(super) async fn connect(&self, role: Role, within: Duration) -> Result<(Connection, Hello), StoreError> {
        let deadline = Instant::now() + within;
        let left = || deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let mut waiting: VecDeque<Host> = self.seeds(left()).await?.into();
        let mut asked: Vec<Host> = Vec::new();
        let mut first_error = None;
        let mut found = None;
        let mut reached = None;
        while let Some(host) = waiting.pop_front() {
            if asked.contains(&host) || asked.len() == MOST_NODES {
                continue;
            }
            asked.push(host.clone());
            // The time is divided, so that a silent host leaves time for the others.
            let others = waiting.iter().filter(|other| !asked.contains(other)).count();
            let share = left() / u32::try_from(others + 1).unwrap_or(u32::MAX);
            let (connection, hello) = match self.greet(&host, share).await {
                Ok(greeted) => greeted,
                Err(error) => {
                    first_error.get_or_insert(error);
                    continue;
                }
            };
            if hello.fits(role) || self.direct {
                found = Some((connection, hello));
                break;
            }
            if let Some(primary) = hello.primary.clone().filter(|_| role == Role::Primary) {
                waiting.push_front(primary);
            }
            waiting.extend(hello.members.iter().cloned());
            reached.get_or_insert(host);
            if hello.writable && role == Role::Secondary {
                // Unless there is a secondary.
                found = Some((connection, hello));
            }
        }
        if let Some((mut connection, hello)) = found {
            if let Some(login) = &self.login {
                login.log_in(&mut connection, left()).await?;
            }
            return Ok((connection, hello));
        }
        Err(match (reached, first_error) {
            (Some(host), error) => StoreError::Unreachable(format!(
                "{host} was reached, but no node of its replica set accepts writes{}; if an election is in \
                 progress, try again",
                error.map_or_else(String::new, |error| format!(" ({error})"))
            )),
            (None, Some(error)) => error,
            (None, None) => StoreError::BadUrl("the URL names no host".into()),
        })
    }

    /// The hosts to start with.
    async fn seeds(&self, within: Duration) -> Result<Vec<Host>, StoreError> {
        if !self.srv {
            return Ok(self.hosts.clone());
        }
        if let Some(hosts) = self.resolved.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(hosts);
        }
        let name = self.hosts.first().map_or("", |host| host.name.as_str());
        let unknown = |why: &str| {
            StoreError::Unreachable(format!(
                "cannot resolve mongodb+srv://{name}: {why}; check the name (which takes no port), and that this \
                 machine's DNS answers SRV queries"
            ))
        };
        let looked_up = tokio::time::timeout(within, srv::hosts(name)).await;
        let hosts = looked_up.map_err(|_| unknown("no answer in time"))?.map_err(|why| unknown(&why))?;
        *self.resolved.lock().unwrap_or_else(PoisonError::into_inner) = Some(hosts.clone());
        Ok(hosts)
    }

    /// Connects to one host and sends `hello`.
    async fn greet(&self, host: &Host, within: Duration) -> Result<(Connection, Hello), StoreError> {
        let deadline = Instant::now() + within;
        let stream = connect(host, self.tls.as_ref(), within).await?;
        let within = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let mut connection = Connection::new(stream, host.clone());
        let hello = doc! {
            "hello": 1,
            "client": {
                "application": { "name": &self.app_name },
                "driver": { "name": "storebench", "version": env!("CARGO_PKG_VERSION") },
                "os": { "type": std::env::consts::OS },
            },
        };
        let other = |what: String| {
            StoreError::Unreachable(format!(
                "{host} was reached, but it does not speak MongoDB's protocol: {what}; check that the \
                 port is MongoDB's{}",
                if self.tls.is_some() { "" } else { ", and set tls=true if the server requires TLS" }
            ))
        };
        let reply = match connection.call(&mut wire::message("admin", hello), within).await {
            Ok(reply) => Members::of(reply).map_err(|_| other("its answer is not a document".into()))?,
            Err(Broken::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => {
                return Err(StoreError::Unreachable(format!(
                    "{host} was reached, but did not answer: {error}; check that it is MongoDB, and not \
                     overloaded or stopped"
                )));
            }
            Err(broken) => return Err(other(broken.to_string())),
        };
        if !is_ok(reply) {
            let told = ServerError::of(reply);
            return Err(if told.code == NO_SUCH_COMMAND {
                StoreError::Unreachable(format!(
                    "{host} is too old: it does not support `hello`; use MongoDB 4.4.2 or later"
                ))
            } else {
                StoreError::Unreachable(format!("{host} rejected the greeting: {told}"))
            });
        }
        if reply.get("maxWireVersion").is_none() {
            return Err(other("its greeting names no version".into()));
        }
        let hello = Hello::of(reply);
        if let (Some(wanted), found) = (&self.replica_set, &hello.set)
            && found.as_ref() != Some(wanted)
        {
            let found =
                found.as_ref().map_or_else(|| "no replica set".to_owned(), |name| format!("the replica set `{name}`"));
            return Err(StoreError::Unreachable(format!(
                "{host} belongs to {found}, not to `{wanted}`, which the URL names (replicaSet=)"
            )));
        }
        Ok((connection, hello))
    }
}
