//! What a server guarantees, and the `synchronous_commit` that a session needs for it
//! (<https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-SYNCHRONOUS-COMMIT>).

use storebench_engine::store::ordered_map::strong_reads;
use storebench_engine::store::{Acknowledged, Durability, Persisted, ReadConsistency, StoreError};

use super::channel::Row;

/// What a server reports about itself, as far as guarantees depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Facts {
    /// `PostgreSQL 15.18 (Debian …)`.
    pub(super) version: String,
    /// `150018`.
    pub(super) version_number: u32,
    pub(super) encoding: String,
    /// Whether the server is a standby.
    pub(super) in_recovery: bool,
    pub(super) fsync: bool,
    /// The value of `synchronous_standby_names`.
    pub(super) standby_names: String,
    /// Standbys that take part in commits now. `None` if this user may not see them.
    pub(super) standbys: Option<u32>,
}

/// The statement whose only row [`Facts::read`] reads.
pub(super) const FACTS: &str = "SELECT split_part(version(), ' on ', 1), current_setting('server_version_num'), \
     current_setting('server_encoding'), pg_is_in_recovery(), current_setting('fsync'), \
     current_setting('synchronous_standby_names'), \
     (SELECT CASE WHEN count(*) = count(sync_state) THEN count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) END \
      FROM pg_stat_replication)";

/// The oldest version that has the catalogs and statements used here.
const OLDEST: u32 = 120_000;

impl Facts {
    /// Reads the row of [`FACTS`].
    pub(super) fn read(rows: &[Row]) -> Option<Self> {
        let row = rows.last()?;
        let text = |at: usize| row.get(at).cloned().flatten();
        Some(Self {
            version: text(0)?,
            version_number: text(1)?.parse().ok()?,
            encoding: text(2)?,
            in_recovery: text(3)? == "t",
            fsync: text(4)? == "on",
            standby_names: text(5)?,
            standbys: text(6).and_then(|n| n.parse().ok()),
        })
    }

    /// Refuses servers that cannot fulfil the contract.
    pub(super) fn check(&self, place: &str) -> Result<(), StoreError> {
        if self.version_number < OLDEST {
            return Err(StoreError::NotSupported(format!(
                "{place} is {}; PostgreSQL 12 or later is needed: upgrade it, or name another server",
                self.version
            )));
        }
        if self.encoding != "UTF8" {
            return Err(StoreError::NotSupported(format!(
                "{place} has the encoding {}, which cannot store every key and document; create a database with \
                 `createdb --encoding=UTF8 --template=template0` and use that",
                self.encoding
            )));
        }
        Ok(())
    }

    /// How many standbys a commit waits for.
    pub(super) fn waits_for(&self) -> u32 {
        standbys_waited_for(&self.standby_names)
    }
}

/// What a session was opened to guarantee.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guarantee {
    /// `None` for a session that only reads.
    pub(super) durability: Option<Durability>,
    pub(super) consistency: ReadConsistency,
    pub(super) apply: bool,
}

impl Guarantee {
    /// Whether writes are acknowledged by standbys too.
    pub(super) fn waits_for_standbys(&self) -> bool {
        self.durability.is_some_and(|durability| durability.acknowledged_by != Acknowledged::Nodes(1))
    }

    /// The settings with which a session on this server keeps the guarantee. `rows` are those of [`FACTS`]. `again`:
    /// the session was connected before, so missing standbys are no error, and each commit waits for them.
    ///
    /// # Errors
    /// `NotSupported` with what the server lacks. `Unreachable` if it is not PostgreSQL.
    pub(super) fn settings(&self, place: &str, rows: &[Row], again: bool) -> Result<String, StoreError> {
        let mut facts = Facts::read(rows)
            .ok_or_else(|| StoreError::Unreachable(format!("{place}: the server is not PostgreSQL")))?;
        if again {
            facts.standbys = None;
        }
        let offered = consistency(Some(&facts));
        if !offered.iter().any(|(consistency, _)| *consistency == self.consistency) {
            return Err(StoreError::NotSupported(format!(
                "{place} is a standby, which may lag behind: it cannot guarantee `{}` reads; name the primary, or ask for \
                 `stale-ok`",
                self.consistency
            )));
        }
        let mut sets = String::from("SET default_transaction_isolation = 'read committed'");
        match self.durability {
            None => sets += "; SET default_transaction_read_only = on",
            Some(_) if facts.in_recovery => {
                return Err(StoreError::NotSupported(format!(
                    "{place} is a standby, which accepts no writes; name the primary"
                )));
            }
            Some(durability) => {
                let setting = setting(place, &facts, durability, self.apply)?;
                sets += &format!("; SET synchronous_commit = {setting}");
            }
        }
        Ok(sets)
    }
}

