//! How stores say that they are set up.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use storebench_engine::store::{StoreError, StoreSettings};

use super::redact::{is_secret, redact};
use crate::human::{bytes, cut, plural};

/// Parts of names of settings that may hold a secret. Such settings are not kept.
const SECRET_PARTS: [&str; 9] =
    ["auth", "credential", "key_file", "keyfile", "passphrase", "passwd", "password", "secret", "token"];
/// Words in a value after which a secret is given: `password=…`.
const BEFORE_SECRETS: [&str; 5] = ["password", "passwd", "pwd", "secret", "token"];
/// The most changed settings that are named in a line.
const MOST_NAMED: usize = 3;
/// The most characters of a value in a line.
const VALUE_CHARS: usize = 30;

/// How a store says that it is set up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingsResult {
    /// Its settings on which speed, memory and durability may depend, by name.
    pub all: IndexMap<String, SettingResult>,
    /// How much memory it may use for documents: its cache or buffers, or all it may hold. Null if it has no limit, or
    /// does not say.
    pub memory_bytes: Option<u64>,
    /// Why its settings are not known, if it could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Whether it told only a part of its settings, such as to a user who may not read the others. Omitted if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// A setting of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingResult {
    /// Its value, in the store's own words.
    pub value: String,
    /// Whether it differs from what the store is shipped with. Null if the store does not say.
    pub changed: Option<bool>,
}

impl SettingsResult {
    /// What a store answered, without what may be a secret. `None` if it says nothing.
    pub fn of(answer: Result<StoreSettings, StoreError>) -> Option<Self> {
        let told = match answer {
            Ok(told) => told,
            Err(error) => return Some(Self { unknown: Some(redact(&error.to_string())), ..Self::default() }),
        };
        let kept = told.all.into_iter().filter(|of| !may_be_secret(&of.name) && !may_hold_secret(&of.value));
        let all: IndexMap<String, SettingResult> =
            kept.map(|of| (of.name, SettingResult { value: redact(&of.value), changed: of.changed })).collect();
        let StoreSettings { memory_bytes, incomplete, .. } = told;
        (!all.is_empty() || memory_bytes.is_some()).then_some(Self { all, memory_bytes, unknown: None, incomplete })
    }

    /// The settings that differ from what the store is shipped with.
    pub fn changed(&self) -> impl Iterator<Item = (&str, &SettingResult)> {
        self.all.iter().filter(|(_, of)| of.changed == Some(true)).map(|(name, of)| (name.as_str(), of))
    }

    /// Whether the store says of every setting whether it was changed.
    pub(crate) fn says_what_was_changed(&self) -> bool {
        !self.incomplete && !self.all.is_empty() && self.all.values().all(|of| of.changed.is_some())
    }

    /// That no setting was changed, in words. `None` if one was, or if the store does not say so of any. No Redis or
    /// memcached says so of every setting, because the shipped values of some depend on the release.
    pub(crate) fn as_shipped(&self) -> Option<&'static str> {
        let says_so = self.changed().next().is_none() && self.all.values().any(|of| of.changed == Some(false));
        let words = if self.says_what_was_changed() { "as shipped" } else { "nothing changed, as far as it says" };
        says_so.then_some(words)
    }

    /// The settings in a line: `memory 128 MiB, 4 settings changed (max_wal_size 4GB, work_mem 64MB, …)`.
    pub fn in_words(&self) -> String {
        if let Some(why) = &self.unknown {
            return format!("settings unknown: {why}");
        }
        let mut facts: Vec<String> =
            self.memory_bytes.map(|n| format!("memory {}", bytes(n as f64))).into_iter().collect();
        let changed = self.changed().count();
        if changed > 0 {
            let shown = self
                .changed()
                .take(MOST_NAMED)
                .map(|(name, of)| format!("{name} {}", setting_value(&of.value, VALUE_CHARS)));
            let more = (changed > MOST_NAMED).then(|| "…".to_owned());
            let named: Vec<String> = shown.chain(more).collect();
            facts.push(format!("{} changed ({})", plural(changed as u64, "setting"), named.join(", ")));
        } else if let Some(words) = self.as_shipped() {
            facts.push(words.to_owned());
        } else if !self.all.is_empty() {
            facts.push(format!("{} told", plural(self.all.len() as u64, "setting")));
        }
        if self.incomplete {
            facts.push("others not told".to_owned());
        }
        facts.join(", ")
    }
}

