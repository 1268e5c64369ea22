//! The settings of a `redis:` URL.

use storebench_engine::store::StoreError;

use super::SCHEME;
use crate::net::{Address, Host, key_prefix, read_host};
use crate::registry::Options;

/// The settings of a URL.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) address: Address,
    /// The number of the database.
    pub(super) database: u32,
    /// The prefix of all of Storebench's keys.
    pub(super) prefix: String,
    /// Whether each collection has a sorted set of its keys.
    pub(super) ordered: bool,
    pub(super) cluster: ClusterChoice,
    /// The replica that answers reads that may be stale.
    pub(super) replica: Option<Host>,
}

/// Whether to treat the server as a node of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClusterChoice {
    /// As the server reports.
    Auto,
    /// It must be one.
    Yes,
    /// Talk only to this node.
    No,
}

impl Settings {
    /// Reads the URL after its colon, and takes the options.
    pub(super) fn read(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let bad = |what: String| StoreError::BadUrl(what);
        let address = Address::parse(url, SCHEME.example, 6_379, url.starts_with("rediss:"), options)?;
        let database = match address.path.as_slice() {
            [] => 0,
            [number] => number.parse().map_err(|_| {
                bad(format!(
                    "invalid database `/{number}`: Redis numbers them from 0; write it like {}/0",
                    SCHEME.example
                ))
            })?,
            _ => return Err(bad(format!("only a database number may follow the host, as in {}/0", SCHEME.example))),
        };
        let prefix = key_prefix(options, 64)?;
        let words = ["auto", "yes", "no"];
        let cluster = [ClusterChoice::Auto, ClusterChoice::Yes, ClusterChoice::No]
            [options.choice("cluster", &words)?.unwrap_or(0)];
        let ordered = options.choice("ordered", &["no", "yes"])? == Some(1);
        if address.hosts.len() > 1 && cluster == ClusterChoice::No {
            return Err(bad("several hosts require a cluster; name only one, or remove cluster=no".into()));
        }
        if cluster == ClusterChoice::Yes && database != 0 {
            return Err(bad(format!("a cluster has only database 0; remove `/{database}`")));
        }
        if cluster == ClusterChoice::Yes && ordered {
            return Err(ordered_cluster());
        }
        let replica = options.take("replica").map(|host| read_host(host, 6_379)).transpose();
        let replica =
            replica.map_err(|what| bad(format!("invalid `replica=`: {what}; write it like 127.0.0.1:6380")))?;
        if replica.is_some() && cluster == ClusterChoice::Yes {
            return Err(bad("`replica` names one server, and a cluster has one for each primary; remove it".into()));
        }
        Ok(Self { address, database, prefix, ordered, cluster, replica })
    }
}

/// The error of `ordered=yes` with a cluster.
pub(super) fn ordered_cluster() -> StoreError {
    StoreError::BadUrl(
        "ordered=yes does not work with a cluster: a collection's sorted set would be on one node and its documents on \
         all; remove it, or use a server that is not a cluster"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Settings, StoreError> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        Settings::read(url, &mut Options::for_test(query))
    }

    #[test]
    fn the_database_and_the_options_are_read() {
        let s = read("rediss://u:p@h/3?prefix=a.b&ordered=yes").unwrap();
        assert_eq!((s.database, s.prefix.as_str(), s.ordered, s.cluster), (3, "a.b", true, ClusterChoice::Auto));
        assert!(s.address.tls.is_some() && s.replica.is_none());
        let replica = read("redis://h?replica=10.0.0.2").unwrap().replica.unwrap();
        assert_eq!((replica.name.as_str(), replica.port), ("10.0.0.2", 6_379));
        let s = read("redis://a,b:7000").unwrap();
        assert_eq!((s.database, s.prefix.as_str(), s.ordered), (0, "storebench", false));
    }

    #[test]
    fn what_cannot_be_is_a_bad_url() {
        for url in [
            "redis://h/x",
            "redis://h/-1",
            "redis://h/0/1",
            "redis://h?prefix=",
            "redis://h?prefix=a:b",
            "redis://h?prefix=a*",
            "redis://h?cluster=maybe",
            "redis://h?ordered=1",
            "redis://a,b?cluster=no",
            "redis://h/1?cluster=yes",
            "redis://h?cluster=yes&ordered=yes",
            "redis://h?cluster=yes&replica=h:6380",
            "redis://h?replica=h:x",
        ] {
            assert!(matches!(read(url), Err(StoreError::BadUrl(_))), "{url}");
        }
    }
}
