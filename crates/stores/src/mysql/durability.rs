//! What a server guarantees. Its settings are global and need an administrator, so a session can only read them.

use std::collections::HashMap;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use storebench_engine::store::ordered_map::strong_reads;
use storebench_engine::store::{Durability, ReadConsistency, StoreError};

use super::login::Target;

/// The variables that [`Facts`] reads. A server has only some of them.
const VARIABLES: &str = "'version', 'version_comment', 'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', \
     'innodb_doublewrite', 'innodb_flush_method', 'debug_no_sync', 'read_only', 'super_read_only', 'innodb_read_only', \
     'lower_case_table_names', 'max_allowed_packet', 'innodb_page_size', 'rpl_semi_sync_master_enabled', \
     'rpl_semi_sync_source_enabled', 'wsrep_on', 'innodb_snapshot_isolation', 'transaction_isolation', 'tx_isolation'";

/// What a server reports about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts(HashMap<String, String>);

impl Facts {
    /// Asks a server.
    pub(super) async fn ask(target: &Target, conn: &mut Conn, within: Duration) -> Result<Self, StoreError> {
        let asking = Self::ask_now(target, conn);
        tokio::time::timeout(within, asking).await.unwrap_or_else(|_| Err(target.silent(within)))
    }

    async fn ask_now(target: &Target, conn: &mut Conn) -> Result<Self, StoreError> {
        let mut facts = HashMap::new();
        for sql in [
            format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({VARIABLES})"),
            // MySQL's redo log is not switched off by a variable.
            "SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'".to_owned(),
        ] {
            let rows: Vec<(String, String)> =
                conn.query(sql).await.map_err(|error| target.fault("read its version and settings", &error))?;
            facts.extend(rows.into_iter().map(|(name, value)| (name.to_lowercase(), value)));
        }
        Ok(Self(facts))
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn is_on(&self, name: &str) -> bool {
        matches!(self.get(name), "ON" | "1" | "YES")
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name).parse().ok()
    }

    pub(super) fn is_mariadb(&self) -> bool {
        self.get("version").to_lowercase().contains("mariadb")
    }

    /// `MariaDB 10.11.19-MariaDB-0+deb12u1`.
    pub(super) fn version(&self) -> String {
        format!("{} {}", if self.is_mariadb() { "MariaDB" } else { "MySQL" }, self.get("version"))
    }

