//! Parses `mongodb://` URLs.

use std::sync::Mutex;

use storebench_engine::store::StoreError;

use super::auth::{Login, Mechanism};
use super::finder::Finder;
use crate::net::{Address, with_net_options};
use crate::registry::{OptionHelp, Options, Scheme};

pub(crate) const SCHEME: Scheme = Scheme {
    name: "mongodb",
    what: "MongoDB and servers that speak its protocol: the URL's path names the database; one MongoDB collection per \
           collection",
    example: "mongodb://127.0.0.1:27017/storebench",
    options: with_net_options![
        OptionHelp { name: "replicaSet", meaning: "name that the replica set must have" },
        OptionHelp {
            name: "directConnection",
            meaning: "true: use only this host, whatever its role in a replica set (default false)"
        },
        OptionHelp {
            name: "authSource",
            meaning: "database that authenticates the user (default: the URL's, else admin)"
        },
        OptionHelp { name: "authMechanism", meaning: "SCRAM-SHA-256 (default) or MONGODB-X509" },
        OptionHelp { name: "tls", meaning: "true: encrypt (default for mongodb+srv and with any tls_… option)" },
        OptionHelp {
            name: "readConcernLevel",
            meaning: "read concern of every read: local (default), majority, linearizable or available",
        },
        OptionHelp { name: "appName", meaning: "name in the server's log (default storebench)" },
        OptionHelp {
            name: "retryWrites",
            meaning: "only false is accepted: Storebench makes and counts all tries itself"
        },
    ],
    decorator: false,
    aliases: &["mongodb+srv"],
};

const LEVELS: [&str; 4] = ["local", "majority", "linearizable", "available"];

/// A parsed URL.
#[derive(Debug)]
pub(super) struct Target {
    /// The URL without the password.
    pub(super) shown: String,
    pub(super) database: String,
    pub(super) read_concern: Option<&'static str>,
    pub(super) finder: Finder,
}

