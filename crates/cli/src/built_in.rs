//! The studies that are built into the binary.

use storebench_study::workload::did_you_mean;

/// A built-in study.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    /// The name, as given to `run`.
    pub(crate) name: &'static str,
    /// The text of the study file.
    pub(crate) text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),+ $(,)?) => {
        &[$(BuiltIn { name: $name, text: include_str!(concat!("../../../studies/", $name, ".toml")) }),+]
    };
}

/// All built-in studies, in the order of the list.
pub(crate) const ALL: &[BuiltIn] = built_in![
    "first-look",
    "bulk-insert",
    "parallel-transfer",
    "million-writes",
    "one-setting",
    "reading-list",
    "what-if-it-dies"
];

/// The built-in study with this name.
pub(crate) fn find(name: &str) -> Option<&'static BuiltIn> {
    ALL.iter().find(|study| study.name == name)
}

/// The name that was probably meant, if one is similar.
pub(crate) fn meant(name: &str) -> Option<&'static str> {
    did_you_mean(name, ALL.iter().map(|study| study.name))
}
