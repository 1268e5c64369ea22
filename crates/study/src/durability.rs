//! What an acknowledgement guarantees. The names are the same for every store; each driver says how it maps them.

use std::fmt;
use std::str::FromStr;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::written::{names, schema, written_as};

/// Durability is not a single scale. How many nodes have the write, and on how many of them it has reached which kind
/// of storage, are separate guarantees.
///
/// The default is the weakest: in the memory of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Durability {
    /// Nodes that hold the write at least in memory when it is acknowledged.
    pub acknowledged_by: Acknowledged,
    /// What the write survives on the nodes counted by `on`.
    pub persisted: Persisted,
    /// Nodes on which it is `persisted`.
    pub on: u32,
}

/// How many nodes hold a write when it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Acknowledged {
    /// This many, including the one that accepted the write.
    Nodes(u32),
    /// More than half of the replicas.
    Majority,
}

impl Default for Acknowledged {
    fn default() -> Self {
        Self::Nodes(1)
    }
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Persisted {
    /// Nothing: it is in the process's memory.
    #[default]
    None,
    /// A crash of the process: it was handed to the operating system.
    Os,
    /// A power failure: it was synced to disk.
    Disk,
}

names! { Persisted: None "none", Os "os", Disk "disk" }

impl Durability {
    /// In the memory of one process.
    pub const MEMORY: Self = Self { acknowledged_by: Acknowledged::Nodes(1), persisted: Persisted::None, on: 0 };
    /// Handed to the operating system of one node.
    pub const OS: Self = Self { acknowledged_by: Acknowledged::Nodes(1), persisted: Persisted::Os, on: 1 };
    /// Synced to the disk of one node.
    pub const FSYNC: Self = Self { acknowledged_by: Acknowledged::Nodes(1), persisted: Persisted::Disk, on: 1 };
    /// In the memory of a majority.
    pub const MAJORITY: Self = Self { acknowledged_by: Acknowledged::Majority, persisted: Persisted::None, on: 0 };

