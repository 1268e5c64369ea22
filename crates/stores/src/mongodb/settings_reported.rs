//! How MongoDB says that it is set up.

use ::bson::{Document, doc};
use storebench_engine::store::{StoreError, StoreSettings};
use storebench_study::units::ByteSize;

use super::bson::{DOCUMENT, Members, Value};
use super::control::{ControlConnection, PATIENCE};
use super::decode;
use super::errors::UNAUTHORIZED;
use crate::net::untold_settings;

/// Options of the server on which speed and durability depend; of `setParameter` those of [`PARAMETERS`]. Others say where
/// it listens, logs and keeps its files, with whom it replicates, and who may use it:
/// <https://www.mongodb.com/docs/manual/reference/configuration-options/>.
const OPTIONS: [&str; 2] = ["storage.", "replication.oplogSizeMB"];

/// Options are not nested deeper. Protects this program's stack.
const DEEPEST: u32 = 10;

/// Parameters on which speed and durability depend. Each version has its own of them; the older names of a parameter
/// are asked for too: <https://www.mongodb.com/docs/manual/reference/parameters/>.
const PARAMETERS: [&str; 8] = [
    "journalCommitInterval",
    "storageEngineConcurrencyAdjustmentAlgorithm",
    "storageEngineConcurrentReadTransactions",
    "storageEngineConcurrentWriteTransactions",
    "syncdelay",
    "ttlMonitorSleepSecs",
    "wiredTigerConcurrentReadTransactions",
    "wiredTigerConcurrentWriteTransactions",
];

/// Options with the value that MongoDB is shipped with, as far as all its releases agree on one.
const SHIPPED: [(&str, &str); 12] = [
    ("setParameter.journalCommitInterval", "100"),
    ("setParameter.syncdelay", "60"),
    ("setParameter.ttlMonitorSleepSecs", "60"),
    ("storage.directoryPerDB", "false"),
    ("storage.engine", "wiredTiger"),
    ("storage.journal.commitIntervalMs", "100"),
    ("storage.journal.enabled", "true"),
    ("storage.syncPeriodSecs", "60"),
    ("storage.wiredTiger.collectionConfig.blockCompressor", "snappy"),
    ("storage.wiredTiger.engineConfig.directoryForIndexes", "false"),
    ("storage.wiredTiger.engineConfig.journalCompressor", "snappy"),
    ("storage.wiredTiger.indexConfig.prefixCompression", "true"),
];

/// Adds what a reply says.
type Add = fn(&[u8], &mut StoreSettings);

/// The settings, as far as the server reports them and this user may read them.
///
/// # Errors
/// `NotSupported` if the server tells none, because this user may not read them or because it has none to tell.
pub(super) async fn read(control: &mut ControlConnection<'_>) -> Result<StoreSettings, StoreError> {
    let mut settings = StoreSettings::default();
    let mut wanted = doc! { "getParameter": 1 };
    for name in PARAMETERS {
        wanted.insert(name, 1);
    }
    let asked: [(Document, Add); 3] = [
        (doc! { "getCmdLineOpts": 1 }, add_options),
        (doc! { "serverStatus": 1 }, add_status),
        (wanted, add_parameters),
    ];
    let mut refused = false;
    for (command, add) in asked {
        match control.ask("admin", PATIENCE, command).await? {
            Ok(reply) => add(&reply, &mut settings),
            Err(error) => {
                settings.incomplete = true;
                refused |= error.code == UNAUTHORIZED;
            }
        }
    }
    let silent = settings.all.is_empty() && settings.memory_bytes.is_none();
    if silent { Err(untold_settings(refused)) } else { Ok(settings) }
}

/// Adds the options that the server was started with.
fn add_options(reply: &[u8], settings: &mut StoreSettings) {
    let parsed = Members::of(reply).ok().and_then(|reply| reply.get("parsed")?.members());
    for (name, value) in parsed.into_iter().flatten().filter_map(Result::ok) {
        add_option(name, value, 0, settings);
    }
}

/// Adds an option, or those within it.
fn add_option(name: &str, value: Value<'_>, depth: u32, settings: &mut StoreSettings) {
    if depth > DEEPEST {
        return;
    }
    if let Some(inner) = value.members().filter(|_| value.kind == DOCUMENT) {
        for (part, value) in inner.filter_map(Result::ok) {
            add_option(&format!("{name}.{part}"), value, depth + 1, settings);
        }
    } else if let Some(text) = text(value).filter(|text| is_reported(name) && !is_place(name, text)) {
        // An option that is not given is as shipped.
        let changed = !SHIPPED.contains(&(name, text.as_str()));
        settings.add(name, text, Some(changed));
    }
}

/// Whether an option is one of those that are reported.
fn is_reported(name: &str) -> bool {
    let parameter = name.strip_prefix("setParameter.");
    OPTIONS.iter().any(|option| name.starts_with(option)) || parameter.is_some_and(|name| PARAMETERS.contains(&name))
}

/// Whether an option is a path or a URL.
fn is_place(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("path") || name.ends_with("directory") || value.starts_with('/') || value.contains("://")
}

