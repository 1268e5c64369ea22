//! What an acknowledgement guarantees. The names are the same for every store; each driver says how it maps them.

#[cfg(feature = "schema")]
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

use crate::written::{names, written_as};

/// Durability is not a single scale. How many nodes have the write, and on how many of them it has reached which kind
/// of storage, are separate guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    None,
    /// A crash of the process: it was handed to the operating system.
    #[default]
    Os,
    /// A power failure: it was synced to disk.
    Disk,
}

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

    /// Parses "acknowledged by 2, persisted disk on 1", the form in results.
    fn printed(text: &str) -> Option<Self> {
        let (by, rest) = text.strip_prefix("acknowledged by ")?.split_once(", persisted ")?;
        let (persisted, on) = rest.split_once(" on ")?;
        let acknowledged_by = match by {
            "majority" => Acknowledged::Majority,
            nodes => Acknowledged::Nodes(nodes.parse().ok()?),
        };
        let persisted = match persisted {
            "none" => Persisted::None,
            "os" => Persisted::Os,
            "disk" => Persisted::Disk,
            _ => return None,
        };
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
        let persisted = match self.persisted {
            Persisted::None => "none",
            Persisted::Os => "os",
            Persisted::Disk => "disk",
        };
        write!(f, "acknowledged by {acknowledged}, persisted {persisted} on {}", self.on)
    }
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    acknowledged_by: Acknowledged,
    #[serde(default)]
    persisted: Persisted,
    #[serde(default = "one")]
    on: u32,
}

fn one() -> u32 {
    1
}

written_as!(
    Durability,
    "\"none\", \"os\", \"fsync\", \"majority\" or a table",
    text = str::parse::<Durability>,
    table = |t: Table| {
        let on = if t.persisted == Persisted::None { 0 } else { t.on };
        match t.acknowledged_by {
            Acknowledged::Nodes(n) if on > n => {
                Err(format!("persisted on {on} nodes but acknowledged by {n}; a node that persists also acknowledges"))
            }
            acknowledged_by => Ok(Durability { acknowledged_by, persisted: t.persisted, on }),
        }
    },
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

#[cfg(feature = "schema")]
impl JsonSchema for Durability {
    fn schema_name() -> Cow<'static, str> {
        "Durability".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<Table>();
        json_schema!({ "anyOf": [{ "enum": ["none", "os", "fsync", "majority"] }, table] })
    }
}

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

#[cfg(feature = "schema")]
impl JsonSchema for Acknowledged {
    fn schema_name() -> Cow<'static, str> {
        "Acknowledged".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "integer", "minimum": 1 }, { "const": "majority" }] })
    }
}

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

impl fmt::Display for ReadConsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::StaleOk => "stale-ok",
            Self::Session => "session",
            Self::Strong => "strong",
        })
    }
}

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
}
