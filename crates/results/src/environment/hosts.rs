//! What the URL of a store says of its connections: host, port, encryption.

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

/// Default ports by scheme. One with a further `s` is over TLS, at the same port unless it is here.
const PORTS: [(&str, u16); 19] = [
    ("postgres", 5432),
    ("postgresql", 5432),
    ("mysql", 3306),
    ("mariadb", 3306),
    ("redis", 6379),
    ("memcached", 11_211),
    ("mongodb", 27_017),
    ("couchbase", 11_210),
    ("couchbases", 11_207),
    ("couchdb", 5984),
    ("couchdbs", 6984),
    ("ravendb", 8080),
    ("dynamodb", 8000),
    ("dynamodbs", 443),
    ("opensearch", 9200),
    ("elasticsearch", 9200),
    ("cassandra", 9042),
    ("scylladb", 9042),
    ("cql", 9042),
];

fn default_port(scheme: &str) -> Option<u16> {
    PORTS.iter().find(|(name, _)| *name == scheme).map(|(_, port)| *port)
}

/// The port of the first host of a URL, or the default of its scheme. `None` if neither is known. Decorators before the
/// scheme are ignored.
pub fn port_of(url: &str) -> Option<u16> {
    let scheme = url.split_once("://")?.0;
    let first = authority_of(url)?.split(',').next()?;
    let behind = first.rsplit_once(']').map_or(first, |(_, behind)| behind);
    match behind.rsplit_once(':') {
        Some((_, port)) => port.parse().ok(),
        None => {
            let scheme = scheme.strip_suffix("+tls").unwrap_or(scheme).rsplit('+').next()?;
            default_port(scheme).or_else(|| default_port(scheme.strip_suffix('s')?))
        }
    }
}

/// Whether the connections of a URL are encrypted: by its options (`tls=true`, `tls_ca=…`), or else by its scheme.
pub fn is_encrypted(url: &str) -> bool {
    let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
    let scheme = scheme.rsplit('+').next().unwrap_or_default();
    let options = || rest.split_once('?').map_or("", |(_, options)| options).split('&');
    match options().find_map(|option| option.strip_prefix("tls=")) {
        Some(asked) => asked != "false",
        None => {
            let by_scheme =
                matches!(scheme, "tls" | "srv") || scheme.strip_suffix('s').and_then(default_port).is_some();
            by_scheme || options().any(|option| option.starts_with("tls_"))
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
            ("postgres+tls://h/b", Some(5432)),
            ("rediss://h", Some(6379)),
            ("mongodb+srv://h", None),
            ("sqlite:b.db", None),
        ] {
            assert_eq!(port_of(url), port, "{url}");
        }
    }

    #[test]
    fn encryption_is_found_in_the_scheme_or_in_options() {
        for (url, expected) in [
            ("redis://h/1", false),
            ("rediss://h/1", true),
            ("cassandras://h", true),
            ("postgres+tls://h/x", true),
            ("slow+postgres://h/x", false),
            ("mongodb://h/x?tls=true&a=b", true),
            ("dynamodbs://h", true),
            ("mongodb://h/x?tls=false", false),
            ("mongodb+srv://h/x", true),
            ("mongodb+srv://h/x?tls=false", false),
            ("mongodb://h/x?tls_ca=ca.pem", true),
            ("sqlite:x.db", false),
        ] {
            assert_eq!(is_encrypted(url), expected, "{url}");
        }
    }
}
