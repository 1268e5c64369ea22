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
    // The first one is its name of today.
    let Some(name) = keys.first().copied().filter(|name| is_kept(name)) else { return };
    let default = text(&about["DefaultValue"]).filter(|default| !default.is_empty());
    let mut set = ["DatabaseValues", "ServerValues"].into_iter().flat_map(|whose| {
        let values = &entry[whose];
        keys.iter().map(move |key| &values[*key])
    });
    match set.find(|value| value.is_object() && value["HasValue"] != false) {
        Some(set) => {
            // A value that this client may not see is null.
            match text(&set["Value"]) {
                Some(value) => {
                    let changed = default.is_none_or(|default| !default.eq_ignore_ascii_case(&value));
                    settings.add(name, value, Some(changed));
                }
                None => settings.incomplete = true,
            }
        }
        None => {
            if let Some(default) = default {
                settings.add(name, default, Some(false));
            }
        }
    }
}

/// A value as RavenDB writes it in its documentation. `None` if it is null, or no single value.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
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
                "Metadata": { "Keys": [name, "Raven/Old"], "DefaultValue": default },
                "ServerValues": server, "DatabaseValues": database,
            })
        };
        let set = |name: &str, value: Value| json!({ name: { "Value": value, "HasAccess": true } });
        let none = || json!({});
        let (threads, exec) = ("Storage.SyncJournalsCountThreshold", "Storage.OnDirectoryInitialize.Exec");
        let (regex, rate) = ("Query.RegexTimeoutInMs", "Http.MinDataRateBytesPerSec");
        let (batch, encrypted) = ("Indexing.MapBatchSize", "Indexing.Encrypted");
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
            of_name("Indexing.Throttle", json!(5), none(), none()),
            of_name(batch, json!(128), set(batch, json!("128")), none()),
            of_name(encrypted, json!(false), set(encrypted, json!(true)), none()),
            of_name("Memory.UseRss", json!(true), set("Memory.UseRss", json!("True")), none()),
            of_name("ServerUrl", json!("http://localhost:8080"), none(), none()),
            of_name("License", json!("x"), none(), none()),
        ]});
        let settings = of(&told);
        assert!(settings.incomplete, "one of them is hidden from this client");
        let all = settings.all;
        let shown: Vec<String> = all.iter().map(|of| format!("{} {} {:?}", of.name, of.value, of.changed)).collect();
        let expected = [
            "Http.MinDataRateBytesPerSec 7 Some(true)",
            "Indexing.Encrypted true Some(true)",
            "Indexing.MapBatchSize 128 Some(false)",
            "Indexing.MapTimeoutInSec -1 Some(false)",
            "Indexing.Throttle 5 Some(false)",
            "Memory.MinimumFreeCommittedMemoryPercentage 0.1 Some(true)",
            "Memory.UseRss True Some(false)",
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
