//! The host and the port of a store, from its URL.

/// The hosts and ports of a URL, unchanged. `None` if the URL has no place for them.
pub fn authority_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split(['/', '?']).next()?.rsplit('@').next()
}

/// The first host of a URL. `None` if the URL has no place for hosts.
pub fn host_of(url: &str) -> Option<&str> {
    let host = authority_of(url)?.split(',').next()?;
    match host.strip_prefix('[') {
        Some(six) => six.split(']').next(),
        None => host.split(':').next(),
    }
}

/// Default ports by scheme.
const PORTS: [(&str, u16); 11] = [
    ("postgres", 5432),
    ("postgresql", 5432),
    ("redis", 6379),
    ("memcached", 11211),
    ("mongodb", 27017),
    ("couchdb", 5984),
    ("ravendb", 8080),
    ("dynamodb", 8000),
    ("dynamodbs", 443),
    ("opensearch", 9200),
    ("elasticsearch", 9200),
];

/// The port of the first host of a URL, or the default of its scheme. `None` if neither is known. Decorators before the
/// scheme are ignored.
pub fn port_of(url: &str) -> Option<u16> {
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

/// Whether the host name of a URL denotes this machine.
pub fn is_loopback(url: &str) -> bool {
    let local = |name: &str| matches!(name, "localhost" | "::1" | "0.0.0.0" | "") || name.starts_with("127.");
    host_of(url).is_some_and(local)
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
            ("dynamodb://h", Some(8000)),
            ("dynamodbs://h", Some(443)),
            ("couchbase://h/b", None),
            ("sqlite:b.db", None),
        ] {
            assert_eq!(port_of(url), port, "{url}");
        }
    }
}
