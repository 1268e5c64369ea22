//! Presets: one study at several sizes, by name.

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::check::{Problems, no_such};
use super::factors::FactorValues;
use super::load::Override;
use super::repeats::Repeats;
use super::study::Study;

/// What a preset changes in its study.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// One line that says what it is for.
    pub about: String,
    /// Multiplies the number of documents; default: the command's `--scale`, or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// How often everything is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// Factors that replace the study's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factors: Option<IndexMap<String, Vec<Value>>>,
    /// Settings by path, as `--set` takes them.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub set: FactorValues,
}

/// A flaw that readers found in a published study, and how this version avoids it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Flaw {
    /// What was wrong with the original.
    pub original: String,
    /// What is done here instead.
    pub here: String,
}

impl Preset {
    /// Its changes, as overrides; those of the command apply after them. Errors name the preset.
    pub fn overrides(&self, name: &str) -> Vec<Override> {
        let mut all: Vec<Override> =
            self.set.iter().map(|(path, value)| Override::of_value(path.clone(), value)).collect();
        if let Some(repeats) = self.repeats {
            all.push(Override::of_value("repeats".into(), &serde_json::to_value(repeats).unwrap_or_default()));
        }
        if let Some(factors) = &self.factors {
            let factors = serde_json::to_value(factors).unwrap_or_default();
            all.push(Override::of_value("factors".into(), &factors));
        }
        let by = format!("--preset {name}");
        all.into_iter().map(|one| one.given_by(&by)).collect()
    }
}

impl Study {
    /// A preset by its name.
    ///
    /// # Errors
    /// If there is no preset of this name; the error lists the presets.
    pub fn preset(&self, name: &str) -> Result<&Preset, String> {
        self.presets.get(name).ok_or_else(|| match self.presets.is_empty() {
            true => format!("unknown preset `{name}`: the study has no presets; use --set and --scale instead"),
            false => no_such("preset", name, self.presets.keys().map(String::as_str)),
        })
    }
}

/// Finds the problems of presets.
pub(super) fn check(study: &Study, problems: &mut Problems<'_>) {
    for (name, preset) in &study.presets {
        if preset.scale.is_some_and(|scale| !(scale.is_finite() && scale > 0.0)) {
            problems.say(&["presets", name, "scale"], "use a scale above 0");
        }
    }
}
