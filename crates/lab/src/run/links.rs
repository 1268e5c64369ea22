//! Links between this process and stores, and between servers, that a run can break.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use storebench_engine::store::StoreError;
use storebench_machine::{ClientSees, Link, LinkState, Network, OneWay, Partition};
use storebench_results::environment::{authority_of, port_of};
use storebench_study::units::ByteSize;
use storebench_study::workload::{ClientsReach, Fault, Lost, Study};

/// The links of a configuration.
#[derive(Debug, Clone, Default)]
pub struct Links {
    /// Between this process and the store.
    client: Option<Arc<ClientLink>>,
    /// The links that the study names.
    named: Arc<IndexMap<String, Link>>,
    /// The network of the servers that have their own namespace.
    network: Option<Arc<Mutex<Network>>>,
}

/// A link between this process and a store.
#[derive(Debug)]
struct ClientLink {
    link: Link,
    /// Host and port of the store, as in its URL.
    of_url: String,
}

impl Links {
    /// The links that a study names, and the network of its servers with their own namespace. They exist as long as
    /// this value; `leases` is the folder for their lease.
    ///
    /// # Errors
    /// Fails if a port is in use, a host cannot be resolved, or this machine does not support such a network.
    pub fn of(study: &Study, leases: &Path) -> Result<Self, StoreError> {
        let mut named = IndexMap::new();
        for (name, spec) in &study.links {
            let refused = |error: std::io::Error| StoreError::NotSupported(format!("link `{name}`: {error}"));
            let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, spec.listen));
            let to = address(&spec.to).map_err(|why| StoreError::NotSupported(format!("link `{name}`: {why}")))?;
            named.insert(name.clone(), Link::begin(listen, to).map_err(refused)?);
        }
        let nodes = study.servers.iter().filter(|(_, spec)| spec.namespace).map(|(name, _)| name.as_str());
        let nodes: Vec<&str> = nodes.collect();
        let begin = || Network::begin(leases, &nodes).map_err(|e| StoreError::NotSupported(e.to_string()));
        let network = (!nodes.is_empty()).then(begin).transpose()?;
        Ok(Self { client: None, named: Arc::new(named), network: network.map(|made| Arc::new(Mutex::new(made))) })
    }

    fn network(&self) -> Option<MutexGuard<'_, Network>> {
        self.network.as_ref().map(|network| network.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The address of a server in its namespace; `None` if it has no namespace.
    pub fn address(&self, server: &str) -> Option<IpAddr> {
        self.network()?.address(server)
    }

    /// Replaces `{address.NAME}` in a text, such as the URL of a store, with the addresses of servers.
    #[must_use]
    pub fn with_addresses(&self, study: &Study, text: &str) -> String {
        study.servers.keys().fold(text.to_owned(), |text, name| {
            let address = self.address(name).unwrap_or(Ipv4Addr::LOCALHOST.into());
            text.replace(&format!("{{address.{name}}}"), &address.to_string())
        })
    }

    /// A prefix for the command of a server that runs it in its namespace; empty if it has none.
    pub(super) fn enter(&self, server: &str) -> String {
        self.network().and_then(|network| network.enter_command(server)).unwrap_or_default()
    }

    /// Partitions the servers, or heals the network for `None`.
    pub(super) fn partition(&self, fault: Option<&Fault>) -> Result<(), StoreError> {
        let none = || StoreError::NotSupported("no server has its own network namespace".to_owned());
        let mut network = self.network().ok_or_else(none)?;
        let done = match fault {
            None => network.heal(),
            Some(fault) => network.partition(&match &fault.groups[..] {
                [from, to] if fault.one_way => Partition::OneWay { from: from.clone(), to: to.clone() },
                groups => Partition::Groups {
                    groups: groups.to_vec(),
                    client_sees: match fault.clients_reach {
                        None | Some(ClientsReach::All) => ClientSees::All,
                        Some(ClientsReach::First) => ClientSees::Group(0),
                        Some(ClientsReach::None) => ClientSees::Nobody,
                    },
                },
            }),
        };
        done.map_err(|problem| StoreError::Failed(problem.to_string()))
    }

    /// Adds a link to the store with this URL. Returns the URL that uses the link.
    ///
    /// # Errors
    /// Fails if the URL names no host or several, or if its host cannot be resolved.
    pub fn with_client(&self, url: &str) -> Result<(Self, String), StoreError> {
        let refused =
            |why: String| StoreError::NotSupported(format!("{url}: cannot create a link to the store: {why}"));
        let authority = authority_of(url).filter(|authority| !authority.is_empty()).ok_or_else(|| {
            refused("it is not reached over a network; only the link to a server can be broken".into())
        })?;
        if authority.contains(',') {
            return Err(refused("the URL names several hosts; define links between them and name those".into()));
        }
        let port = port_of(url).ok_or_else(|| refused("the URL has no port; add one".into()))?;
        let with_port = match authority.rsplit_once(':') {
            Some((_, last)) if last.parse::<u16>().is_ok() => authority.to_owned(),
            _ => format!("{authority}:{port}"),
        };
        let to = address(&with_port).map_err(refused)?;
        let link = Link::begin(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), to).map_err(|e| refused(e.to_string()))?;
        // The scheme or the user may have the same name as the host.
        let at = authority.as_ptr() as usize - url.as_ptr() as usize;
        let over = format!("{}{}{}", &url[..at], link.address(), &url[at + authority.len()..]);
        let client = Some(Arc::new(ClientLink { link, of_url: authority.to_owned() }));
        Ok((Self { client, ..self.clone() }, over))
    }

    /// Replaces the link's address in a text with the store's own.
    pub(super) fn shown(&self, text: &str) -> String {
        self.client
            .as_ref()
            .map_or_else(|| text.to_owned(), |client| text.replace(&client.link.address().to_string(), &client.of_url))
    }

    fn link_of(&self, fault: &Fault) -> Result<&Link, StoreError> {
        let none = || StoreError::NotSupported("there is no link to break".to_owned());
        match &fault.link {
            Some(name) => self.named.get(name).ok_or_else(none),
            None => self.client.as_ref().map(|client| &client.link).ok_or_else(none),
        }
    }

    /// Puts a link into the state that a fault describes.
    pub(super) fn worsen(&self, study: &Study, fault: &Fault) -> Result<(), StoreError> {
        let half_open = |way: Lost| fault.half_open == Some(way) || fault.half_open == Some(Lost::Both);
        let one_way = |half_open: bool, trip: std::time::Duration| OneWay {
            latency: trip,
            jitter: fault.jitter.unwrap_or_default().0,
            bandwidth: fault.bandwidth.and_then(|ByteSize(bytes)| NonZeroU64::new(bytes)),
            half_open,
        };
        let trip = LinkState::round_trip(fault.latency.unwrap_or_default().0);
        let state = LinkState {
            to_server: one_way(half_open(Lost::ToServer), trip.to_server.latency),
            to_client: one_way(half_open(Lost::ToClient), trip.to_client.latency),
            stall: fault.stall,
            refuse: fault.refuse,
            seed: study.seed,
        };
        self.set(fault, state)
    }

    /// Restores the link of a fault.
    pub(super) fn mend(&self, fault: &Fault) -> Result<(), StoreError> {
        self.set(fault, LinkState::default())
    }

    fn set(&self, fault: &Fault, state: LinkState) -> Result<(), StoreError> {
        self.link_of(fault)?.set(state).map_err(|error| StoreError::Failed(error.to_string()))
    }

    /// Resets all connections of a link. Returns their number.
    pub(super) fn reset(&self, fault: &Fault) -> Result<usize, StoreError> {
        Ok(self.link_of(fault)?.reset())
    }
}