    const NAMES: [(&'static str, Self); 4] =
        [("none", Self::MEMORY), ("os", Self::OS), ("fsync", Self::FSYNC), ("majority", Self::MAJORITY)];

    /// Whether a write that has this durability has at least the other: as many nodes hold it, it survives as much on
    /// each of them (`none` < `os` < `fsync`), and on as many. A majority is at least one node; how it compares with
    /// another number depends on the number of replicas, so the result is `None` then.
    pub fn is_at_least(self, floor: Self) -> Option<bool> {
        if self.persisted < floor.persisted || self.on < floor.on {
            return Some(false);
        }
        match (self.acknowledged_by, floor.acknowledged_by) {
            (Acknowledged::Nodes(nodes), Acknowledged::Nodes(least)) => Some(nodes >= least),
            (Acknowledged::Nodes(1), Acknowledged::Majority) => Some(false),
            (Acknowledged::Majority, Acknowledged::Nodes(1) | Acknowledged::Majority) => Some(true),
            (Acknowledged::Majority, Acknowledged::Nodes(_)) | (Acknowledged::Nodes(_), Acknowledged::Majority) => None,
        }
    }

    /// Orders durabilities from the cheapest: by nodes that hold the write, then by what it survives, then by nodes on
    /// which it does. A majority stands with two nodes, the fewest that it can be where there are several.
    pub fn cost(self) -> (u32, Persisted, u32) {
        let nodes = match self.acknowledged_by {
            Acknowledged::Nodes(nodes) => nodes,
            Acknowledged::Majority => 2,
        };
        (nodes, self.persisted, self.on)
    }

    /// As a study file has it: a name, or a table.
    pub fn written(self) -> String {
        if Self::NAMES.iter().any(|(_, named)| *named == self) {
            return self.to_string();
        }
        let acknowledged_by = match self.acknowledged_by {
            Acknowledged::Nodes(nodes) => nodes.to_string(),
            Acknowledged::Majority => "\"majority\"".to_owned(),
        };
        let on = if self.on > 1 { format!(", on = {}", self.on) } else { String::new() };
        let persisted = self.persisted.name();
        format!("{{ acknowledged_by = {acknowledged_by}, persisted = \"{persisted}\"{on} }}")
    }

    fn of_table(table: Table) -> Result<Self, String> {
        let on = if table.persisted == Persisted::None { 0 } else { table.on };
        match table.acknowledged_by {
            Acknowledged::Nodes(n) if on > n => {
                Err(format!("persisted on {on} nodes but acknowledged by {n}; a node that persists also acknowledges"))
            }
            acknowledged_by => Ok(Self { acknowledged_by, persisted: table.persisted, on }),
        }
    }

    /// Parses "acknowledged by 2, persisted disk on 1" or "acknowledged by 2, persisted none", the form in results.
    fn printed(text: &str) -> Option<Self> {
        let (by, rest) = text.strip_prefix("acknowledged by ")?.split_once(", persisted ")?;
        let (persisted, on) = rest.split_once(" on ").unwrap_or((rest, "0"));
        let acknowledged_by = match by {
            "majority" => Acknowledged::Majority,
            nodes => Acknowledged::Nodes(nodes.parse().ok()?),
        };
        let persisted = Persisted::ALL.into_iter().find(|kind| kind.name() == persisted)?;
        Some(Self { acknowledged_by, persisted, on: on.parse().ok()? })
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, d)| *d);
        named.or_else(|| Self::printed(text)).ok_or_else(|| {
            format!(
                "invalid durability `{text}`; use none, os, fsync, majority, or \
                 {{ acknowledged_by = 1, persisted = \"disk\", on = 1 }}"
            )
        })
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = Self::NAMES.iter().find(|(_, d)| d == self) {
            return f.pad(name);
        }
        let acknowledged = match self.acknowledged_by {
            Acknowledged::Nodes(n) => n.to_string(),
            Acknowledged::Majority => "majority".to_owned(),
        };
        write!(f, "acknowledged by {acknowledged}, persisted {}", self.persisted)?;
        if self.on > 0 { write!(f, " on {}", self.on) } else { Ok(()) }
    }
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    acknowledged_by: Acknowledged,
    #[serde(default = "os")]
    persisted: Persisted,
    #[serde(default = "one")]
    on: u32,
}

fn os() -> Persisted {
    Persisted::Os
}

fn one() -> u32 {
    1
}

written_as!(
    Durability,
    "\"none\", \"os\", \"fsync\", \"majority\" or a table",
    text = str::parse::<Durability>,
    table = Durability::of_table,
);

impl Serialize for Durability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match Self::NAMES.iter().find(|(_, d)| d == self) {
            Some((name, _)) => serializer.serialize_str(name),
            None => Table { acknowledged_by: self.acknowledged_by, persisted: self.persisted, on: self.on }
                .serialize(serializer),
        }
    }
}

schema!(Durability, "Durability", |generator| {
    let table = generator.subschema_for::<Table>();
    schemars::json_schema!({ "anyOf": [{ "enum": ["none", "os", "fsync", "majority"] }, table] })
});

/// What a phase asks of the store about acknowledged writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DurabilityRequest {
    /// At least this: each store gives the weakest durability that it has at or above it. Written as the durability.
    AtLeast(Durability),
    /// Neither less nor more. Written `{ exactly = "os" }`.
    Exactly(Durability),
    /// That of the store as it is shipped, whatever it is. Written `"default"`.
    AsShipped,
}

/// How [`DurabilityRequest::AsShipped`] is written.
const AS_SHIPPED: &str = "default";

/// What may stand for a durability, for errors.
const REQUESTS: &str = "none, os, fsync, majority, default, { acknowledged_by = 2 } or { exactly = \"os\" }";

impl FromStr for DurabilityRequest {
    type Err = String;

    /// Reads a name, or a table as in a study file.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('{') {
            #[derive(Deserialize)]
            struct Written {
                durability: DurabilityRequest,
            }
            let read = toml_edit::de::from_str(&format!("durability = {text}"));
            return read.map(|Written { durability }| durability).map_err(|error| error.message().to_owned());
        }
        match text {
            AS_SHIPPED => Ok(Self::AsShipped),
            name => match name.parse() {
                Ok(durability) => Ok(Self::AtLeast(durability)),
                Err(_) => Err(format!("invalid durability `{name}`; use {REQUESTS}")),
            },
        }
    }
}