/// Adds the storage engine and the size of its cache, which the server chooses by the machine's memory unless an option
/// says it.
fn add_status(reply: &[u8], settings: &mut StoreSettings) {
    let Ok(told) = Members::of(reply) else { return };
    if let Some(engine) = told.at(&["storageEngine", "name"]).and_then(|name| name.as_str()) {
        settings.add("storageEngine", engine, None);
    }
    let cache = told.at(&["wiredTiger", "cache", "maximum bytes configured"]).and_then(|bytes| bytes.as_i64());
    if let Some(bytes) = cache.and_then(|bytes| u64::try_from(bytes).ok()).filter(|bytes| *bytes > 0) {
        settings.add("wiredTiger cache", ByteSize(bytes).to_string(), None);
        settings.memory_bytes = Some(bytes);
    }
}

/// Adds the parameters that this server has.
fn add_parameters(reply: &[u8], settings: &mut StoreSettings) {
    let Ok(told) = Members::of(reply) else { return };
    for name in PARAMETERS {
        if let Some(text) = told.get(name).and_then(text) {
            settings.add(name, text, None);
        }
    }
}

/// A value as a person reads it: text as it is, whole numbers without decimals, anything else as JSON.
fn text(value: Value<'_>) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    if let Some(number) = value.as_i64() {
        return Some(number.to_string());
    }
    let mut out = Vec::new();
    decode::write(value, &mut out, 0).ok()?;
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one of the functions adds from a reply.
    fn added(add: Add, reply: Document) -> (Vec<String>, Option<u64>) {
        let mut settings = StoreSettings::default();
        add(&reply.to_vec().unwrap(), &mut settings);
        let shown = settings.all.iter().map(|of| format!("{} {} {:?}", of.name, of.value, of.changed));
        (shown.collect(), settings.memory_bytes)
    }

    #[test]
    fn options_are_flat_and_tell_no_place() {
        let parsed = doc! {
            "config": "/etc/mongod.conf",
            "net": { "port": 27017, "bindIp": "10.0.0.1" },
            "security": { "keyFile": "/etc/key", "authorization": "enabled" },
            "setParameter": { "ttlMonitorSleepSecs": "1", "diagnosticDataCollectionDirectoryPath": "var" },
            "storage": {
                "dbPath": "/data", "directoryPerDB": true,
                "wiredTiger": { "engineConfig": { "cacheSizeGB": 0.25 } },
            },
            "replication": { "oplogSizeMB": 512.0 },
            "systemLog": { "path": "/var/log/mongod.log" },
        };
        let (all, memory) = added(add_options, doc! { "argv": ["mongod"], "parsed": parsed, "ok": 1.0 });
        let expected = [
            "replication.oplogSizeMB 512 Some(true)",
            "setParameter.ttlMonitorSleepSecs 1 Some(true)",
            "storage.directoryPerDB true Some(true)",
            "storage.wiredTiger.engineConfig.cacheSizeGB 0.25 Some(true)",
        ];
        assert_eq!((all, memory), (expected.map(str::to_owned).to_vec(), None));
    }

    #[test]
    fn an_option_may_be_given_as_it_is_shipped() {
        let parsed = doc! {
            "setParameter": { "syncdelay": "60" },
            "storage": { "engine": "wiredTiger", "directoryPerDB": false, "journal": { "enabled": true } },
        };
        let (all, _) = added(add_options, doc! { "parsed": parsed, "ok": 1.0 });
        let expected = [
            "setParameter.syncdelay 60 Some(false)",
            "storage.directoryPerDB false Some(false)",
            "storage.engine wiredTiger Some(false)",
            "storage.journal.enabled true Some(false)",
        ];
        assert_eq!(all, expected);
        assert!(SHIPPED.iter().all(|(name, value)| is_reported(name) && !is_place(name, value)));
    }

    #[test]
    fn the_cache_is_the_memory() {
        let status = doc! {
            "storageEngine": { "name": "wiredTiger" },
            "wiredTiger": { "cache": { "maximum bytes configured": 268_435_456.0 } },
        };
        let (all, memory) = added(add_status, status);
        assert_eq!(all, ["storageEngine wiredTiger None", "wiredTiger cache 256MiB None"]);
        assert_eq!(memory, Some(256 << 20));
        assert_eq!(added(add_status, doc! { "ok": 1.0 }), (Vec::new(), None));
    }

    #[test]
    fn only_parameters_that_were_asked_for_are_told() {
        let (all, _) = added(add_parameters, doc! { "syncdelay": 60.0, "clusterTime": 7, "ok": 1.0 });
        assert_eq!(all, ["syncdelay 60 None"]);
    }

    #[test]
    fn garbage_says_nothing() {
        for add in [add_options, add_status, add_parameters] {
            for reply in [&b""[..], &[5, 0, 0, 0, 0], &[9, 0, 0, 0, 3, b'p', 0, 1, 0]] {
                let mut settings = StoreSettings::default();
                add(reply, &mut settings);
                assert_eq!(settings, StoreSettings::default());
            }
        }
    }
}
