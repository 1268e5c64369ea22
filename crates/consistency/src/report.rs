//! What was found about all keys of a history.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::Staleness;

/// What was found about all keys.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Always `storebench-check/1`.
    pub format: String,
    /// Number of keys.
    pub keys: u64,
    /// Number of operations.
    pub operations: u64,
    /// Operations of unknown outcome.
    pub unknown: u64,
    /// Keys whose operations some order explains.
    pub linearizable: u64,
    /// Keys whose operations no order explains.
    pub broken: Vec<BrokenKey>,
    /// Keys for which the search exceeded its budget.
    pub undecided: Vec<String>,
    /// How far reads were behind, over all keys.
    pub staleness: Staleness,
}

/// A key whose operations no order explains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenKey {
    /// The key.
    pub key: String,
    /// What it held at first; null for nothing.
    pub initial: Json,
    /// A short sequence that no order explains, as lines of a history, in the order of their sends.
    pub sequence: Vec<Json>,
}

impl Report {
    pub(crate) fn add(&mut self, other: Self) {
        self.keys += other.keys;
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.linearizable += other.linearizable;
        self.broken.extend(other.broken);
        self.undecided.extend(other.undecided);
        self.staleness.add(&other.staleness);
    }

    /// Sorts keys: threads find them in any order.
    pub(crate) fn sort(&mut self) {
        self.broken.sort_by(|a, b| (a.sequence.len(), &a.key).cmp(&(b.sequence.len(), &b.key)));
        self.undecided.sort();
    }
}

impl fmt::Display for BrokenKey {
    /// One line for each operation: when it was sent and answered, from the first one on, and what it did.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |of: &Json, name: &str| of[name].as_u64();
        let start = self.sequence.iter().filter_map(|of| number(of, "sent_ns")).min().unwrap_or(0);
        writeln!(f, "`{}`, which held {} at first:", self.key, self.initial)?;
        for of in &self.sequence {
            let at = |name: &str| number(of, name).map(|ns| (ns - start) as f64 / 1e6);
            let sent = at("sent_ns").unwrap_or(0.0);
            let answered = at("answered_ns").map_or_else(|| "no answer".to_owned(), |ms| format!("{ms:.3} ms"));
            let value = &of["value"];
            let did = match (of["op"].as_str().unwrap_or_default(), of["outcome"].as_str()) {
                ("read", _) if value.is_null() => "read nothing".to_owned(),
                ("read", _) => format!("read {value}"),
                ("write", _) => format!("wrote {value}"),
                ("delete", _) => "deleted it".to_owned(),
                (_, Some("differs")) => format!("did not find {}", of["expected"]),
                _ => format!("replaced {} by {value}", of["expected"]),
            };
            let client = number(of, "client").unwrap_or(0);
            writeln!(f, "  {sent:>10.3} ms to {answered:>12}  client {client} {did}")?;
        }
        Ok(())
    }
}
