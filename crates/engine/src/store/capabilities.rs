//! What a store can do, declared before a run starts.

use std::time::Duration;

use super::{Durability, DurabilityRequest, OpKind, ReadConsistency, RowsKind, Transactions};
use storebench_study::workload::Language;

/// How a driver provides one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// With an operation of the store that has this meaning.
    Native,
    /// Built from several requests or a weaker primitive; the text says how.
    Approximated(&'static str),
}

/// What a store can do, declared before a run starts.
#[derive(Debug, Clone, Default)]
pub struct Capabilities {
    /// The operations it can do, and how. Operations that are missing are refused.
    pub operations: Vec<(OpKind, Support)>,
    /// Why it cannot do some of those that are missing, if that is due to this server.
    pub why_not: Vec<(OpKind, &'static str)>,
    /// The durability levels it can guarantee, and the settings for each. Levels that are missing are refused.
    pub durability: Vec<(Durability, &'static str)>,
    /// Why it guarantees no more, if that is due to this server.
    pub why_no_more: Option<&'static str>,
    /// Which of them the store gives as it is shipped, without a setting of the user or of the client.
    pub shipped_durability: Durability,
    /// The read consistencies it can guarantee, and how.
    pub consistency: Vec<(ReadConsistency, &'static str)>,
    /// What it can do in transactions.
    pub transactions: Transactions,
    /// Whether secondary indexes can be created.
    pub indexes: bool,
    /// Whether an operation that exceeds its timeout is given up. Otherwise (an embedded store) the call returns when
    /// it is done, and its outcome is known.
    pub gives_up_at_timeout: bool,
    /// Whether inserting many documents is far faster than overwriting them. Documents that may be new or old are then
    /// inserted first.
    pub inserts_faster: bool,
    /// Whether store and client share one process.
    pub embedded: bool,
    /// Whether a database that is open cannot be opened once more, not even by the same process.
    pub opened_once: bool,
    /// The longest key, if that is less than 250 bytes. Longer keys are refused.
    pub longest_key_bytes: Option<usize>,
    /// How long an expired document may still be read, if that is more than a minute.
    pub expires_late_by: Option<Duration>,
    /// Top-level members that belong to the store: documents that it reads have them. They are left out when a document
    /// is written into another store.
    pub own_members: &'static [&'static str],
    /// Top-level members that a document must not have when it is written, because the store reserves them. A name that
    /// ends with `*` stands for all names with that beginning.
    pub reserved_members: &'static [&'static str],
    /// Whether it keeps one of several members with the same name, or none may tell which one is read. A copy rejects
    /// such documents.
    pub unique_names: bool,
    /// The top-level member that lists attachments, which are not part of what is read.
    pub attachments_member: Option<&'static str>,
    /// The kinds of rows that it streams.
    pub rows: &'static [RowsKind],
    /// The language of its own queries, for [`OpKind::Query`].
    pub language: Option<Language>,
    /// What a user should know, one sentence each.
    pub notes: Vec<&'static str>,
}

impl Capabilities {
    /// Whether the store reserves top-level members of this name.
    pub fn reserves(&self, member: &str) -> bool {
        self.reserved_members.iter().any(|reserved| match reserved.strip_suffix('*') {
            Some(beginning) => member.starts_with(beginning),
            None => member == *reserved,
        })
    }

    /// How it does an operation, if it can.
    pub fn supports(&self, kind: OpKind) -> Option<Support> {
        self.operations.iter().find(|(k, _)| *k == kind).map(|(_, s)| *s)
    }

    /// Says that an operation is missing, after the words "this store", and why if that is known.
    pub fn lacks(&self, kind: OpKind) -> String {
        let why = self.why_not.iter().find(|(other, _)| *other == kind).map(|(_, why)| format!(": {why}"));
        format!("does not support `{kind}`{}", why.unwrap_or_default())
    }

    /// The default durability and its setting: the strongest of fsync, os and none that can be guaranteed, or else the
    /// first that can.
    pub fn default_durability(&self) -> Option<(Durability, &'static str)> {
        [Durability::FSYNC, Durability::OS, Durability::MEMORY]
            .into_iter()
            .find_map(|level| self.guarantees(level).map(|means| (level, means)))
            .or_else(|| self.durability.first().copied())
    }

    /// The default read consistency: the strongest.
    pub fn default_consistency(&self) -> ReadConsistency {
        [ReadConsistency::Strong, ReadConsistency::Session, ReadConsistency::StaleOk]
            .into_iter()
            .find(|wanted| self.consistency.iter().any(|(have, _)| have == wanted))
            .unwrap_or_default()
    }

