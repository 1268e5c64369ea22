//! How CouchDB says that it is set up.

use serde_json::Value;
use storebench_engine::store::StoreSettings;

/// Sections of the configuration on which speed and durability depend:
/// <https://docs.couchdb.org/en/stable/config/index.html>.
const SECTIONS: [&str; 5] = ["fabric", "ken", "mango", "rexi", "view_updater"];
/// Beginnings of the names of further ones.
const BEGINNINGS: [&str; 2] = ["ioq", "smoosh"];
/// Settings of sections that otherwise tell addresses, ports and users, or hold what an operator has added.
const ALONE: [(&str, &[&str]); 4] = [
    ("chttpd", &["buffer_response", "max_http_request_size"]),
    ("cluster", &["n", "q", "r", "w"]),
    (
        "couchdb",
        &[
            "attachment_stream_buffer_size",
            "btree_chunk_size",
            "changes_doc_ids_optimization_threshold",
            "default_engine",
            "delayed_commits",
            "enable_database_recovery",
            "file_compression",
            "js_engine",
            "maintenance_mode",
            "max_attachment_size",
            "max_dbs_open",
            "max_document_size",
            "os_process_timeout",
            "single_node",
            "update_lru_on_read",
        ],
    ),
    (
        "query_server_config",
        &[
            "commit_freq",
            "os_process_idle_limit",
            "os_process_limit",
            "os_process_soft_limit",
            "partition_query_limit",
            "query_limit",
            "reduce_limit",
            "reduce_limit_ratio",
            "reduce_limit_threshold",
        ],
    ),
];
/// Parts of names of settings that tell a place, a user or an identity.
const LEFT_OUT: [&str; 4] = ["_dir", "security", "users", "uuid"];

/// The settings in a configuration. CouchDB does not say which of them were changed, nor has it a cache of documents.
pub(super) fn of(configuration: &Value) -> StoreSettings {
    let mut settings = StoreSettings::default();
    for (section, members) in configuration.as_object().into_iter().flatten() {
        for (name, value) in members.as_object().into_iter().flatten() {
            if let Some(value) = value.as_str().filter(|value| is_kept(section, name, value)) {
                settings.add(format!("{section}/{name}"), value, None);
            }
        }
    }
    settings
}

fn is_kept(section: &str, name: &str, value: &str) -> bool {
    let whole = SECTIONS.contains(&section)
        || BEGINNINGS.iter().any(|beginning| section.starts_with(*beginning))
        || section.ends_with("_compaction");
    let tells_a_place = LEFT_OUT.iter().any(|part| name.contains(*part))
        || name.ends_with("_file")
        || value.starts_with('/')
        || value.contains("://");
    let alone = ALONE.iter().any(|(other, names)| *other == section && names.contains(&name));
    (whole || alone) && !tells_a_place
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_matters_is_told() {
        let configuration = json!({
            "admins": { "ann": "-pbkdf2-0a" },
            "chttpd": { "bind_address": "10.0.0.1", "port": "5984", "max_http_request_size": "4294967296" },
            "chttpd_auth": { "secret": "hush" },
            "cluster": { "n": "3", "q": "2", "seedlist": "couchdb@one" },
            "couchdb": {
                "uuid": "0a", "database_dir": "./data", "uri_file": "./couch.uri", "file_compression": "snappy",
                "max_document_size": "8000000", "users_db_suffix": "_users", "note": "hush", "my_api_key": "hush",
            },
            "query_server_config": { "upstream": "ann:hush@10.0.0.1:5984", "reduce_limit": "true" },
            "database_compaction": { "doc_buffer_size": "524288" },
            "ioq.bypass": { "os_process": "true" },
            "log": { "file": "/var/log/couch.log" },
            "smoosh.ratio_dbs": { "min_priority": "2.0" },
            "ssl": { "key_file": "/etc/key" },
            "vendor": { "name": "The Apache Software Foundation" },
        });
        let told = of(&configuration);
        let shown: Vec<String> = told.all.iter().map(|of| format!("{} = {}", of.name, of.value)).collect();
        let expected = [
            "chttpd/max_http_request_size = 4294967296",
            "cluster/n = 3",
            "cluster/q = 2",
            "couchdb/file_compression = snappy",
            "couchdb/max_document_size = 8000000",
            "database_compaction/doc_buffer_size = 524288",
            "ioq.bypass/os_process = true",
            "query_server_config/reduce_limit = true",
            "smoosh.ratio_dbs/min_priority = 2.0",
        ];
        assert_eq!(shown, expected);
        assert!(told.all.iter().all(|of| of.changed.is_none()) && told.memory_bytes.is_none());
    }

    #[test]
    fn another_answer_says_nothing() {
        for answer in [json!(null), json!([1]), json!({ "couchdb": 7 }), json!({ "couchdb": { "q": 8 } })] {
            assert_eq!(of(&answer), StoreSettings::default(), "{answer}");
        }
    }
}
