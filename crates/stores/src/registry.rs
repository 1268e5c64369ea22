//! Opens stores by the scheme of their URL.
//!
//! A URL is `scheme:path?option=value&…`. A decorator precedes the scheme, as in
//! `slow+sqlite:documents.db?latency=1ms`. Store and decorators share the query: each takes the options it
//! knows, and leftover options are an error.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use storebench_engine::store::ordered_map::EmbeddedStore;
use storebench_engine::store::{AnyStore, Erased, Limit, MemoryStore, NullStore, Slow, SlowOptions, StoreError};
use storebench_study::units::{PerSecond, Span};

/// A kind of store, or a decorator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheme {
    /// The scheme that its URLs begin with.
    pub name: &'static str,
    /// Alternative schemes: the same store over TLS, or another way to find the hosts.
    pub aliases: &'static [&'static str],
    /// A one-line description.
    pub what: &'static str,
    /// A valid URL.
    pub example: &'static str,
    /// The options that may follow the `?`.
    pub options: &'static [OptionHelp],
    /// Whether it is a decorator: written before another URL, with a `+`.
    pub decorator: bool,
}

/// One option of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHelp {
    /// The name before the `=`.
    pub name: &'static str,
    /// What it does, and its default.
    pub meaning: &'static str,
}

static SCHEMES: &[Scheme] = &[
    #[cfg(feature = "sqlite")]
    crate::sqlite::SCHEME,
    #[cfg(feature = "fjall")]
    crate::fjall::SCHEME,
    #[cfg(feature = "redb")]
    crate::redb::SCHEME,
    #[cfg(feature = "couchdb")]
    crate::couchdb::SCHEME,
    #[cfg(feature = "postgres")]
    crate::postgres::SCHEME,
    #[cfg(feature = "mysql")]
    crate::mysql::SCHEME,
    #[cfg(feature = "redis")]
    crate::redis::SCHEME,
    #[cfg(feature = "memcached")]
    crate::memcached::SCHEME,
    #[cfg(feature = "mongodb")]
    crate::mongodb::SCHEME,
    #[cfg(feature = "couchbase")]
    crate::couchbase::SCHEME,
    #[cfg(feature = "ravendb")]
    crate::ravendb::SCHEME,
    #[cfg(feature = "dynamodb")]
    crate::dynamodb::SCHEME,
    #[cfg(feature = "opensearch")]
    crate::opensearch::SCHEME,
    #[cfg(feature = "cql")]
    crate::cql::SCHEME,
    Scheme {
        name: "memory",
        what: "Documents in the memory of the Storebench process; they are lost when it ends",
        example: "memory:",
        options: &[],
        decorator: false,
        aliases: &[],
    },
    Scheme {
        name: "null",
        what: "Does nothing and reports success; use it to measure Storebench itself",
        example: "null:",
        options: &[],
        decorator: false,
        aliases: &[],
    },
    #[cfg(feature = "hosted")]
    crate::hosted::SCHEME,
    Scheme {
        name: "slow",
        what: "Slows down another store: service time, concurrency, one stall",
        example: "slow+memory:?latency=1ms&concurrency=4",
        options: &[
            OptionHelp { name: "latency", meaning: "service time of an operation, such as 1ms (default 0s)" },
            OptionHelp {
                name: "jitter",
                meaning: "spreads the service time evenly between latency - jitter and latency + jitter",
            },
            OptionHelp {
                name: "concurrency",
                meaning: "operations served at once, across all sessions (default unlimited)",
            },
            OptionHelp {
                name: "stall_at",
                meaning: "when the stall begins, counted from the start of the measured phase",
            },
            OptionHelp { name: "stall_for", meaning: "how long the stall lasts (default 1s)" },
            OptionHelp { name: "seed", meaning: "seed of the jitter (default 1)" },
        ],
        decorator: true,
        aliases: &[],
    },
    Scheme {
        name: "limit",
        what: "Limits another store to a number of operations per second",
        example: "limit+memory:?rate=1000",
        options: &[OptionHelp {
            name: "rate",
            meaning: "operations per second across all sessions, such as 500 or 10k",
        }],
        decorator: true,
        aliases: &[],
    },
];

