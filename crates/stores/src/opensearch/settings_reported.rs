//! How OpenSearch and Elasticsearch say that they are set up.

use serde_json::Value;
use storebench_engine::store::StoreSettings;

/// Beginnings of the names of settings on which speed and durability depend.
const BEGINNINGS: [&str; 6] =
    ["action.auto_create_index", "http.compression", "http.max_content", "indexing_pressure.", "indices.", "search."];
/// The same for settings of an index.
const OF_INDEX: [&str; 7] = [
    "index.codec",
    "index.max_result_window",
    "index.merge.",
    "index.number_of_",
    "index.refresh_interval",
    "index.sort.",
    "index.translog.",
];

/// The settings of the cluster. Those of a node's file are among the defaults, so whether they were changed is unknown.
pub(super) fn of_cluster(told: &Value) -> StoreSettings {
    let mut settings = StoreSettings::default();
    for (part, changed) in [("transient", Some(true)), ("persistent", Some(true)), ("defaults", None)] {
        add(&mut settings, "", &told[part], &BEGINNINGS, changed);
    }
    settings
}

/// Adds the settings of an index.
pub(super) fn add_index(settings: &mut StoreSettings, collection: &str, told: &Value) {
    for (part, changed) in [("settings", Some(true)), ("defaults", Some(false))] {
        add(settings, &format!("{collection}/"), &told[part], &OF_INDEX, changed);
    }
}

fn add(settings: &mut StoreSettings, before: &str, told: &Value, kept: &[&str], changed: Option<bool>) {
    for (name, value) in told.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let full = format!("{before}{name}");
        let known = settings.all.iter().any(|other| other.name == full);
        // A place is nobody's business.
        let place = text.contains("://") || text.starts_with('/');
        if kept.iter().any(|beginning| name.starts_with(beginning)) && !known && !place && text != "[]" {
            settings.add(full, text, changed);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_matters_is_told() {
        let cluster = json!({
            "persistent": { "indices.recovery.max_bytes_per_sec": "10mb", "cluster.remote.b.seeds": ["10.0.0.1:9300"] },
            "transient": {},
            "defaults": {
                "indices.recovery.max_bytes_per_sec": "40mb",
                "http.max_content_length": "100mb",
                "path.data": ["/data"],
                "plugins.security.ssl.keystore_password": "hush",
                "reindex.remote.allowlist": ["10.0.0.1"],
            },
        });
        let mut told = of_cluster(&cluster);
        let index = json!({
            "settings": { "index.number_of_replicas": "1", "index.uuid": "x" },
            "defaults": { "index.translog.durability": "REQUEST" },
        });
        add_index(&mut told, "a", &index);
        let shown: Vec<_> = told.all.iter().map(|of| (&*of.name, &*of.value, of.changed)).collect();
        let expected = [
            ("a/index.number_of_replicas", "1", Some(true)),
            ("a/index.translog.durability", "REQUEST", Some(false)),
            ("http.max_content_length", "100mb", None),
            ("indices.recovery.max_bytes_per_sec", "10mb", Some(true)),
        ];
        assert_eq!(shown, expected);
        assert_eq!(of_cluster(&json!([1])), StoreSettings::default());
    }
}
