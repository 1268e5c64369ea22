//! Parses `cassandra://` URLs.

use std::fmt;

use scylla::frame::types::{Consistency, SerialConsistency};
use storebench_engine::store::StoreError;

use super::SCHEME;
use crate::net::Address;
use crate::registry::Options;

/// The port of the native protocol, with and without TLS.
const PORT: u16 = 9042;
/// The server's limit for names of keyspaces and tables.
const LONGEST_NAME: usize = 48;

/// The contents of a URL.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) address: Address,
    pub(super) keyspace: String,
    pub(super) replication: Replication,
    /// The data centre whose replicas acknowledge, if not those of all of them.
    pub(super) datacenter: Option<String>,
    /// Whether upserts are lightweight transactions too.
    pub(super) all_lwt: bool,
}

/// How many replicas a keyspace gets that Storebench creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Replication {
    /// In the cluster.
    Simple(u32),
    /// In each of these data centres.
    PerDatacenter(Vec<(String, u32)>),
}

impl Settings {
    pub(super) fn read(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let tls = url.split_once("://").is_some_and(|(scheme, _)| scheme == "cassandras");
        let address = Address::parse(url, SCHEME.example, PORT, tls, options)?;
        let bad = |what: &str| StoreError::BadUrl(format!("{what}; write it like {}", SCHEME.example));
        if !address.path.is_empty() {
            return Err(bad("a Cassandra URL has no path; name the keyspace with ?keyspace="));
        }
        if address.user.is_some() && address.password.is_none() {
            return Err(bad("a user needs a password (in the URL, STOREBENCH_PASSWORD or password_file=)"));
        }
        if address.tls.as_ref().is_some_and(|tls| tls.name.is_some()) {
            return Err(StoreError::BadUrl(
                "tls_name: the client checks a node's certificate against the node's IP address; leave it out".into(),
            ));
        }
        let keyspace = options.take("keyspace").unwrap_or("storebench").to_owned();
        if !is_name(&keyspace) {
            return Err(StoreError::BadUrl(format!("invalid keyspace={keyspace}; {NAMES}")));
        }
        let replication = options.take("replication").map(Replication::read).transpose()?;
        let all_lwt = options.choice("writes", &["plain", "lwt"])? == Some(1);
        Ok(Self {
            address,
            keyspace,
            replication: replication.unwrap_or(Replication::Simple(1)),
            datacenter: options.take("datacenter").map(str::to_owned),
            all_lwt,
        })
    }

    /// User and password, if the server wants them.
    pub(super) fn credentials(&self) -> Option<(&str, &str)> {
        Some((self.address.user.as_deref()?, self.address.password.as_ref()?.expose()))
    }

    /// The level of this name, within the data centre if one is named.
    pub(super) fn level(&self, level: Level) -> Consistency {
        match (level, self.datacenter.is_some()) {
            (Level::One, false) => Consistency::One,
            (Level::One, true) => Consistency::LocalOne,
            (Level::Quorum, false) => Consistency::Quorum,
            (Level::Quorum, true) => Consistency::LocalQuorum,
            (Level::All, _) => Consistency::All,
        }
    }

    /// The level of the rounds of a lightweight transaction.
    pub(super) fn serial(&self) -> SerialConsistency {
        if self.datacenter.is_some() { SerialConsistency::LocalSerial } else { SerialConsistency::Serial }
    }
}

/// How many replicas answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    One,
    Quorum,
    All,
}

impl Replication {
    /// Reads `3`, or `dc1:3,dc2:2`.
    fn read(text: &str) -> Result<Self, StoreError> {
        let copies = |text: &str| text.parse::<u32>().ok().filter(|copies| *copies > 0);
        let of_one = |part: &str| {
            let (name, number) = part.split_once(':')?;
            let plain = !name.is_empty() && !name.contains('\'');
            copies(number).filter(|_| plain).map(|number| (name.to_owned(), number))
        };
        let found = match copies(text) {
            Some(copies) => Some(Self::Simple(copies)),
            None => text.split(',').map(of_one).collect::<Option<Vec<_>>>().map(Self::PerDatacenter),
        };
        found.ok_or_else(|| {
            StoreError::BadUrl(format!(
                "invalid replication={text}; expected a number of replicas, or one for each data centre, such as \
                 replication=3 or replication=dc1:3,dc2:2"
            ))
        })
    }
}

impl Replication {
    /// The replicas in each data centre; without a name for all of them.
    pub(super) fn per_datacenter(&self) -> Vec<(Option<String>, u32)> {
        match self {
            Self::Simple(copies) => vec![(None, *copies)],
            Self::PerDatacenter(all) => all.iter().map(|(name, copies)| (Some(name.clone()), *copies)).collect(),
        }
    }
}

impl fmt::Display for Replication {
    /// As `CREATE KEYSPACE` wants it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(copies) => write!(f, "{{'class': 'SimpleStrategy', 'replication_factor': {copies}}}"),
            Self::PerDatacenter(all) => {
                f.write_str("{'class': 'NetworkTopologyStrategy'")?;
                all.iter().try_for_each(|(name, copies)| write!(f, ", '{name}': {copies}"))?;
                f.write_str("}")
            }
        }
    }
}

/// What names of keyspaces and tables look like.
pub(super) const NAMES: &str = "use at most 48 letters, digits and `_`, beginning with a letter or a digit";

/// Whether a keyspace or a table may have this name.
pub(super) fn is_name(name: &str) -> bool {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    letters && name.len() <= LONGEST_NAME && name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
}

/// A name as CQL text that keeps its case.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Settings, StoreError> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        Settings::read(url, &mut Options::for_test(query))
    }

    #[test]
    fn replicas_of_the_cluster_or_of_each_data_centre() {
        let shown = |text| Replication::read(text).map(|replication| replication.to_string());
        assert_eq!(shown("3").unwrap(), "{'class': 'SimpleStrategy', 'replication_factor': 3}");
        assert_eq!(shown("a:3,b-c:1").unwrap(), "{'class': 'NetworkTopologyStrategy', 'a': 3, 'b-c': 1}");
        for wrong in ["", "0", "x", "a:0", "a:1,", "a'b:1", ":1", "-1"] {
            assert!(matches!(shown(wrong), Err(StoreError::BadUrl(_))), "{wrong}");
        }
    }

    #[test]
    fn levels_stay_within_a_named_data_centre() {
        let near = read("cassandra://h?datacenter=a").unwrap();
        let all = read("scylladb://h:1,[::1]:2").unwrap();
        let levels = |of: &Settings| [Level::One, Level::Quorum, Level::All].map(|level| of.level(level));
        assert_eq!(levels(&near), [Consistency::LocalOne, Consistency::LocalQuorum, Consistency::All]);
        assert_eq!(levels(&all), [Consistency::One, Consistency::Quorum, Consistency::All]);
        assert_eq!((near.serial(), all.serial()), (SerialConsistency::LocalSerial, SerialConsistency::Serial));
    }

    #[test]
    fn what_is_wrong_is_named_without_the_password() {
        for url in [
            "cassandra://h/k",
            "cassandra://u:secret@h?keyspace=a-b",
            "cassandra://u:secret@h?writes=some",
            "cassandras://u:secret@h?tls_name=x",
            "cassandra://u:secret@h?tls_ca=x",
        ] {
            let error = read(url).unwrap_err();
            assert!(matches!(error, StoreError::BadUrl(_)) && !error.to_string().contains("secret"), "{error}");
        }
    }
}