impl DurabilityRequest {
    /// As a study file has it: a name, or a table.
    pub fn written(self) -> String {
        match self {
            Self::AtLeast(durability) => durability.written(),
            Self::AsShipped => AS_SHIPPED.to_owned(),
            Self::Exactly(durability) if durability.written().starts_with('{') => {
                format!("{{ exactly = {} }}", durability.written())
            }
            Self::Exactly(durability) => format!("{{ exactly = \"{durability}\" }}"),
        }
    }
}

impl fmt::Display for DurabilityRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(durability) => write!(f, "at least {durability}"),
            Self::Exactly(durability) => write!(f, "exactly {durability}"),
            Self::AsShipped => f.write_str(AS_SHIPPED),
        }
    }
}

/// A table that stands for a durability request: the members of a durability, or `exactly` alone.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct RequestTable {
    exactly: Option<Durability>,
    acknowledged_by: Option<Acknowledged>,
    persisted: Option<Persisted>,
    on: Option<u32>,
}

written_as!(
    DurabilityRequest,
    "\"none\", \"os\", \"fsync\", \"majority\", \"default\" or a table",
    text = str::parse::<DurabilityRequest>,
    table = |t: RequestTable| match t {
        RequestTable { exactly: Some(exactly), acknowledged_by: None, persisted: None, on: None } => {
            Ok(DurabilityRequest::Exactly(exactly))
        }
        RequestTable { exactly: Some(_), .. } =>
            Err("`exactly` stands alone: { exactly = \"os\" } or { exactly = { acknowledged_by = 2 } }".to_owned()),
        RequestTable { acknowledged_by, persisted, on, .. } => Durability::of_table(Table {
            acknowledged_by: acknowledged_by.unwrap_or_default(),
            persisted: persisted.unwrap_or_else(os),
            on: on.unwrap_or_else(one),
        })
        .map(DurabilityRequest::AtLeast),
    },
);

impl Serialize for DurabilityRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AtLeast(durability) => durability.serialize(serializer),
            Self::Exactly(exactly) => serializer.collect_map([("exactly", exactly)]),
            Self::AsShipped => serializer.serialize_str(AS_SHIPPED),
        }
    }
}

schema!(DurabilityRequest, "DurabilityRequest", |generator| {
    let table = generator.subschema_for::<RequestTable>();
    schemars::json_schema!({ "anyOf": [{ "enum": ["none", "os", "fsync", "majority", "default"] }, table] })
});

written_as!(
    Acknowledged,
    "a number of nodes or \"majority\"",
    whole = |n| match u32::try_from(n) {
        Ok(n) if n > 0 => Ok(Acknowledged::Nodes(n)),
        _ => Err(format!("invalid number of nodes {n}; use 1 or more")),
    },
    text = |text| match text {
        "majority" => Ok(Acknowledged::Majority),
        other => Err(format!("`{other}` is neither a number of nodes nor \"majority\"")),
    },
);

impl Serialize for Acknowledged {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nodes(n) => serializer.serialize_u32(*n),
            Self::Majority => serializer.serialize_str("majority"),
        }
    }
}

schema!(Acknowledged, "Acknowledged", |_| {
    schemars::json_schema!({ "anyOf": [{ "type": "integer", "minimum": 1 }, { "const": "majority" }] })
});

/// How fresh a read is. The names are the same for every store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReadConsistency {
    /// May miss what was just written, even by this session.
    StaleOk,
    /// Sees what this session wrote.
    Session,
    /// Sees every acknowledged write, whoever made it.
    #[default]
    Strong,
}

names! { ReadConsistency: StaleOk "stale-ok", Session "session", Strong "strong" }

/// How far a transaction is kept apart from others. The names are the same for every store, and mean what Berenson et al.
/// define in "A Critique of ANSI SQL Isolation Levels" (1995). Weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Each step sees what other transactions had committed before that step.
    ReadCommitted,
    /// All steps see one moment, and of two transactions that write the same document at once, one is undone.
    Snapshot,
    /// The result is as if transactions had run one after another.
    Serializable,
}