/// Parses the URL, without connecting.
///
/// # Errors
/// `BadUrl`, with what is wrong.
pub(super) fn read(url: &str, options: &mut Options<'_>) -> Result<Target, StoreError> {
    let srv = url.starts_with("mongodb+srv:");
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let hinted = query.split('&').any(|option| option.starts_with("tls_"));
    let tls = options.choice("tls", &["false", "true"])?.map_or(srv || hinted, |chosen| chosen == 1);
    let address = Address::parse(url, SCHEME.example, 27017, tls, options)?;
    let bad = |text: String| StoreError::BadUrl(text);
    let database = match address.path.as_slice() {
        [] => "storebench".to_owned(),
        [one] => one.clone(),
        more => {
            return Err(bad(format!(
                "invalid database name `{}`; write one part after the host, as in {}",
                more.join("/"),
                SCHEME.example
            )));
        }
    };
    // https://www.mongodb.com/docs/manual/reference/limits/#std-label-restrictions-on-db-names
    if database.len() > 63 || database.contains(|c: char| "/\\. \"$*<>:|?\0".contains(c)) {
        return Err(bad(format!(
            "invalid database name `{database}`: MongoDB allows at most 63 bytes, and none of / \\ . space \" $ * < > : | ?"
        )));
    }
    if ["admin", "config", "local"].contains(&database.as_str()) {
        return Err(bad(format!("MongoDB reserves the database `{database}`; name another one")));
    }
    let mechanism = options.choice("authMechanism", &["SCRAM-SHA-256", "MONGODB-X509"])?;
    let source = options.take("authSource");
    let login = match (mechanism, address.user, address.password) {
        (Some(1), user, _) => Some(Login {
            mechanism: Mechanism::X509,
            user: user.unwrap_or_else(|| "the certificate's subject".into()),
            password: crate::net::Secret::new(""),
            source: "$external".into(),
            salted: Mutex::default(),
        }),
        (_, Some(user), Some(password)) => {
            let default = if address.path.is_empty() { "admin" } else { &database };
            let source = source.unwrap_or(default).to_owned();
            Some(Login { mechanism: Mechanism::Scram, user, password, source, salted: Mutex::default() })
        }
        (_, Some(user), None) => {
            return Err(bad(format!(
                "`{user}` has no password; set STOREBENCH_PASSWORD, or add password_env=VARIABLE or password_file=FILE"
            )));
        }
        (_, None, _) if source.is_some() || mechanism.is_some() => {
            return Err(
                bad("authSource and authMechanism need a user, but the URL names none; write user@host".into()),
            );
        }
        (_, None, _) => None,
    };
    if let Some(login) = &login
        && login.mechanism == Mechanism::X509
        && address.tls.as_ref().is_none_or(|tls| tls.client.is_none())
    {
        return Err(bad("MONGODB-X509 needs a client certificate; set tls_cert=FILE and tls_key=FILE".into()));
    }
    let direct = options.choice("directConnection", &["false", "true"])? == Some(1);
    if direct && (address.hosts.len() > 1 || srv) {
        return Err(bad("directConnection=true needs exactly one host; leave it out, or name one host".into()));
    }
    if options.take("retryWrites").is_some_and(|value| value != "false") {
        return Err(bad(
            "Storebench makes and counts all tries itself; leave out retryWrites, or set retryWrites=false".into(),
        ));
    }
    let read_concern = options.choice("readConcernLevel", &LEVELS)?.map(|level| LEVELS[level]);
    Ok(Target {
        shown: address.shown,
        database,
        read_concern,
        finder: Finder {
            srv,
            hosts: address.hosts,
            resolved: Mutex::default(),
            tls: address.tls,
            login,
            replica_set: options.take("replicaSet").map(str::to_owned),
            direct,
            app_name: options.take("appName").unwrap_or("storebench").to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Target, StoreError> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        read(url, &mut Options::for_test(query))
    }

    #[test]
    fn parts_and_defaults() {
        let t = parse("mongodb://u:p%40w@a,b:27018?replicaSet=rs&readConcernLevel=majority").unwrap();
        assert_eq!((t.database.as_str(), t.read_concern), ("storebench", Some("majority")));
        assert_eq!(t.finder.login.as_ref().map(|l| (l.user.as_str(), l.source.as_str())), Some(("u", "admin")));
        assert_eq!(t.finder.hosts.len(), 2);
        assert!(t.finder.tls.is_none());
        assert!(!format!("{t:?}").contains("p@w"));
        let t = parse("mongodb+srv://u:p@cluster.example/books").unwrap();
        assert!(t.finder.srv && t.finder.tls.is_some());
        assert_eq!(t.finder.login.map(|l| l.source), Some("books".to_owned()));
        assert!(parse("mongodb://h/?tls_ca=/ca.pem").unwrap().finder.tls.is_some());
    }

    #[test]
    fn what_does_not_fit_is_named_without_the_password() {
        for (url, reason) in [
            ("mongodb://u@h/?password_env=STOREBENCH_NO_SUCH", "STOREBENCH_NO_SUCH"),
            ("mongodb://u:hunter2@h/a/b", "invalid database name"),
            ("mongodb://u:hunter2@h/a.b", "MongoDB allows at most"),
            ("mongodb://u:hunter2@h/admin", "reserves the database"),
            ("mongodb://u:hunter2@h/?retryWrites=true", "retryWrites"),
            ("mongodb://u:hunter2@a,b/?directConnection=true", "one host"),
            ("mongodb://h/?authSource=admin", "names none"),
            ("mongodb://u@h/?authMechanism=MONGODB-X509", "tls_cert"),
            ("mongodb://u:hunter2@h/?tls=false&tls_ca=x", "does not encrypt"),
            ("mongodb://u:hunter2@h/?readConcernLevel=snapshot", "expected one of"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("hunter2"), "{url}: {error}");
        }
    }
}
