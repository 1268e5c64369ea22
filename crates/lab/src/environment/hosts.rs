//! Whether a store is on this machine, by the host of its URL.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

/// The hosts of a URL with their ports, as they stand in it; none where it has no place for them.
pub(crate) fn authority_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split(['/', '?']).next()?.rsplit('@').next()
}

/// The first host of a URL; none where it names none.
pub(crate) fn host_of(url: &str) -> Option<&str> {
    let host = authority_of(url)?.split(',').next()?;
    match host.strip_prefix('[') {
        Some(six) => six.split(']').next(),
        None => host.split(':').next(),
    }
}

/// Ports of URLs that name none, by scheme.
const PORTS: [(&str, u16); 7] = [
    ("postgres", 5432),
    ("postgresql", 5432),
    ("redis", 6379),
    ("memcached", 11211),
    ("mongodb", 27017),
    ("couchdb", 5984),
    ("ravendb", 8080),
];

/// The port of the first host of a URL, or what its scheme has in place of one; none where neither is known. Decorators before
/// the scheme are passed over.
pub(crate) fn port_of(url: &str) -> Option<u16> {
    let scheme = url.split_once("://")?.0;
    let first = authority_of(url)?.split(',').next()?;
    let behind = first.rsplit_once(']').map_or(first, |(_, behind)| behind);
    match behind.rsplit_once(':') {
        Some((_, port)) => port.parse().ok(),
        None => {
            let scheme = scheme.rsplit('+').next()?;
            PORTS.iter().find(|(name, _)| *name == scheme).map(|(_, port)| *port)
        }
    }
}

/// Whether a URL says by its host's name that it is of this machine.
pub(crate) fn is_loopback(url: &str) -> bool {
    let local = |name: &str| matches!(name, "localhost" | "::1" | "0.0.0.0" | "") || name.starts_with("127.");
    host_of(url).is_some_and(local)
}

/// Whether the host of a URL is this machine by its addresses. None for a URL without a host, and for a name that has no
/// address here.
pub(crate) fn is_here(url: &str) -> Option<bool> {
    let host = host_of(url)?;
    if is_loopback(url) {
        return Some(true);
    }
    let addresses: Vec<IpAddr> = (host, 0).to_socket_addrs().ok()?.map(|address| address.ip()).collect();
    // Only an address of this machine can be bound.
    (!addresses.is_empty()).then(|| addresses.iter().any(|address| UdpSocket::bind((*address, 0)).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_urls_of_every_form() {
        for (url, host) in [
            ("a://me:x@h:80/b", Some("h")),
            ("a://h,i:80/b", Some("h")),
            ("a://[::1]:80/b", Some("::1")),
            ("a:///b", Some("")),
            ("sqlite:b.db", None),
        ] {
            assert_eq!(host_of(url), host, "{url}");
        }
    }

    #[test]
    fn ports_are_found_or_are_those_of_the_scheme() {
        for (url, port) in [
            ("redis://me:x@h:80/b", Some(80)),
            ("mongodb://h:81,i:82/b", Some(81)),
            ("couchdb://[::1]:80/b", Some(80)),
            ("couchdb://[::1]/b", Some(5984)),
            ("slow+postgres://h/b", Some(5432)),
            ("couchbase://h/b", None),
            ("sqlite:b.db", None),
        ] {
            assert_eq!(port_of(url), port, "{url}");
        }
    }

    #[test]
    fn an_address_is_here_if_it_can_be_bound() {
        assert_eq!(is_here("a://127.0.0.1:1/b"), Some(true));
        assert_eq!(is_here("a://localhost/b"), Some(true));
        // An address for documentation, which no machine has.
        assert_eq!(is_here("a://203.0.113.7/b"), Some(false));
        assert_eq!(is_here("a://no-such-host.invalid/b"), None);
        assert_eq!(is_here("memory:"), None);
    }
}