/// How many standbys `synchronous_standby_names` makes a commit wait for: `FIRST 2 (a, b, c)`,
/// `ANY 1 (a, b)`, `2 (a, b)`; a list alone is `FIRST 1`.
fn standbys_waited_for(setting: &str) -> u32 {
    let setting = setting.trim();
    if setting.is_empty() {
        return 0;
    }
    let Some((head, _)) = setting.split_once('(') else { return 1 };
    head.split_whitespace().last().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// The setting of `synchronous_commit` for a guarantee, and what it means.
type Level = (Durability, &'static str, &'static str);

const ALONE: [Level; 2] = [
    (
        Durability::MEMORY,
        "off",
        "synchronous_commit=off: the log is written up to 3 × wal_writer_delay (600 ms) after the acknowledgement",
    ),
    (Durability::FSYNC, "local", "synchronous_commit=local: the log is synced at each commit (needs fsync=on)"),
];

const REMOTE_WRITE: &str = "synchronous_commit=remote_write (with ?apply=yes: remote_apply): synced on the primary, \
     and handed to the operating system of the synchronous standbys";
const REMOTE_FLUSH: &str = "synchronous_commit=on (with ?apply=yes: remote_apply, so reads on the standbys see the \
     write too): synced on the primary and on the synchronous standbys";

fn nodes(n: u32, persisted: Persisted, on: u32) -> Durability {
    Durability { acknowledged_by: Acknowledged::Nodes(n), persisted, on }
}

fn with_standbys(standbys: u32, apply: bool) -> [Level; 3] {
    let n = standbys + 1;
    let (write, flush) = if apply { ("remote_apply", "remote_apply") } else { ("remote_write", "on") };
    [
        (nodes(n, Persisted::Disk, 1), write, REMOTE_WRITE),
        (nodes(n, Persisted::Os, n), write, REMOTE_WRITE),
        (nodes(n, Persisted::Disk, n), flush, REMOTE_FLUSH),
    ]
}

/// The guarantees of this server, or of any server if none was asked yet.
pub(super) fn levels(facts: Option<&Facts>, apply: bool) -> Vec<Level> {
    let mut levels = ALONE.to_vec();
    match facts {
        None => {
            levels.extend(with_standbys(1, apply));
            levels.extend(with_standbys(2, apply));
        }
        Some(facts) => {
            if !facts.fsync {
                levels.truncate(1);
            } else if facts.waits_for() > 0 {
                levels.extend(with_standbys(facts.waits_for(), apply));
            }
        }
    }
    levels
}

/// The read consistencies. A standby may lag behind.
pub(super) fn consistency(facts: Option<&Facts>) -> Vec<(ReadConsistency, &'static str)> {
    if facts.is_some_and(|facts| facts.in_recovery) {
        return vec![(ReadConsistency::StaleOk, "this server is a standby and may lag behind its primary")];
    }
    strong_reads("each statement sees what was committed before it began (READ COMMITTED)")
}

/// The value of `synchronous_commit` with which a session on this server gives this guarantee.
///
/// # Errors
/// `NotSupported` with what the server lacks.
pub(super) fn setting(place: &str, facts: &Facts, wanted: Durability, apply: bool) -> Result<&'static str, StoreError> {
    let refused = |why: &str| Err(StoreError::NotSupported(format!("{place} cannot guarantee `{wanted}`: {why}")));
    let waits_for = facts.waits_for();
    if let Some((_, setting, _)) = levels(Some(facts), apply).into_iter().find(|(offered, ..)| *offered == wanted) {
        // Each commit would wait for them until the timeout.
        return match facts.standbys {
            Some(there) if there < waits_for && matches!(wanted.acknowledged_by, Acknowledged::Nodes(n) if n > 1) => {
                refused(&format!(
                    "its synchronous_standby_names = '{}' waits for {waits_for} standbys, but only {there} take part \
                     now; start them, or change the setting",
                    facts.standby_names
                ))
            }
            _ => Ok(setting),
        };
    }
    match wanted.acknowledged_by {
        _ if !facts.fsync && wanted.persisted == Persisted::Disk => {
            refused("it runs with fsync=off, which syncs nothing; set fsync=on, or ask for `none`")
        }
        Acknowledged::Nodes(1) => refused(
            "PostgreSQL syncs its log at a commit (`fsync`) or writes it some time later (`none`), nothing in between",
        ),
        Acknowledged::Nodes(n) if waits_for == 0 => refused(&format!(
            "its synchronous_standby_names is empty, so a commit waits for no standby; name {} standbys there, or ask \
             for `fsync`",
            n - 1
        )),
        Acknowledged::Nodes(n) if n != waits_for + 1 => refused(&format!(
            "its synchronous_standby_names = '{}' makes a commit wait for {waits_for}; ask for acknowledged_by = \
             {}, or change the setting",
            facts.standby_names,
            waits_for + 1
        )),
        Acknowledged::Nodes(n) => refused(&format!(
            "ask for persisted = \"disk\" with on = 1 (remote_write) or on = {n} (on), or for persisted = \"os\" \
             with on = {n}"
        )),
        Acknowledged::Majority => {
            refused("a server does not know how many standbys exist; ask for acknowledged_by = 2 or more")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(names: &str, fsync: bool, standbys: Option<u32>) -> Facts {
        Facts { standby_names: names.into(), fsync, standbys, ..Facts::default() }
    }

    #[test]
    fn standby_names_are_read() {
        for (setting, expected) in [
            ("", 0),
            ("*", 1),
            ("a, b", 1),
            ("FIRST 2 (a, b, c)", 2),
            ("ANY 3 (*)", 3),
            ("2 (a,b)", 2),
            ("any 1(a, b)", 1),
        ] {
            assert_eq!(standbys_waited_for(setting), expected, "{setting}");
        }
    }

    #[test]
    fn each_guarantee_has_its_setting_or_a_remedy() {
        let two = |persisted, on| nodes(2, persisted, on);
        let standby = facts("*", true, Some(1));
        let set = |facts: &Facts, wanted, apply| setting("h/d", facts, wanted, apply).map_err(|e| e.to_string());
        assert_eq!(set(&standby, Durability::MEMORY, false), Ok("off"));
        assert_eq!(set(&standby, Durability::FSYNC, false), Ok("local"));
        assert_eq!(set(&standby, two(Persisted::Disk, 1), false), Ok("remote_write"));
        assert_eq!(set(&standby, two(Persisted::Os, 2), false), Ok("remote_write"));
        assert_eq!(set(&standby, two(Persisted::Disk, 2), false), Ok("on"));
        assert_eq!(set(&standby, two(Persisted::Disk, 2), true), Ok("remote_apply"));
        let alone = facts("", true, Some(0));
        for (facts, wanted, remedy) in [
            (&alone, two(Persisted::Disk, 2), "synchronous_standby_names is empty"),
            (&alone, Durability::OS, "nothing in between"),
            (&alone, Durability::MAJORITY, "acknowledged_by = 2"),
            (&standby, nodes(3, Persisted::Disk, 3), "acknowledged_by = 2"),
            (&facts("ANY 2 (*)", true, Some(1)), nodes(3, Persisted::Disk, 3), "1 take part now"),
            (&facts("*", false, Some(1)), Durability::FSYNC, "fsync=off"),
        ] {
            let error = set(facts, wanted, false).unwrap_err();
            assert!(error.contains(remedy), "{wanted}: {error}");
        }
        assert_eq!(set(&facts("*", true, None), two(Persisted::Disk, 2), false), Ok("on"), "what cannot be seen");
    }
}