names! { Isolation: ReadCommitted "read-committed", Snapshot "snapshot", Serializable "serializable" }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_and_tables_read_and_print() {
        for name in ["none", "os", "fsync", "majority"] {
            assert_eq!(name.parse::<Durability>().unwrap().to_string(), name);
        }
        let d: Durability = serde_json::from_str(r#"{"acknowledged_by":2,"persisted":"disk","on":1}"#).unwrap();
        assert_eq!(d.acknowledged_by, Acknowledged::Nodes(2));
        assert_eq!(d.to_string().parse(), Ok(d));
        let majority = Durability { acknowledged_by: Acknowledged::Majority, ..d };
        assert_eq!(majority.to_string().parse(), Ok(majority));
        assert!(serde_json::from_str::<Durability>(r#"{"acknowledged_by":1,"persisted":"disk","on":2}"#).is_err());
    }

    #[test]
    fn a_request_is_a_floor_an_exact_level_or_the_store_as_shipped() {
        let two = Durability { acknowledged_by: Acknowledged::Nodes(2), ..Durability::MEMORY };
        let written = [
            ("os", DurabilityRequest::AtLeast(Durability::OS)),
            ("default", DurabilityRequest::AsShipped),
            (
                "{ acknowledged_by = 2 }",
                DurabilityRequest::AtLeast(Durability { on: 1, persisted: Persisted::Os, ..two }),
            ),
            ("{ acknowledged_by = 2, persisted = \"none\" }", DurabilityRequest::AtLeast(two)),
            ("{ exactly = \"os\" }", DurabilityRequest::Exactly(Durability::OS)),
            ("{ exactly = { acknowledged_by = 2, persisted = \"none\" } }", DurabilityRequest::Exactly(two)),
        ];
        for (text, request) in written {
            assert_eq!(text.parse(), Ok(request), "{text}");
            let again: DurabilityRequest = serde_json::from_value(serde_json::to_value(request).unwrap()).unwrap();
            assert_eq!(again, request, "{text}");
            assert_eq!(request.written().parse(), Ok(request), "{text}");
        }
        let refused = |text: &str| text.parse::<DurabilityRequest>().unwrap_err();
        assert!(refused("disk").contains("use none, os, fsync, majority, default,"));
        assert!(refused("{ exactly = \"os\", on = 1 }").contains("`exactly` stands alone"));
        assert!(refused("{ acknowledged_by = 1, on = 2 }").contains("persisted on 2 nodes"));
        assert!(refused("{ level = 1 }").contains("unknown field `level`"));
    }

    #[test]
    fn durabilities_are_ordered_where_the_order_is_known() {
        let of = |acknowledged_by, persisted, on| Durability { acknowledged_by, persisted, on };
        let (two, majority) = (Acknowledged::Nodes(2), Acknowledged::Majority);
        assert_eq!(Durability::FSYNC.is_at_least(Durability::OS), Some(true));
        assert_eq!(Durability::OS.is_at_least(Durability::OS), Some(true));
        assert_eq!(Durability::OS.is_at_least(Durability::FSYNC), Some(false));
        assert_eq!(of(two, Persisted::None, 0).is_at_least(Durability::MEMORY), Some(true));
        assert_eq!(of(two, Persisted::None, 0).is_at_least(Durability::OS), Some(false), "in memory only");
        assert_eq!(of(two, Persisted::Disk, 1).is_at_least(of(two, Persisted::Disk, 2)), Some(false));
        assert_eq!(of(majority, Persisted::Disk, 1).is_at_least(Durability::OS), Some(true));
        assert_eq!(Durability::FSYNC.is_at_least(Durability::MAJORITY), Some(false));
        assert_eq!(Durability::MAJORITY.is_at_least(of(two, Persisted::None, 0)), None);
        assert_eq!(of(two, Persisted::None, 0).is_at_least(Durability::MAJORITY), None);
        assert_eq!(
            Durability::MAJORITY.is_at_least(of(two, Persisted::Disk, 1)),
            Some(false),
            "whatever a majority is"
        );
    }
}
