//! Links that a run has between this process and stores, and between servers, so that they can be broken.

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
    /// Those that the study names.
    named: Arc<IndexMap<String, Link>>,
    /// The network of the servers that have a namespace of their own.
    network: Option<Arc<Mutex<Network>>>,
}

/// A link between this process and a store.
#[derive(Debug)]
struct ClientLink {
    link: Link,
    /// Host and port of the store as its URL has them.
    of_url: String,
}

impl Links {
    /// The links that a study names, and the network of those of its servers that have a namespace. They exist as long as this
    /// does; `leases` names them meanwhile.
    ///
    /// # Errors
    /// Where a port is in use, a host has no address, or this machine lets nobody have such a network.
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
        let network = match nodes.is_empty() {
            true => None,
            false => {
                let made = Network::begin(leases, &nodes).map_err(|e| StoreError::NotSupported(e.to_string()))?;
                Some(Arc::new(Mutex::new(made)))
            }
        };
        Ok(Self { client: None, named: Arc::new(named), network })
    }

    fn network(&self) -> Option<MutexGuard<'_, Network>> {
        self.network.as_ref().map(|network| network.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The address of a server in its namespace; none of one that has none.
    pub fn address(&self, server: &str) -> Option<IpAddr> {
        self.network()?.address(server)
    }

    /// A text, such as the URL of a store, with the addresses of servers in place of `{address.NAME}`.
    #[must_use]
    pub fn with_addresses(&self, study: &Study, text: &str) -> String {
        study.servers.keys().fold(text.to_owned(), |text, name| {
            let address = self.address(name).unwrap_or(Ipv4Addr::LOCALHOST.into());
            text.replace(&format!("{{address.{name}}}"), &address.to_string())
        })
    }

    /// What the command of a server has to be preceded by, so that it runs in its namespace; nothing where it has none.
    pub(super) fn enter(&self, server: &str) -> String {
        self.network().and_then(|network| network.enter_command(server)).unwrap_or_default()
    }

    /// Has servers not reach each other, or all of them again.
    pub(super) fn partition(&self, fault: Option<&Fault>) -> Result<(), StoreError> {
        let none = || StoreError::NotSupported("no server has a network namespace of its own".to_owned());
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

    /// The same with a link to the store of this URL; gives the URL that goes over it.
    ///
    /// # Errors
    /// Where the URL names no host, or several, or its host has no address.
    pub fn with_client(&self, url: &str) -> Result<(Self, String), StoreError> {
        let refused = |why: String| StoreError::NotSupported(format!("{url}: a link to the store: {why}"));
        let authority = authority_of(url).filter(|authority| !authority.is_empty()).ok_or_else(|| {
            refused(
                "it is in this process or on this machine without a network; only the link to a server breaks".into(),
            )
        })?;
        if authority.contains(',') {
            return Err(refused("the URL names several hosts; put links between them and name those".into()));
        }
        let port = port_of(url).ok_or_else(|| refused("the URL names no port; add it".into()))?;
        let with_port = match authority.rsplit_once(':') {
            Some((_, last)) if last.parse::<u16>().is_ok() => authority.to_owned(),
            _ => format!("{authority}:{port}"),
        };
        let to = address(&with_port).map_err(refused)?;
        let link = Link::begin(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), to).map_err(|e| refused(e.to_string()))?;
        // A host may be called as its scheme is, or its user.
        let at = authority.as_ptr() as usize - url.as_ptr() as usize;
        let over = format!("{}{}{}", &url[..at], link.address(), &url[at + authority.len()..]);
        let client = Some(Arc::new(ClientLink { link, of_url: authority.to_owned() }));
        Ok((Self { client, ..self.clone() }, over))
    }

    /// A text in which the store's own place stands for that of the link.
    pub(super) fn shown(&self, text: &str) -> String {
        self.client
            .as_ref()
            .map_or_else(|| text.to_owned(), |client| text.replace(&client.link.address().to_string(), &client.of_url))
    }

    fn link_of(&self, fault: &Fault) -> Result<&Link, StoreError> {
        let none = || StoreError::NotSupported("there is no link that could be broken".to_owned());
        match &fault.link {
            Some(name) => self.named.get(name).ok_or_else(none),
            None => self.client.as_ref().map(|client| &client.link).ok_or_else(none),
        }
    }

    /// Has a link be as a fault says.
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

    /// Has the link of a fault be whole again.
    pub(super) fn mend(&self, fault: &Fault) -> Result<(), StoreError> {
        self.set(fault, LinkState::default())
    }

    fn set(&self, fault: &Fault, state: LinkState) -> Result<(), StoreError> {
        self.link_of(fault)?.set(state).map_err(|error| StoreError::Failed(error.to_string()))
    }

    /// Resets all connections of a link. Tells how many there were.
    pub(super) fn reset(&self, fault: &Fault) -> Result<usize, StoreError> {
        Ok(self.link_of(fault)?.reset())
    }
}

/// The first address of `host:port`.
fn address(place: &str) -> Result<SocketAddr, String> {
    let mut found = place.to_socket_addrs().map_err(|error| format!("`{place}` has no address: {error}"))?;
    found.next().ok_or_else(|| format!("`{place}` has no address"))
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
