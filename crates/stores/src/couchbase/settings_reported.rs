//! How Couchbase says that a bucket is set up.

use serde_json::Value;
use storebench_engine::store::StoreSettings;
use storebench_study::units::ByteSize;

/// The settings of a bucket on which speed, memory and durability depend:
/// <https://docs.couchbase.com/server/current/rest-api/rest-bucket-info.html>.
const NAMES: [&str; 9] = [
    "bucketType",
    "compressionMode",
    "conflictResolutionType",
    "durabilityMinLevel",
    "evictionPolicy",
    "maxTTL",
    "replicaNumber",
    "storageBackend",
    "threadsNumber",
];

/// The settings in what the cluster tells of a bucket. It does not say which of them were changed. The memory is what
/// the bucket has on all nodes.
pub(super) fn of(bucket: &Value) -> StoreSettings {
    let mut settings = StoreSettings::default();
    for name in NAMES {
        match &bucket[name] {
            Value::String(text) => settings.add(name, text.as_str(), None),
            value @ (Value::Number(_) | Value::Bool(_)) => settings.add(name, value.to_string(), None),
            _ => {}
        }
    }
    let quota = |name: &str| bucket["quota"][name].as_u64().filter(|bytes| *bytes > 0);
    settings.memory_bytes = quota("ram");
    if let Some(of_a_node) = quota("rawRAM") {
        settings.add("ramQuota", ByteSize(of_a_node).to_string(), None);
    }
    settings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_quota_of_all_nodes_is_the_memory() {
        let told = of(&json!({
            "name": "b", "uuid": "0a", "bucketType": "membase", "replicaNumber": 1, "threadsNumber": null,
            "quota": { "ram": 805_306_368, "rawRAM": 268_435_456 },
        }));
        let shown: Vec<String> = told.all.iter().map(|of| format!("{} {}", of.name, of.value)).collect();
        assert_eq!(shown, ["bucketType membase", "ramQuota 256MiB", "replicaNumber 1"]);
        assert_eq!(told.memory_bytes, Some(768 << 20));
        assert_eq!(of(&json!("x")), StoreSettings::default());
    }
}
