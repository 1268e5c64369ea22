//! The studies that are built into the binary.

use storebench_study::workload::did_you_mean;

/// One of them.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    /// As `run` takes it.
    pub(crate) name: &'static str,
    /// Its study file.
    pub(crate) text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),+ $(,)?) => {
        &[$(BuiltIn { name: $name, text: include_str!(concat!("../../../studies/", $name, ".toml")) }),+]
    };
}

/// All of them, in the order in which they are listed.
pub(crate) const ALL: &[BuiltIn] = built_in![
    "first-look",
    "bulk-insert",
    "parallel-transfer",
    "million-writes",
    "one-setting",
    "reading-list",
    "what-if-it-dies"
];

/// The one of this name.
pub(crate) fn find(name: &str) -> Option<&'static BuiltIn> {
    ALL.iter().find(|study| study.name == name)
}

/// The name that was meant, if one is near.
pub(crate) fn meant(name: &str) -> Option<&'static str> {
    did_you_mean(name, ALL.iter().map(|study| study.name))
}