/// Opens a store from what follows its scheme and colon.
pub type Open = dyn Fn(&str) -> Result<Arc<dyn AnyStore>, StoreError> + Send + Sync;

/// Stores that the program around this one provides, by scheme.
static PROVIDED: RwLock<Vec<(&'static str, Arc<Open>)>> = RwLock::new(Vec::new());

/// Adds a scheme, or replaces an added one. Its URLs have no options of their own, but decorators can precede it.
pub fn provide(scheme: &'static str, open: Arc<Open>) {
    let mut all = PROVIDED.write().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(name, _)| *name != scheme);
    all.push((scheme, open));
}

fn provided(scheme: &str) -> Option<Arc<Open>> {
    let all = PROVIDED.read().unwrap_or_else(PoisonError::into_inner);
    all.iter().find(|(name, _)| *name == scheme).map(|(_, open)| Arc::clone(open))
}

/// Whether a store or a decorator has this scheme.
pub fn is_scheme(name: &str) -> bool {
    SCHEMES.iter().any(|s| s.name == name || s.aliases.contains(&name)) || provided(name).is_some()
}

/// Every store and decorator in this build, in display order.
pub fn schemes() -> &'static [Scheme] {
    SCHEMES
}

/// Creates the store of a URL. It opens no file and no connection.
///
/// # Errors
/// [`StoreError::BadUrl`], which says what is wrong and what was expected.
pub fn open(url: &str) -> Result<Arc<dyn AnyStore>, StoreError> {
    let (head, query) = url.split_once('?').unwrap_or((url, ""));
    let opened = open_split(url, head, query);
    // Errors quote options, and these may be the end of a password.
    if opened.is_err() && head.contains("://") && query.contains('@') {
        return Err(StoreError::BadUrl(
            "invalid URL with an `@` after its `?`; in a password, write `/`, `?`, `#`, `@` as %2F, %3F, %23, %40; \
             without a password, check the options (see `storebench stores`)"
                .into(),
        ));
    }
    opened
}

fn open_split(url: &str, head: &str, query: &str) -> Result<Arc<dyn AnyStore>, StoreError> {
    let (names, path) = head.split_once(':').ok_or_else(|| {
        let remedy = match meant(head).as_slice() {
            [] => format!("write it like {}", list(SCHEMES.iter().map(|s| s.example))),
            meant => format!("did you mean {}? `storebench stores` lists all stores", either(meant)),
        };
        StoreError::BadUrl(format!("`{url}` has no scheme; {remedy}"))
    })?;
    if matches!(names, "http" | "https") {
        let remedy = match meant(head).as_slice() {
            [] => "`storebench stores` lists all stores".to_owned(),
            meant => format!("name the store instead, as in {}", either(meant)),
        };
        return Err(StoreError::BadUrl(format!("`{names}` is not a store; {remedy}")));
    }
    let (decorators, typed) = split_names(names);
    let mut schemes = Vec::new();
    for decorator in decorators.iter().flat_map(|names| names.split('+')) {
        schemes.push(find(decorator, true)?);
    }
    let mut store = match provided(typed) {
        Some(open) => Some(open(path)?),
        None => {
            schemes.push(find(typed, false)?);
            None
        }
    };
    let mut options = Options::read(query, &schemes)?;
    for scheme in schemes.iter().rev() {
        store = Some(make(scheme, typed, path, &mut options, store)?);
    }
    options.finish()?;
    store.ok_or_else(|| StoreError::BadUrl(format!("`{url}` does not name a store")))
}

/// Splits `slow+limit+mongodb+srv` into the decorators and the store, whose alias may contain a `+`.
fn split_names(names: &str) -> (Option<&str>, &str) {
    let aliases = SCHEMES.iter().flat_map(|s| s.aliases).filter(|alias| alias.contains('+'));
    for alias in aliases {
        match names.strip_suffix(alias) {
            Some("") => return (None, names),
            Some(before) if before.ends_with('+') => return (Some(&before[..before.len() - 1]), alias),
            _ => {}
        }
    }
    names.rsplit_once('+').map_or((None, names), |(before, last)| (Some(before), last))
}

