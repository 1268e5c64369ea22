//! What was found about all keys of a history.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::{EARLIER, Staleness};

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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// An operation of a sequence that no order explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The client, in words.
    pub client: String,
    /// When it was sent, in ns since the first one of the sequence was.
    pub sent_ns: u64,
    /// When it was answered, in ns since the first one of the sequence was sent. `None` if it never was.
    pub answered_ns: Option<u64>,
    /// What it did, in words.
    pub did: String,
}

impl BrokenKey {
    /// The sequence, in the order of the sends.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        let start = self.sequence.iter().filter_map(|of| of["sent_ns"].as_u64()).min().unwrap_or(0);
        self.sequence.iter().map(move |of| {
            let at = |name: &str| of[name].as_u64();
            let value = &of["value"];
            let did = match (of["op"].as_str().unwrap_or_default(), of["outcome"].as_str()) {
                ("read", _) if value.is_null() => "read nothing".to_owned(),
                ("read", _) => format!("read {value}"),
                ("write", _) => format!("wrote {value}"),
                ("delete", _) => "deleted it".to_owned(),
                (_, Some("differs")) => format!("did not find {}", of["expected"]),
                _ => format!("replaced {} by {value}", of["expected"]),
            };
            Step {
                client: match at("client") {
                    Some(client) if client == u64::from(EARLIER) => "an earlier client".to_owned(),
                    client => format!("client {}", client.unwrap_or(0)),
                },
                sent_ns: at("sent_ns").unwrap_or(start) - start,
                answered_ns: at("answered_ns").map(|ns| ns - start),
                did,
            }
        })
    }
}

impl fmt::Display for BrokenKey {
    /// One line for each operation: when it was sent and answered, from the first one on, and what it did.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        writeln!(f, "`{}`, which held {} at first:", self.key, self.initial)?;
        for Step { client, sent_ns, answered_ns, did } in self.steps() {
            let answered = answered_ns.map_or_else(|| "no answer".to_owned(), |ns| format!("{:.3} ms", ms(ns)));
            writeln!(f, "  {:>10.3} ms to {answered:>12}  {client} {did}", ms(sent_ns))?;
        }
        Ok(())
    }
}
