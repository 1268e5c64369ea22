//! The kinds of phases, and which keys each may have.

use std::path::Path;

use indexmap::IndexMap;

use super::copies::CopyDirection;
use super::mix::MixEntry;
use super::phases::Phase;

/// What a phase does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PhaseKind<'a> {
    /// Writes every document of these collections once.
    Load(&'a [String]),
    /// Runs these operations by weight.
    Mix(&'a IndexMap<String, MixEntry>),
    /// Replays recorded traffic.
    Trace(&'a Path),
    /// Copies a collection in bulk.
    Copy(CopyDirection),
    /// Sends nothing. The phase observes how the store restarts, settles or compacts.
    Rest,
}

impl Phase {
    /// What it does; `None` if the study does not say.
    pub fn kind(&self) -> Option<PhaseKind<'_>> {
        match self.copy {
            Some(direction) => Some(PhaseKind::Copy(direction)),
            None if !self.load.is_empty() => Some(PhaseKind::Load(&self.load)),
            None if !self.mix.is_empty() => Some(PhaseKind::Mix(&self.mix)),
            None if self.trace.is_some() => self.trace.as_deref().map(PhaseKind::Trace),
            None => (self.settle.is_some() || self.compact || self.restart.is_some()).then_some(PhaseKind::Rest),
        }
    }
}

type Unfit = (&'static [&'static str], &'static str);

const OF_COPIES: [Unfit; 2] = [
    (&["tasks", "parts"], "`{key}` is only for phases that copy; add copy = \"in\" or \"out\", or remove it"),
    (&["view"], "`view` here is only for phases that copy; in a mix write { op = \"view\", view = \"…\" }"),
];
const NOT_BATCH: Unfit = (&["batch"], "`batch` here is for loads; in a mix write { op = \"insert\", batch = 100 }");
const NOT_COPY: [Unfit; 3] = [
    (&["load", "mix", "trace"], "a phase either copies, loads, replays a trace or runs a mix; make two phases"),
    (
        &["workers", "pin_workers", "connections"],
        "the threads of a copy are its `tasks`, each with one connection; remove `{key}`",
    ),
    (
        &[
            "rate",
            "arrival",
            "pacing",
            "think",
            "duration",
            "operations",
            "popularity",
            "streams",
            "consistency",
            "isolation",
            "retry",
            "on_disconnect",
            "drain",
            "check",
            "ledger",
            "consistency_check",
        ],
        "`{key}` has no meaning for a copy, which moves every document once; remove it",
    ),
];
const NOT_LOAD: [Unfit; 2] = [
    (&["mix", "trace"], "a phase either loads, replays a trace or runs a mix; make two phases"),
    (
        &["duration", "operations", "think", "isolation", "ledger", "consistency_check"],
        "`{key}` has no meaning for a load, which writes every document once",
    ),
];
const NOT_REST: Unfit = (
    &["duration", "operations", "rate", "isolation", "ledger", "consistency_check", "faults", "random_faults"],
    "`{key}` has no meaning for a phase that sends nothing; add a `mix`",
);
const NOT_MIX: Unfit = (&["trace"], "a phase either replays a trace or runs a mix; make two phases");
const OF_TRACES: Unfit = (&["speed", "compare_answers"], "`{key}` is for a phase with `trace`; remove it");
const NOT_TRACE: [Unfit; 2] = [
    (
        &["rate", "arrival", "think", "duration", "operations", "drain"],
        "`{key}` has no meaning for a trace, which has times of its own; remove it (`speed` makes them faster)",
    ),
    (
        &["popularity", "streams", "isolation", "ledger", "consistency_check"],
        "`{key}` has no meaning for a trace, which says what each client does; remove it",
    ),
];
const NOT_IN: Unfit = (&["view"], "a view can only be read, with copy = \"out\"; remove it");
const NOT_OUT: Unfit =
    (&["batch", "durability", "in_flight"], "`{key}` needs copy = \"in\", which writes into a store; remove it");

/// The keys of a phase that its kind does not allow, each with the reason.
pub(super) fn unfit(phase: &Phase) -> Vec<(&'static str, String)> {
    let refused: Vec<Unfit> = match phase.kind() {
        Some(PhaseKind::Copy(CopyDirection::In)) => [&NOT_COPY[..], &[OF_TRACES, NOT_IN]].concat(),
        Some(PhaseKind::Copy(CopyDirection::Out)) => [&NOT_COPY[..], &[OF_TRACES, NOT_OUT]].concat(),
        Some(PhaseKind::Load(_)) => [&NOT_LOAD[..], &[OF_TRACES], &OF_COPIES].concat(),
        Some(PhaseKind::Rest) => [&[NOT_BATCH, NOT_REST, OF_TRACES][..], &OF_COPIES].concat(),
        Some(PhaseKind::Trace(_)) => [&[NOT_BATCH][..], &OF_COPIES, &NOT_TRACE].concat(),
        Some(PhaseKind::Mix(_)) | None => [&[NOT_BATCH, NOT_MIX, OF_TRACES][..], &OF_COPIES].concat(),
    };
    // A key is given if it differs from a phase with all defaults.
    let as_json = |phase: &Phase| serde_json::to_value(phase).unwrap_or_default();
    let (said, usual) = (as_json(phase), as_json(&Phase::named("")));
    let each = refused.into_iter().flat_map(|(keys, why)| keys.iter().map(move |key| (*key, why)));
    each.filter(|(key, _)| said.get(key) != usual.get(key)).map(|(key, why)| (key, why.replace("{key}", key))).collect()
}