/// The URLs of stores that a text may mean which is none: a file without its scheme, by its ending, or the address of a
/// store that is spoken to over HTTP.
pub fn meant(text: &str) -> Vec<String> {
    let known = |scheme: &str| SCHEMES.iter().any(|known| known.name == scheme);
    let file = || {
        let ending = text.rsplit_once('.').map(|(_, ending)| ending.to_lowercase());
        let scheme = match ending.as_deref() {
            Some("db" | "sqlite" | "sqlite3" | "db3") => "sqlite",
            Some("redb") => "redb",
            Some("fjall") => "fjall",
            _ => return Vec::new(),
        };
        if known(scheme) { vec![format!("{scheme}:{text}")] } else { Vec::new() }
    };
    let Some((scheme, place)) = text.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https")) else {
        return file();
    };
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let tls = if scheme == "https" { "s" } else { "" };
    let database = if path.is_empty() { "storebench" } else { path };
    // A collection is a database of CouchDB, and an index of OpenSearch, so their URLs name none.
    let stores = [
        ("couchdb", ":5984", String::new()),
        ("ravendb", ":8080", format!("/{database}")),
        ("opensearch", ":9200", String::new()),
    ];
    let built = stores.iter().filter(|(name, ..)| known(name));
    let (usual, others): (Vec<_>, Vec<_>) = built.partition(|(_, port, _)| host.ends_with(port));
    let likely = if usual.is_empty() { others } else { usual };
    likely.iter().map(|(name, _, path)| format!("{name}{tls}://{host}{path}")).collect()
}

/// URLs to choose from, in words.
fn either(urls: &[String]) -> String {
    urls.iter().map(|url| format!("`{url}`")).collect::<Vec<_>>().join(" or ")
}

/// Finds the scheme of a name. `decorator` says whether a decorator or a store is expected here.
fn find(name: &str, decorator: bool) -> Result<&'static Scheme, StoreError> {
    let fitting = || SCHEMES.iter().filter(|s| s.decorator == decorator).map(|s| s.name);
    match SCHEMES.iter().find(|s| s.name == name || s.aliases.contains(&name)) {
        Some(scheme) if scheme.decorator == decorator => Ok(scheme),
        Some(scheme) if scheme.decorator => Err(StoreError::BadUrl(format!(
            "`{name}` is a decorator and must be followed by a store, as in {}",
            scheme.example
        ))),
        Some(_) => Err(StoreError::BadUrl(format!(
            "`{name}` is a store and must come last; only these may precede it, each with a `+`: {}",
            list(fitting())
        ))),
        None => {
            let what = if decorator { "decorator" } else { "store" };
            Err(StoreError::BadUrl(format!(
                "unknown {what} `{name}`{}; expected one of: {}",
                did_you_mean(name, fitting()),
                list(fitting())
            )))
        }
    }
}

