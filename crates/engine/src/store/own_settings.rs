//! How a store says that it is set up.

use serde::{Deserialize, Serialize};

/// A setting, as the store itself reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreSetting {
    /// Its name in the store's own words.
    pub name: String,
    /// Its value, with its unit if the store tells it.
    pub value: String,
    /// Whether it differs from what the store is shipped with. `None` if the store does not say.
    pub changed: Option<bool>,
}

/// The settings of a store that speed, memory and durability may depend on, as it reports them. Names of users, addresses,
/// paths and secrets are not among them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoreSettings {
    /// The settings, in the order of their names.
    pub all: Vec<StoreSetting>,
    /// How much memory the store may use for documents, in bytes: its cache or buffers, or all it may hold. `None` if it
    /// has no limit, or does not say.
    pub memory_bytes: Option<u64>,
    /// Whether the store has told only a part of its settings, such as to a user who may not read the others. Then a
    /// setting that is missing here may be set.
    pub incomplete: bool,
}

impl StoreSettings {
    /// Adds a setting at its place.
    pub fn add(&mut self, name: impl Into<String>, value: impl Into<String>, changed: Option<bool>) {
        let setting = StoreSetting { name: name.into(), value: value.into(), changed };
        let at = self.all.partition_point(|other| other.name <= setting.name);
        self.all.insert(at, setting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_in_the_order_of_names() {
        let mut settings = StoreSettings::default();
        for name in ["b", "a", "c"] {
            settings.add(name, "1", None);
        }
        assert_eq!(settings.all.iter().map(|of| of.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