/// A value as it stands in a line, with at most so many characters. An empty one as `""`.
pub(crate) fn setting_value(value: &str, most: usize) -> String {
    if value.is_empty() { "\"\"".to_owned() } else { cut(value, most) }
}

/// Whether a setting of this name may hold a secret.
fn may_be_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    is_secret(name) || lower.ends_with("key") || SECRET_PARTS.iter().any(|part| lower.contains(*part))
}

/// Whether a value may hold a secret: `password=…`, or a user with a password before a host.
fn may_hold_secret(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let given_after = |word: &&str| {
        lower.match_indices(*word).any(|(at, _)| lower[at + word.len()..].trim_start().starts_with(['=', ':']))
    };
    let has_user = |word: &str| {
        let user = word.rsplit_once('@').and_then(|(before, _)| before.split_once(':'));
        user.is_some_and(|(name, password)| !name.is_empty() && !password.is_empty())
    };
    BEFORE_SECRETS.iter().any(given_after) || value.split_whitespace().any(has_user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::settings;

    #[test]
    fn secrets_are_not_kept() {
        let mut told = StoreSettings { memory_bytes: Some(1 << 20), ..StoreSettings::default() };
        for (name, value) in [
            ("cache", "1MiB"),
            ("masterauth_PassWord", "hush"),
            ("ssl_key_file", "/etc/key"),
            ("proxy_token", "hush"),
            ("upstream", "redis://me:hush@host"),
            ("my_api_key", "hush"),
            ("apikey", "hush"),
            ("private_key", "hush"),
            ("auth_mode", "hush"),
            ("note", "Password = hush"),
            ("options", "user: ann, token: hush"),
            ("proxy", "to ann:hush@10.0.0.1:5984"),
            ("dsn", "host=db user=ann password=hush"),
            ("mail", "me@example.org"),
            ("time", "at 10:30"),
        ] {
            told.add(name, value, Some(false));
        }
        let found = SettingsResult::of(Ok(told)).unwrap();
        let shown: Vec<(&str, &str)> = found.all.iter().map(|(name, of)| (name.as_str(), of.value.as_str())).collect();
        assert_eq!(shown, [("cache", "1MiB"), ("mail", "me@example.org"), ("time", "at 10:30")]);
        assert!(found.as_shipped() == Some("as shipped") && found.memory_bytes == Some(1 << 20), "{found:?}");
    }

    #[test]
    fn what_says_nothing_is_nothing_and_an_error_is_told() {
        assert_eq!(SettingsResult::of(Ok(StoreSettings::default())), None);
        let error = StoreError::Failed("redis://me:hush@host: no such command".into());
        let unknown = SettingsResult::of(Err(error)).unwrap();
        assert_eq!(unknown.in_words(), "settings unknown: redis://me:***@host: no such command");
        assert_eq!(unknown.as_shipped(), None);
    }

    #[test]
    fn settings_in_a_line() {
        let all = [("a", "1", Some(true)), ("b", "2", Some(true)), ("c", "3", Some(false)), ("d", "4", Some(true))];
        let memory = Some(128 << 20);
        assert_eq!(settings(memory, &all).in_words(), "memory 128 MiB, 3 settings changed (a 1, b 2, d 4)");
        assert_eq!(settings(None, &all[..1]).in_words(), "1 setting changed (a 1)");
        let five = ["a", "b", "c", "d", "e"].map(|name| (name, "1", Some(true)));
        assert_eq!(settings(None, &five).in_words(), "5 settings changed (a 1, b 1, c 1, …)");
        assert_eq!(settings(memory, &all[2..3]).in_words(), "memory 128 MiB, as shipped");
        let some = [("c", "3", None), ("d", "4", Some(false))];
        assert_eq!(settings(None, &some).in_words(), "nothing changed, as far as it says");
        assert_eq!(settings(None, &some[..1]).in_words(), "1 setting told");
        let partly = SettingsResult { incomplete: true, ..settings(None, &some[1..]) };
        assert_eq!(partly.in_words(), "nothing changed, as far as it says, others not told");
        assert_eq!(settings(None, &[("save", "", Some(true))]).in_words(), "1 setting changed (save \"\")");
        assert_eq!(settings(memory, &[]).in_words(), "memory 128 MiB");
    }
}