fn make(
    scheme: &Scheme,
    typed: &str,
    path: &str,
    options: &mut Options<'_>,
    inner: Option<Arc<dyn AnyStore>>,
) -> Result<Arc<dyn AnyStore>, StoreError> {
    if let Some(inner) = inner {
        return decorate(scheme, inner, options);
    }
    // A store's description shows only its own options; a decorator adds its own.
    let url = &options.url_of(scheme, typed, path);
    match scheme.name {
        "memory" | "null" if !path.is_empty() => Err(StoreError::BadUrl(format!(
            "`{}` has no path; nothing may follow its colon; write {}",
            scheme.name, scheme.example
        ))),
        "memory" => Ok(Arc::new(MemoryStore::default())),
        "null" => Ok(Arc::new(NullStore)),
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(crate::sqlite::SqliteStore::new(url, path, options)?)),
        #[cfg(feature = "fjall")]
        "fjall" => Ok(Arc::new(EmbeddedStore::new(url, crate::fjall::engine(path, options)?))),
        #[cfg(feature = "redb")]
        "redb" => Ok(Arc::new(EmbeddedStore::new(url, crate::redb::engine(path, options)?))),
        #[cfg(feature = "couchdb")]
        "couchdb" => Ok(Arc::new(crate::couchdb::CouchStore::new(url, options)?)),
        #[cfg(feature = "postgres")]
        "postgres" => Ok(Arc::new(crate::postgres::PostgresStore::new(url, typed, options)?)),
        #[cfg(feature = "mysql")]
        "mysql" => Ok(Arc::new(crate::mysql::MysqlStore::new(url, typed, options)?)),
        #[cfg(feature = "redis")]
        "redis" => Ok(Arc::new(crate::redis::RedisStore::new(url, options)?)),
        #[cfg(feature = "memcached")]
        "memcached" => Ok(Arc::new(crate::memcached::MemcachedStore::new(url, options)?)),
        #[cfg(feature = "mongodb")]
        "mongodb" => Ok(Arc::new(crate::mongodb::MongoStore::new(url, options)?)),
        #[cfg(feature = "couchbase")]
        "couchbase" => Ok(Arc::new(crate::couchbase::CouchbaseStore::new(url, options)?)),
        #[cfg(feature = "cql")]
        "cassandra" => Ok(Arc::new(crate::cql::CqlStore::new(url, options)?)),
        #[cfg(feature = "ravendb")]
        "ravendb" => Ok(Arc::new(crate::ravendb::RavenStore::new(url, options)?)),
        #[cfg(feature = "dynamodb")]
        "dynamodb" => Ok(Arc::new(crate::dynamodb::DynamoStore::new(url, options)?)),
        #[cfg(feature = "opensearch")]
        "opensearch" => Ok(Arc::new(crate::opensearch::OpenSearchStore::new(url, options)?)),
        other => Err(StoreError::BadUrl(format!("`{other}` is listed but not built in"))),
    }
}

fn decorate(
    scheme: &Scheme,
    inner: Arc<dyn AnyStore>,
    options: &mut Options<'_>,
) -> Result<Arc<dyn AnyStore>, StoreError> {
    match scheme.name {
        #[cfg(feature = "hosted")]
        "hosted" => {
            let socket = options.take("socket").ok_or_else(|| {
                StoreError::BadUrl(format!(
                    "`hosted+` requires the socket of the process that hosts the store; write it like {}",
                    scheme.example
                ))
            })?;
            Ok(Arc::new(crate::hosted::HostedStore::new(inner, socket)?))
        }
        "slow" => {
            let default = SlowOptions::default();
            let mut span = |name| options.parse::<Span>(name).map(|span| span.map(|s| s.0));
            let (latency, jitter) = (span("latency")?, span("jitter")?);
            let (stall_at, stall_for) = (span("stall_at")?, span("stall_for")?);
            let slow = SlowOptions {
                latency: latency.unwrap_or(default.latency),
                jitter: jitter.unwrap_or(default.jitter),
                concurrency: options.parse("concurrency")?,
                stall_at,
                stall_for: stall_for.unwrap_or(default.stall_for),
                seed: options.parse("seed")?.unwrap_or(default.seed),
            };
            Ok(Arc::new(Slow::new(Erased(inner), slow)))
        }
        "limit" => {
            let PerSecond(rate_per_s) = options.parse("rate")?.ok_or_else(|| {
                StoreError::BadUrl(format!("`limit+` requires a rate; write it like {}", scheme.example))
            })?;
            Ok(Arc::new(Limit::new(Erased(inner), rate_per_s)?))
        }
        other => Err(StoreError::BadUrl(format!("`{other}` is listed but not built in"))),
    }
}

/// The options of a URL. Each can be taken once.
pub(crate) struct Options<'u> {
    values: Vec<(&'u str, &'u str)>,
    known: Vec<&'static str>,
}