/// The first address of `host:port`.
fn address(place: &str) -> Result<SocketAddr, String> {
    let mut found = place.to_socket_addrs().map_err(|error| format!("cannot resolve `{place}`: {error}"))?;
    found.next().ok_or_else(|| format!("cannot resolve `{place}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_goes_over_its_link_and_is_shown_as_it_was() {
        let links = Links::default();
        let (links, over) = links.with_client("redis://me:secret@127.0.0.1:7000/3?batch=2").unwrap();
        let at = links.link_of(&Fault::default()).unwrap().address();
        assert_eq!(over, format!("redis://me:secret@{at}/3?batch=2"));
        assert_eq!(links.shown(&over), "redis://me:secret@127.0.0.1:7000/3?batch=2");
        let (links, over) = Links::default().with_client("couchdb://localhost").unwrap();
        assert_eq!(links.link_of(&Fault::default()).unwrap().to().port(), 5984);
        assert_eq!(links.shown(&over), "couchdb://localhost");
        let (links, over) = Links::default().with_client("postgres://localhost:pass@localhost/localhost").unwrap();
        let at = links.link_of(&Fault::default()).unwrap().address();
        assert_eq!(over, format!("postgres://localhost:pass@{at}/localhost"));
    }

    #[test]
    fn what_has_no_link_is_refused() {
        for url in ["sqlite:a.db", "memory:", "mongodb://a:1,b:2/x", "redis:///1"] {
            let refused = Links::default().with_client(url).unwrap_err().to_string();
            assert!(refused.contains("a link to the store"), "{refused}");
        }
    }
}
