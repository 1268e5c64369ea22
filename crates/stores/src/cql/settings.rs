//! Parses `cassandra://` URLs.

use std::borrow::Cow;

use scylla::frame::types::{Consistency, SerialConsistency};
use storebench_engine::store::StoreError;
use xxhash_rust::xxh3::xxh3_64;

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
    /// Of a keyspace that Storebench creates.
    pub(super) replication: Replication,
    /// The data centre whose replicas acknowledge, if not those of all of them.
    pub(super) datacenter: Option<String>,
    /// Whether upserts are lightweight transactions too.
    pub(super) all_lwt: bool,
}

/// How many replicas a keyspace has in each data centre; without a name in all of them.
pub(super) type Replication = Vec<(Option<String>, u32)>;

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
            return Err(bad("leave out tls_name=, because the client checks the IP address of each node"));
        }
        let keyspace = options.take("keyspace").unwrap_or("storebench").to_owned();
        if !is_name(&keyspace) {
            return Err(StoreError::BadUrl(format!("invalid keyspace={keyspace}; {NAMES}")));
        }
        let replication = read_replication(options.take("replication").unwrap_or("1"))?;
        let datacenter = options.take("datacenter").map(str::to_owned);
        let all_lwt = options.choice("writes", &["plain", "lwt"])? == Some(1);
        Ok(Self { address, keyspace, replication, datacenter, all_lwt })
    }

    /// A level, within the data centre if one is named.
    pub(super) fn level(&self, level: Consistency) -> Consistency {
        match level {
            Consistency::One if self.datacenter.is_some() => Consistency::LocalOne,
            Consistency::Quorum if self.datacenter.is_some() => Consistency::LocalQuorum,
            level => level,
        }
    }

    /// The level of a read that sees every lightweight transaction that was decided.
    pub(super) fn serial_reads(&self) -> Consistency {
        if self.datacenter.is_some() { Consistency::LocalSerial } else { Consistency::Serial }
    }

    /// The level of the rounds of a lightweight transaction.
    pub(super) fn serial(&self) -> SerialConsistency {
        if self.datacenter.is_some() { SerialConsistency::LocalSerial } else { SerialConsistency::Serial }
    }
}

/// Reads `3`, or `dc1:3,dc2:2`.
fn read_replication(text: &str) -> Result<Replication, StoreError> {
    let of_one = |part: &str| {
        let (name, number) = part.split_once(':').map_or((None, part), |(name, number)| (Some(name), number));
        let valid = name.is_none_or(|name| !name.is_empty() && !name.contains('\''));
        number.parse().ok().filter(|copies| *copies > 0 && valid).map(|copies| (name.map(str::to_owned), copies))
    };
    let all: Option<Replication> = text.split(',').map(of_one).collect();
    all.filter(|all| all.len() == 1 || all.iter().all(|(name, _)| name.is_some())).ok_or_else(|| {
        StoreError::BadUrl(format!(
            "invalid replication={text}; expected a number of replicas, or one for each data centre, such as \
             replication=3 or replication=dc1:3,dc2:2"
        ))
    })
}

/// Replicas as `CREATE KEYSPACE` wants them.
pub(super) fn replication_cql(all: &Replication) -> String {
    let simple = all.iter().all(|(name, _)| name.is_none());
    let strategy = if simple { "SimpleStrategy" } else { "NetworkTopologyStrategy" };
    let copies = all.iter().map(|(name, copies)| {
        let name = name.as_deref().unwrap_or("replication_factor");
        format!(", '{name}': {copies}")
    });
    format!("{{'class': '{strategy}'{}}}", copies.collect::<String>())
}

/// What names of keyspaces look like.
const NAMES: &str = "use at most 48 letters, digits and `_`, beginning with a letter or a digit";

/// Whether a keyspace or a table may have this name.
pub(super) fn is_name(name: &str) -> bool {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    letters && name.len() <= LONGEST_NAME && name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
}

/// The table of a collection. If its name is not one of a table, such as `users-books`, a hash tells it from others. So
/// is a name that ends like such a table's: no two collections have one table.
pub(super) fn table_name(collection: &str) -> Cow<'_, str> {
    let hashed = |(_, end): (&str, &str)| end.len() == 16 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_name(collection) && !collection.rsplit_once('_').is_some_and(hashed) {
        return Cow::Borrowed(collection);
    }
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let begin: String = collection.chars().map(plain).take(LONGEST_NAME - 17).collect();
    Cow::Owned(format!("{begin}_{:016x}", xxh3_64(collection.as_bytes())))
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
        let shown = |text| read_replication(text).map(|replication| replication_cql(&replication));
        assert_eq!(shown("3").unwrap(), "{'class': 'SimpleStrategy', 'replication_factor': 3}");
        assert_eq!(shown("a:3,b-c:1").unwrap(), "{'class': 'NetworkTopologyStrategy', 'a': 3, 'b-c': 1}");
        for wrong in ["", "0", "x", "a:0", "a:1,", "a'b:1", ":1", "-1"] {
            assert!(matches!(shown(wrong), Err(StoreError::BadUrl(_))), "{wrong}");
        }
    }

    #[test]
    fn every_collection_has_a_table() {
        assert_eq!(table_name("users_books"), "users_books");
        let hashed = table_name("users-books");
        let others = ["users-books", "users.books", &*hashed, &"a".repeat(60), &"a".repeat(61)];
        let others = others.map(|name| table_name(name).into_owned());
        assert!(others[0].starts_with("users_books_") && others.iter().all(|name| is_name(name)), "{others:?}");
        assert!(others.iter().enumerate().all(|(n, name)| !others[..n].contains(name)), "{others:?}");
        assert!(!is_name(&table_name("-a")));
    }

    #[test]
    fn levels_stay_within_a_named_data_centre() {
        let near = read("cassandra://h?datacenter=a").unwrap();
        let all = read("scylladb://h:1,[::1]:2").unwrap();
        let levels =
            |of: &Settings| [Consistency::One, Consistency::Quorum, Consistency::All].map(|level| of.level(level));
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