    /// The durability that fulfils a request, and its setting: for a floor, the weakest at or above it.
    ///
    /// # Errors
    /// Text that says what the store cannot guarantee, and which flag it can fulfil.
    pub fn durability_for(&self, request: DurabilityRequest) -> Result<(Durability, &'static str), String> {
        let exactly = |level| self.guarantees(level).map(|means| (level, means));
        let found = match request {
            DurabilityRequest::Exactly(level) => exactly(level),
            DurabilityRequest::AsShipped => exactly(self.shipped_durability),
            // The first of the weakest, because the others cost the same.
            DurabilityRequest::AtLeast(floor) => {
                let enough = self.durability.iter().filter(|(level, _)| level.is_at_least(floor) == Some(true));
                enough.min_by_key(|(level, _)| level.cost()).copied()
            }
        };
        found.ok_or_else(|| self.cannot_guarantee(request))
    }

    fn cannot_guarantee(&self, request: DurabilityRequest) -> String {
        let (asked, unordered) = match request {
            DurabilityRequest::AtLeast(floor) => {
                let unknown = |(level, _): &&(Durability, _)| level.is_at_least(floor).is_none();
                (floor.to_string(), self.durability.iter().find(unknown))
            }
            other => (other.to_string(), None),
        };
        if let Some((level, _)) = unordered {
            return format!(
                "this store cannot guarantee durability `{asked}`, but `{level}`; which of the two is more depends on the \
                 number of replicas. To accept it: --durability '{}'",
                level.written()
            );
        }
        let levels: Vec<_> = self.durability.iter().map(|(level, _)| level.to_string()).collect();
        let strongest = self.default_durability().map(|(level, _)| level.written());
        let remedy =
            strongest.map_or_else(String::new, |level| format!(". To run with one of these: --durability '{level}'"));
        let why = self.why_no_more.map_or_else(String::new, |why| format!(", because {why}"));
        format!("this store cannot guarantee durability `{asked}`{why}; supported: {}{remedy}", levels.join("; "))
    }

    /// The setting for a durability level, if it can be guaranteed.
    pub fn guarantees(&self, durability: Durability) -> Option<&'static str> {
        self.durability.iter().find(|(d, _)| *d == durability).map(|(_, text)| *text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Acknowledged, Persisted};

    #[test]
    fn a_durability_is_a_floor() {
        let of = |acknowledged_by, persisted, on| Durability { acknowledged_by, persisted, on };
        let majority = of(Acknowledged::Majority, Persisted::Disk, 1);
        let two = of(Acknowledged::Nodes(2), Persisted::None, 0);
        let can = |levels: &[Durability], shipped_durability| {
            let durability = levels.iter().map(|level| (*level, "a setting")).collect();
            Capabilities { durability, shipped_durability, ..Capabilities::default() }
        };
        let given =
            |can: &Capabilities, asked: &str| can.durability_for(asked.parse().unwrap()).map(|(level, _)| level);
        // PostgreSQL has no level between memory and the disk.
        let postgres = can(&[Durability::MEMORY, Durability::FSYNC], Durability::FSYNC);
        assert_eq!(given(&postgres, "os"), Ok(Durability::FSYNC));
        assert_eq!(given(&postgres, "none"), Ok(Durability::MEMORY));
        assert_eq!(given(&postgres, "default"), Ok(Durability::FSYNC));
        assert_eq!(
            given(&postgres, "{ exactly = \"os\" }").unwrap_err(),
            "this store cannot guarantee durability `exactly os`; supported: none; fsync. To run with one of these: \
             --durability 'fsync'"
        );
        // Couchbase: memory, or the memory of a majority and the disk of the active copy.
        let couchbase = can(&[Durability::MEMORY, Durability::MAJORITY, majority, two], Durability::MEMORY);
        assert_eq!(given(&couchbase, "os"), Ok(majority));
        assert_eq!(given(&couchbase, "fsync"), Ok(majority));
        assert_eq!(given(&couchbase, "{ acknowledged_by = 2, persisted = \"none\" }"), Ok(two));
        // The weakest of several, whatever their order.
        let all = can(&[two, Durability::FSYNC, Durability::OS], Durability::OS);
        assert_eq!(given(&all, "none"), Ok(Durability::OS));
        let couchdb = can(&[Durability::FSYNC, Durability::MAJORITY], Durability::FSYNC);
        assert_eq!(
            given(&couchdb, "{ acknowledged_by = 2, persisted = \"none\" }").unwrap_err(),
            "this store cannot guarantee durability `acknowledged by 2, persisted none`, but `majority`; which of the two \
             is more depends on the number of replicas. To accept it: --durability 'majority'"
        );
        assert!(
            given(&can(&[Durability::MEMORY], Durability::MEMORY), "os").unwrap_err().ends_with("--durability 'none'")
        );
    }
}
