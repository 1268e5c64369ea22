//! How RavenDB says that it is set up: the settings of the database, and where it has none of its own, those of the
//! server.

use serde_json::Value;
use storebench_engine::store::StoreSettings;

/// Beginnings of the names of settings on which speed, memory and durability depend:
/// <https://docs.ravendb.net/server/configuration/configuration-options>.
const KEPT: [&str; 8] =
    ["Databases.", "Http.MinDataRate", "Indexing.", "Memory.", "Patching.", "PerformanceHints.", "Query.", "Storage."];
/// Parts of names, in lower case, of settings that tell a place, a command or a licence.
const LEFT_OUT: [&str; 7] = [".exec", "certificate", "directory", "license", "path", "security", "url"];

/// The settings in the answer to `/admin/configuration/settings`. RavenDB takes the memory that it finds, up to what
/// its licence allows, so no setting is the memory for documents.
pub(super) fn of(told: &Value) -> StoreSettings {
    let mut settings = StoreSettings::default();
    for entry in told["Settings"].as_array().into_iter().flatten() {
        add(entry, &mut settings);
    }
    settings
}

fn add(entry: &Value, settings: &mut StoreSettings) {
    let about = &entry["Metadata"];
    let keys: Vec<&str> = about["Keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // The last one is its name of today.
    let Some(name) = keys.last().copied().filter(|name| is_kept(name)) else { return };
    let default = about["DefaultValue"].as_str().filter(|default| !default.is_empty());
    let mut set = ["DatabaseValues", "ServerValues"].into_iter().flat_map(|whose| {
        let values = &entry[whose];
        keys.iter().map(move |key| &values[*key])
    });
    match set.find(|value| value.is_object() && value["HasValue"] != false) {
        Some(set) => {
            // A value that this client may not see is null.
            if let Some(value) = set["Value"].as_str() {
                settings.add(name, value, Some(default.is_none_or(|default| !default.eq_ignore_ascii_case(value))));
            }
        }
        None => {
            if let Some(default) = default {
                settings.add(name, default, Some(false));
            }
        }
    }
}

fn is_kept(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    KEPT.iter().any(|beginning| name.starts_with(*beginning)) && !LEFT_OUT.iter().any(|part| lower.contains(*part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_set_goes_before_what_is_shipped() {
        let of_name = |name: &str, default: Value, server: Value, database: Value| {
            json!({
                "Metadata": { "Keys": ["Raven/Old", name], "DefaultValue": default },
                "ServerValues": server, "DatabaseValues": database,
            })
        };
        let set = |name: &str, value: Value| json!({ name: { "Value": value, "HasAccess": true } });
        let none = || json!({});
        let (threads, exec) = ("Storage.SyncJournalsCountThreshold", "Storage.OnDirectoryInitialize.Exec");
        let (regex, rate) = ("Query.RegexTimeoutInMs", "Http.MinDataRateBytesPerSec");
        let (strict, free) = ("Patching.StrictMode", "Memory.MinimumFreeCommittedMemoryPercentage");
        let told = json!({ "Settings": [
            of_name("Indexing.MapTimeoutInSec", json!("-1"), none(), none()),
            of_name("Indexing.TempPath", json!("/tmp"), none(), none()),
            of_name(exec, json!(null), set(exec, json!("sh")), none()),
            of_name(free, json!("0.05"), set("Raven/Old", json!("0.1")), json!(null)),
            of_name(regex, json!("100"), set(regex, json!("1")), set(regex, json!("200"))),
            of_name(strict, json!("True"), set(strict, json!("true")), none()),
            of_name("Storage.MaxScratchBufferSizeInMb", json!(null), none(), none()),
            of_name(threads, json!("2"), set(threads, json!(null)), none()),
            of_name(rate, json!(null), set(rate, json!("7")), none()),
            of_name("ServerUrl", json!("http://localhost:8080"), none(), none()),
            of_name("License", json!("x"), none(), none()),
        ]});
        let all = of(&told).all;
        let shown: Vec<String> = all.iter().map(|of| format!("{} {} {:?}", of.name, of.value, of.changed)).collect();
        let expected = [
            "Http.MinDataRateBytesPerSec 7 Some(true)",
            "Indexing.MapTimeoutInSec -1 Some(false)",
            "Memory.MinimumFreeCommittedMemoryPercentage 0.1 Some(true)",
            "Patching.StrictMode true Some(false)",
            "Query.RegexTimeoutInMs 200 Some(true)",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn another_answer_says_nothing() {
        let odd = json!({ "Settings": [7, {}, { "Metadata": { "Keys": [] } }] });
        for answer in [json!(null), json!({ "Settings": 7 }), odd] {
            assert_eq!(of(&answer), StoreSettings::default(), "{answer}");
        }
    }
}
