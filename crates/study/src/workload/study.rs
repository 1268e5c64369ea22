//! The study: the root of the file.

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::claims::Claim;
use super::collections::Collection;
use super::factors::{Database, Design};
use super::limits::{Limit, RateSearch};
use super::phases::Phase;
use super::presets::{Flaw, Preset};
use super::repeats::Repeats;
use super::servers::{LinkSpec, ServerSpec};
use crate::written::{is_default, schema, written_as};

/// A study file: what documents there are, on which stores, and what is done to them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// One line that says what it is.
    pub title: String,
    /// The question that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The seed of everything random; default 1.
    #[serde(default = "one")]
    pub seed: u64,
    /// How often everything is repeated; default 1. `{ until = "3%", at_most = 30 }` repeats until the intervals of the
    /// figures that the run is for are at most ± 3 %.
    #[serde(default, alias = "repeat", skip_serializing_if = "is_default")]
    pub repeats: Repeats,
    /// Measures the first configuration twice in every round. The second one is its control: how much the two differ is
    /// noise of the machine.
    #[serde(default, skip_serializing_if = "is_default")]
    pub control: bool,
    /// The documents.
    pub collections: IndexMap<String, Collection>,
    /// The stores: a list of URLs, or a table of names and URLs. May be given with `--store`.
    #[serde(default, skip_serializing_if = "Stores::is_empty")]
    pub stores: Stores,
    /// Number of the study's own stores, if `--store` replaced them; 0 if not.
    #[serde(skip)]
    pub replaced_stores: usize,
    /// Servers that the study starts and stops itself, by the name of their store or its scheme.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub servers: IndexMap<String, ServerSpec>,
    /// Links between servers that faults can break, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub links: IndexMap<String, LinkSpec>,
    /// Machines that stores take turns on: `{host}` in a store's URL is a different one in each round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The phases, in order.
    pub phases: Vec<Phase>,
    /// Settings by path, with the values of each: `"phases.load.batch" = [10, 100]`. Each combination is a
    /// configuration of every store.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub factors: IndexMap<String, Vec<serde_json::Value>>,
    /// Which combinations of values are measured; default: all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub design: Design,
    /// Whether every trial loads its documents again; default: it does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub database: Database,
    /// Limits that phases have to meet, by path: `"by-user.response.p99" = "200ms"`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub limits: IndexMap<String, Limit>,
    /// The search for the highest rate at which the limits are met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<RateSearch>,
    /// The size of the documents divided by the memory of the machine, if the findings depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_to_memory: Option<f64>,
    /// The study at other sizes, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub presets: IndexMap<String, Preset>,
    /// Claims of the published study that this one follows, and how a run tests them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Claim>,
    /// What readers found wrong with the published study that this one follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaws: Vec<Flaw>,
}

fn one() -> u64 {
    1
}

/// The stores of a study, by name. URLs of a list without a name, `NAME=URL`, get their schemes as names.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Stores(pub IndexMap<String, String>);

impl Stores {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names each URL by its scheme; the second of a scheme becomes `scheme-2`.
    pub fn from_urls<U: Into<String>>(urls: impl IntoIterator<Item = U>) -> Self {
        let mut stores = IndexMap::new();
        for url in urls {
            let url = url.into();
            let scheme = url.split(':').next().unwrap_or("store").to_owned();
            let name = (1..)
                .map(|n| if n == 1 { scheme.clone() } else { format!("{scheme}-{n}") })
                .find(|name| !stores.contains_key(name))
                .unwrap_or(scheme);
            stores.insert(name, url);
        }
        Self(stores)
    }

    /// Reads a list of stores, each a URL or `NAME=URL`, as `--store` has it.
    ///
    /// # Errors
    /// An empty name, or a name that is given twice.
    pub fn from_entries(entries: &[String]) -> Result<Self, String> {
        let unnamed = entries.iter().map(|entry| split(entry)).filter(|(name, _)| name.is_none()).map(|(_, url)| url);
        let mut automatic = Self::from_urls(unnamed).0.into_iter();
        let mut stores = IndexMap::new();
        for entry in entries {
            let (name, url) = match split(entry) {
                (Some(""), _) => {
                    return Err(format!("{entry}: the name before `=` is empty; use NAME=URL, or only the URL"));
                }
                (Some(name), url) => (name.to_owned(), url.to_owned()),
                (None, url) => automatic.next().unwrap_or_else(|| (url.to_owned(), url.to_owned())),
            };
            if stores.insert(name.clone(), url).is_some() {
                return Err(format!("two stores are called `{name}`; give each its own name with NAME=URL"));
            }
        }
        Ok(Self(stores))
    }
}

/// Splits `NAME=URL`. The options of a URL may also contain `=`, but only after the colon. A name may be the schemes of a
/// decorated store (`slow+memory`), which such a store is called by itself.
fn split(entry: &str) -> (Option<&str>, &str) {
    match entry.split_once('=') {
        Some((name, url)) if !name.contains([':', '?']) && (!name.contains('+') || url.contains(':')) => {
            (Some(name.trim()), url)
        }
        _ => (None, entry),
    }
}

written_as!(
    Stores,
    "a list of store URLs, each maybe with a name (NAME=URL), or a table of names and URLs",
    list = |entries: Vec<String>| Stores::from_entries(&entries),
    table = |named| Ok::<_, String>(Stores(named)),
);

schema!(Stores, "Stores", |_| {
    schemars::json_schema!({ "anyOf": [
        { "type": "array", "items": { "type": "string" } },
        { "type": "object", "additionalProperties": { "type": "string" } }
    ] })
});

#[cfg(test)]
mod store_tests {
    use super::*;

    #[test]
    fn stores_of_a_list_may_have_names() {
        assert_eq!(split("a=sqlite:x.db"), (Some("a"), "sqlite:x.db"));
        assert_eq!(split("slow+memory:?latency=1ms"), (None, "slow+memory:?latency=1ms"));
        assert_eq!(split("b=slow+memory:?latency=1ms"), (Some("b"), "slow+memory:?latency=1ms"));
        assert_eq!(split("slow+memory=slow+memory:?latency=1ms"), (Some("slow+memory"), "slow+memory:?latency=1ms"));
        assert_eq!(split("slow+memory-2=null:"), (Some("slow+memory-2"), "null:"));
        let study = "stores = [\"sqlite:a.db\", \"b=sqlite:b.db?x=1\", \"sqlite:c.db\"]";
        let stores = toml_edit::de::from_str::<IndexMap<String, Stores>>(study).unwrap();
        let all: Vec<(&str, &str)> =
            stores["stores"].0.iter().map(|(name, url)| (name.as_str(), url.as_str())).collect();
        assert_eq!(all, [("sqlite", "sqlite:a.db"), ("b", "sqlite:b.db?x=1"), ("sqlite-2", "sqlite:c.db")]);
        for (entries, why) in
            [(&["a=memory:", "a=null:"][..], "two stores are called `a`"), (&["=memory:"], "is empty")]
        {
            let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
            assert!(Stores::from_entries(&entries).unwrap_err().contains(why));
        }
    }
}
