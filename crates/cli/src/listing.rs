//! The built-in stores, for the verb `stores` and for the generated page of stores.

use indexmap::IndexMap;
use serde::Serialize;
use storebench_engine::store::{OpKind, Support};
use storebench_stores::Scheme;

use crate::failure::Failure;
use crate::stores::open;

/// How an operation is listed if the store supports it natively.
pub(crate) const NATIVE: &str = "native";

/// One store or decorator.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    pub(crate) scheme: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) aliases: &'static [&'static str],
    pub(crate) what: &'static str,
    pub(crate) example: &'static str,
    pub(crate) decorator: bool,
    pub(crate) options: IndexMap<&'static str, &'static str>,
    /// `None` for decorators, which can do what the store behind them can do.
    pub(crate) can: Option<Can>,
}

/// What a store can do.
#[derive(Debug, Serialize)]
pub(crate) struct Can {
    /// How each operation is provided: `native`, or how the driver emulates it. Operations not listed are refused.
    pub(crate) operations: IndexMap<&'static str, &'static str>,
    pub(crate) durability: IndexMap<String, &'static str>,
    pub(crate) consistency: IndexMap<String, &'static str>,
    /// The isolations of transactions.
    pub(crate) isolation: IndexMap<String, &'static str>,
    pub(crate) indexes: bool,
    pub(crate) embedded: bool,
    pub(crate) notes: Vec<&'static str>,
}

impl Can {
    /// The levels of each kind of guarantee, with the settings behind them.
    pub(crate) fn guarantees(&self) -> [(&'static str, &IndexMap<String, &'static str>); 3] {
        [("durability", &self.durability), ("reads", &self.consistency), ("isolation", &self.isolation)]
    }

    /// The names of the emulated operations, by how the driver emulates them.
    pub(crate) fn made(&self) -> IndexMap<&'static str, Vec<&'static str>> {
        let mut made: IndexMap<&str, Vec<&str>> = IndexMap::new();
        for (name, how) in self.operations.iter().filter(|(_, how)| **how != NATIVE) {
            made.entry(how).or_default().push(name);
        }
        made
    }

    /// A cell of the table: `yes`, `made` (emulated), or `-`.
    pub(crate) fn cell(&self, operation: &str) -> &'static str {
        match self.operations.get(operation) {
            Some(&NATIVE) => "yes",
            Some(_) => "made",
            None => "-",
        }
    }
}

/// Describes one store or decorator. Creates its driver, without accessing the store.
pub(crate) fn list(scheme: &'static Scheme) -> Result<Listed, Failure> {
    let can = if scheme.decorator { None } else { Some(can(scheme)?) };
    Ok(Listed {
        scheme: scheme.name,
        aliases: scheme.aliases,
        what: scheme.what,
        example: scheme.example,
        decorator: scheme.decorator,
        options: scheme.options.iter().map(|o| (o.name, o.meaning)).collect(),
        can,
    })
}

fn can(scheme: &Scheme) -> Result<Can, Failure> {
    let can = open(scheme.example)?.capabilities();
    let how = |support: Support| match support {
        Support::Native => NATIVE,
        Support::Approximated(how) => how,
    };
    Ok(Can {
        operations: OpKind::ALL.into_iter().filter_map(|kind| Some((kind.name(), how(can.supports(kind)?)))).collect(),
        durability: can.durability.iter().map(|(d, means)| (d.to_string(), *means)).collect(),
        consistency: can.consistency.iter().map(|(c, means)| (c.to_string(), *means)).collect(),
        isolation: can.transactions.isolation.iter().map(|(i, means)| (i.to_string(), *means)).collect(),
        indexes: can.indexes,
        embedded: can.embedded,
        notes: can.notes,
    })
}

/// The options that every server has with the same meaning, to list them once.
pub(crate) fn shared_options(listed: &[Listed]) -> IndexMap<&'static str, &'static str> {
    let servers: Vec<&Listed> = listed.iter().filter(|s| s.can.as_ref().is_some_and(|can| !can.embedded)).collect();
    match servers.as_slice() {
        [first, others @ ..] if !others.is_empty() => {
            let everywhere = |name: &str, meaning: &str| others.iter().all(|s| s.options.get(name) == Some(&meaning));
            first.options.iter().filter(|(name, meaning)| everywhere(name, meaning)).map(|(n, m)| (*n, *m)).collect()
        }
        _ => IndexMap::new(),
    }
}

/// The stores in groups, one table each: embedded stores, then servers.
pub(crate) fn columns(listed: &[Listed]) -> Vec<Vec<(&'static str, &Can)>> {
    let stores: Vec<(&str, &Can)> = listed.iter().filter_map(|s| Some((s.scheme, s.can.as_ref()?))).collect();
    let (embedded, servers): (Vec<_>, Vec<_>) = stores.into_iter().partition(|(_, can)| can.embedded);
    [embedded, servers].into_iter().filter(|group| !group.is_empty()).collect()
}