impl<'u> Options<'u> {
    fn read(query: &'u str, schemes: &[&'static Scheme]) -> Result<Self, StoreError> {
        let known = schemes.iter().flat_map(|s| s.options.iter().map(|o| o.name)).collect();
        let mut values: Vec<(&str, &str)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                StoreError::BadUrl(format!("the option `{pair}` has no value; write it like {pair}=…"))
            })?;
            if values.iter().any(|(other, _)| *other == name) {
                return Err(StoreError::BadUrl(format!("the option `{name}` is given twice; remove one")));
            }
            values.push((name, value));
        }
        Ok(Self { values, known })
    }

    /// The URL of one of the stores that share these options, with only its own options.
    fn url_of(&self, scheme: &Scheme, typed: &str, path: &str) -> String {
        let own = self.values.iter().filter(|(name, _)| scheme.options.iter().any(|option| option.name == *name));
        let own: Vec<String> = own.map(|(name, value)| format!("{name}={value}")).collect();
        let mark = if own.is_empty() { "" } else { "?" };
        format!("{typed}:{path}{mark}{}", own.join("&"))
    }

    /// Takes an option.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'u str> {
        let position = self.values.iter().position(|(other, _)| *other == name)?;
        Some(self.values.remove(position).1)
    }

    /// Takes an option and parses it.
    pub(crate) fn parse<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Option<T>, StoreError> {
        self.take(name)
            .map(|text| text.parse().map_err(|e| StoreError::BadUrl(format!("invalid option `{name}={text}`: {e}"))))
            .transpose()
    }

    /// Takes an option that must be one of `words`. Returns the word's position.
    pub(crate) fn choice(&mut self, name: &str, words: &[&str]) -> Result<Option<usize>, StoreError> {
        let Some(text) = self.take(name) else { return Ok(None) };
        words.iter().position(|word| *word == text).map(Some).ok_or_else(|| {
            StoreError::BadUrl(format!(
                "invalid option `{name}={text}`{}; expected one of: {}",
                did_you_mean(text, words.iter().copied()),
                list(words.iter().copied())
            ))
        })
    }

    /// All options of a query, known or not.
    #[cfg(test)]
    pub(crate) fn for_test(query: &'u str) -> Self {
        let values = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        Self { values, known: Vec::new() }
    }

    fn finish(self) -> Result<(), StoreError> {
        let Some((name, _)) = self.values.first() else { return Ok(()) };
        let known = if self.known.is_empty() {
            "this store has no options".to_owned()
        } else {
            format!("options are: {}", list(self.known.iter().copied()))
        };
        Err(StoreError::BadUrl(format!(
            "unknown option `{name}`{}; {known}",
            did_you_mean(name, self.known.iter().copied())
        )))
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// ` (did you mean …?)` if one of the names is similar.
fn did_you_mean<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    names
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
        .min()
        .map_or_else(String::new, |(_, known)| format!(" (did you mean `{known}`?)"))
}

#[cfg(test)]
mod tests {
    use storebench_engine::store::place_of;

    use super::*;

    /// Hosts that are found by an SRV record are others.
    #[test]
    fn a_server_is_one_place_under_every_scheme() {
        let place = |url: &str| {
            let store = open(url).unwrap();
            place_of(&store, &store.describe().url)
        };
        for scheme in SCHEMES {
            let Some((_, rest)) = scheme.example.split_once("://") else { continue };
            let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
            let user = host.rsplit_once('@').map_or(String::new(), |(user, _)| format!("{user}@"));
            let url = |name: &str| format!("{name}://{user}127.0.0.1:1234/{path}");
            for alias in scheme.aliases.iter().filter(|alias| !alias.ends_with("+srv")) {
                assert_eq!(place(&url(alias)), place(&url(scheme.name)));
                assert_eq!(place(&format!("slow+{}", url(alias))), place(&url(scheme.name)));
            }
        }
        #[cfg(feature = "mongodb")]
        assert_ne!(place("mongodb+srv://cluster.example.com/shop"), place("mongodb://cluster.example.com/shop"));
    }
}