    /// The first two numbers of the version.
    fn release(&self) -> (u32, u32) {
        let mut numbers = self.get("version").split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// Refuses servers that lack what the driver's statements need.
    pub(super) fn check(&self, place: &str) -> Result<(), StoreError> {
        let oldest = if self.is_mariadb() { (10, 3) } else { (8, 0) };
        if self.release() >= oldest {
            return Ok(());
        }
        Err(StoreError::NotSupported(format!(
            "{place} is {}; MariaDB 10.3, MySQL 8.0, or later is needed: upgrade it, or name another server",
            self.version()
        )))
    }

    /// Whether it accepts no writes of most users, as replicas do.
    fn is_read_only(&self) -> bool {
        ["read_only", "super_read_only", "innodb_read_only"].into_iter().any(|name| self.is_on(name))
    }

    /// Whether names of tables differ in more than upper and lower case.
    pub(super) fn folds_names(&self) -> bool {
        !matches!(self.get("lower_case_table_names"), "" | "0")
    }

    /// Whether REPEATABLE READ can undo one of two transactions that write the same row.
    pub(super) fn has_snapshots(&self) -> bool {
        self.0.contains_key("innodb_snapshot_isolation")
    }

    /// The longest key of our tables, which is that of an index.
    pub(super) fn longest_key_bytes(&self) -> u64 {
        (self.number("innodb_page_size").unwrap_or(16_384) * 3 / 16).min(3_072)
    }

    /// The most bytes of a statement.
    pub(super) fn max_packet(&self) -> usize {
        self.number("max_allowed_packet").map_or(16 << 20, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Whether commits wait for a replica, as long as one answers in time.
    pub(super) fn is_semi_sync(&self) -> bool {
        self.is_on("rpl_semi_sync_master_enabled") || self.is_on("rpl_semi_sync_source_enabled")
    }

    /// Why its reads are not those of what was committed before, and what to do, if so.
    fn not_strong(&self) -> Option<(&'static str, &'static str)> {
        if ["transaction_isolation", "tx_isolation"].iter().any(|name| self.get(name) == "READ-UNCOMMITTED") {
            let why = "runs with transaction_isolation = READ-UNCOMMITTED, and reads what may be rolled back";
            return Some((why, "set READ-COMMITTED there"));
        }
        let lags = "is read-only as replicas are, or a node of a Galera cluster, and may lag behind";
        (self.is_read_only() || self.is_on("wsrep_on")).then_some((lags, "name the primary"))
    }

    /// Why a commit does not survive that the machine loses power, if so.
    fn not_synced(&self) -> Option<String> {
        let is = |name, values: &[&str]| values.iter().any(|value| self.get(name).eq_ignore_ascii_case(value));
        let (flush, binlog) = ("innodb_flush_log_at_trx_commit", "sync_binlog");
        let lost = "and a commit that its binary log lost is rolled back when it starts again";
        let half = "so a page that was half written cannot be repaired";
        let (name, _, why) = [
            (REDO, is(REDO, &["OFF"]), "so it does not start again after a crash"),
            (flush, is(flush, &["0"]), "which writes the log once a second"),
            (flush, is(flush, &["2"]), "which syncs the log once a second"),
            (binlog, self.is_on("log_bin") && !is(binlog, &["1"]), lost),
            ("innodb_doublewrite", is("innodb_doublewrite", &["OFF", "0", "DETECT_ONLY"]), half),
            ("innodb_flush_method", is("innodb_flush_method", &["nosync"]), "which syncs nothing"),
            ("innodb_flush_method", is("innodb_flush_method", &["littlesync"]), "which syncs data rarely"),
            ("debug_no_sync", self.is_on("debug_no_sync"), "which syncs nothing but the log of InnoDB"),
        ]
        .into_iter()
        .find(|(_, is_so, _)| *is_so)?;
        Some(format!("it runs with {name} = {}, {why}", self.get(name)))
    }

    /// What each commit survives.
    fn given(&self) -> Durability {
        match (self.get("innodb_flush_log_at_trx_commit"), self.not_synced()) {
            (_, None) => Durability::FSYNC,
            ("0", _) => Durability::MEMORY,
            _ if self.get(REDO) == "OFF" => Durability::MEMORY,
            _ => Durability::OS,
        }
    }

    /// Checks that sessions on this server give these guarantees. `None` for one that only reads.
    ///
    /// # Errors
    /// `NotSupported` with what the server lacks.
    pub(super) fn guarantee(
        &self,
        place: &str,
        durability: Option<Durability>,
        wanted: ReadConsistency,
    ) -> Result<(), StoreError> {
        if let Some((why, remedy)) = self.not_strong().filter(|_| wanted != ReadConsistency::StaleOk) {
            return Err(StoreError::NotSupported(format!(
                "{place} {why}, so it cannot guarantee `{wanted}` reads; {remedy}, or ask for `stale-ok`"
            )));
        }
        let Some(durability) = durability else { return Ok(()) };
        let given = self.given();
        if durability == given {
            return Ok(());
        }
        let why = match self.not_synced() {
            Some(why) if given.is_at_least(durability) != Some(true) => why,
            _ => format!("its settings give each commit `{given}`, no less and no more"),
        };
        Err(StoreError::NotSupported(format!(
            "{place} cannot guarantee `{durability}`: {why}; change the setting there, or ask for `{given}`"
        )))
    }
}

/// The status of MySQL's redo log.
const REDO: &str = "innodb_redo_log_enabled";

const LEVELS: [(Durability, &str); 3] = [
    (
        Durability::FSYNC,
        "innodb_flush_log_at_trx_commit=1: the log is synced at each commit (needs innodb_doublewrite, and with a binary \
         log sync_binlog=1)",
    ),
    (
        Durability::OS,
        "innodb_flush_log_at_trx_commit=2, or a binary log without sync_binlog=1: the log is written at each commit, and \
         synced about once a second",
    ),
    (
        Durability::MEMORY,
        "innodb_flush_log_at_trx_commit=0: the log is written about once a second; or MySQL's redo log is off",
    ),
];

/// The guarantee of this server, or those of any server if none was asked yet.
pub(super) fn levels(facts: Option<&Facts>) -> Vec<(Durability, &'static str)> {
    LEVELS.into_iter().filter(|(level, _)| facts.is_none_or(|facts| facts.given() == *level)).collect()
}

/// The read consistencies.
pub(super) fn consistency(facts: Option<&Facts>) -> Vec<(ReadConsistency, &'static str)> {
    if let Some((why, _)) = facts.and_then(Facts::not_strong) {
        return vec![(ReadConsistency::StaleOk, why)];
    }
    strong_reads("each statement sees what was committed before it began")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn facts(settings: &[(&str, &str)]) -> Facts {
        Facts(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn settings_give_one_guarantee() {
        let flush = |value| ("innodb_flush_log_at_trx_commit", value);
        for (settings, given, named) in [
            (&[flush("1")][..], Durability::FSYNC, "no less and no more"),
            (&[flush("1"), ("sync_binlog", "0"), ("log_bin", "OFF")], Durability::FSYNC, "no less"),
            (&[flush("1"), ("sync_binlog", "0"), ("log_bin", "ON")], Durability::OS, "sync_binlog = 0"),
            (&[flush("1"), ("sync_binlog", "1"), ("log_bin", "ON")], Durability::FSYNC, "no less"),
            (&[flush("1"), ("innodb_doublewrite", "OFF")], Durability::OS, "innodb_doublewrite = OFF"),
            (&[flush("1"), ("innodb_doublewrite", "DETECT_AND_RECOVER")], Durability::FSYNC, "no less"),
            (&[flush("1"), ("innodb_flush_method", "nosync")], Durability::OS, "syncs nothing"),
            (&[flush("1"), ("innodb_flush_method", "littlesync")], Durability::OS, "littlesync"),
            (&[flush("1"), (REDO, "OFF")], Durability::MEMORY, "innodb_redo_log_enabled = OFF"),
            (&[flush("1"), (REDO, "ON")], Durability::FSYNC, "no less"),
            (&[flush("2")], Durability::OS, "innodb_flush_log_at_trx_commit = 2"),
            (&[flush("0")], Durability::MEMORY, "once a second"),
        ] {
            let facts = facts(settings);
            assert_eq!(levels(Some(&facts))[0].0, given, "{settings:?}");
            assert!(facts.guarantee("h/d", Some(given), ReadConsistency::Strong).is_ok());
            let other = if given == Durability::FSYNC { Durability::OS } else { Durability::FSYNC };
            let error = facts.guarantee("h/d", Some(other), ReadConsistency::Strong).unwrap_err().to_string();
            assert!(error.contains(named), "{settings:?}: {error}");
        }
        for weaker in [("read_only", "ON"), ("tx_isolation", "READ-UNCOMMITTED")] {
            let facts = facts(&[flush("1"), weaker]);
            assert!(facts.guarantee("h/d", None, ReadConsistency::Strong).is_err(), "{weaker:?}");
            assert!(facts.guarantee("h/d", None, ReadConsistency::StaleOk).is_ok());
            assert_eq!(consistency(Some(&facts)).len(), 1);
        }
    }

    #[test]
    fn versions_of_both_families() {
        let of = |version: &str| facts(&[("version", version)]);
        assert!(of("10.11.19-MariaDB-0+deb12u1").check("p").is_ok() && of("10.11.19-MariaDB").is_mariadb());
        assert!(of("8.0.36").check("p").is_ok() && !of("8.4.0").is_mariadb());
        assert!(of("5.7.44-log").check("p").is_err() && of("10.2.1-MariaDB").check("p").is_err());
        assert_eq!(of("8.0.36").longest_key_bytes(), 3_072);
        assert_eq!(facts(&[("innodb_page_size", "4096")]).longest_key_bytes(), 768);
    }
}
