//! Phases that copy: files into a store, or a store into files, by several tasks at once.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Problems;
use super::collections::Body;
use super::phases::Phase;
use super::study::Study;
use crate::written::names;

/// The default number of tasks of a copy.
pub const DEFAULT_TASKS: u32 = 2;
/// The most tasks of a copy.
pub const MOST_TASKS: u32 = 1_024;
/// Parts for each task, so that a task that ends early finds another part.
const PARTS_A_TASK: u32 = 4;
/// The smallest default number of parts. With it, a sweep over up to 16 tasks splits the work in the same way at every
/// point.
const LEAST_PARTS: u32 = 64;
/// The most parts of a copy.
const MOST_PARTS: u32 = 65_536;

/// The direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CopyDirection {
    /// Files into the store.
    In,
    /// The store into files.
    Out,
}

names! { CopyDirection: In "in", Out "out" }

impl CopyDirection {
    /// The name of the copy among the operations of a result.
    pub fn op_name(self) -> &'static str {
        match self {
            Self::In => "copy-in",
            Self::Out => "copy-out",
        }
    }
}

impl Phase {
    /// Tasks of a copy: how many parts run at once.
    pub fn copy_tasks(&self) -> u32 {
        self.tasks.unwrap_or(DEFAULT_TASKS)
    }

    /// How many parts the work of a copy is split into.
    pub fn copy_parts(&self) -> u32 {
        self.parts.unwrap_or_else(|| self.copy_tasks().saturating_mul(PARTS_A_TASK).max(LEAST_PARTS))
    }

    /// The collection that it copies, if it copies and the collection is unambiguous.
    pub fn copied<'a>(&'a self, study: &'a Study) -> Option<&'a str> {
        self.copy?;
        let only = || study.collections.keys().next().filter(|_| study.collections.len() == 1);
        self.collection.as_ref().or_else(only).map(String::as_str)
    }

    /// The collections whose documents are all in the store after it: those that it loads, or copies into the store.
    pub fn loaded<'a>(&'a self, study: &'a Study) -> impl Iterator<Item = &'a str> {
        let copied = self.copied(study).filter(|_| self.copy == Some(CopyDirection::In));
        self.load.iter().map(String::as_str).chain(copied)
    }
}

/// Finds the problems of phases that copy.
pub(super) fn check(study: &Study, problems: &mut Problems<'_>) {
    for (position, phase) in study.phases.iter().enumerate().filter(|(_, phase)| phase.copy.is_some()) {
        copy(study, phase, &mut problems.within(&["phases", &position.to_string()]));
    }
}

fn copy(study: &Study, phase: &Phase, at: &mut Problems<'_>) {
    if phase.tasks.is_some_and(|n| n == 0 || n > MOST_TASKS) {
        at.say(&["tasks"], "use 1 to 1,024 tasks");
    }
    if phase.parts.is_some_and(|n| n == 0 || n > MOST_PARTS) {
        at.say(&["parts"], "use 1 to 65,536 parts");
    }
    let Some(name) = phase.copied(study) else {
        return at.say(&["copy"], "the study has several collections; name the one to copy: collection = \"…\"");
    };
    let Some(collection) = study.collections.get(name) else { return };
    if collection.existing.is_some() {
        let remedy = "was not made by Storebench (`existing`), so the number of documents is unknown; \
                      copy it with `storebench copy`";
        at.say(&["copy"], format!("`{name}` {remedy}"));
    } else if collection.body != Body::Json {
        at.say(
            &["copy"],
            format!("files hold JSON, and `{name}` has another `body`; copy a collection with body = \"json\""),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const STUDY: &str =
        "title = \"T\"\n[collections.texts]\ncount = 10\n[[phases]]\nname = \"import\"\ncopy = \"in\"\n";

    fn refused(text: &str) -> String {
        Study::parse(text, Path::new("t.toml"), &[]).unwrap_err().to_string()
    }

    #[test]
    fn a_copy_has_tasks_parts_and_counts_as_a_load() {
        let more = "tasks = 32\nbatch = 500\ndurability = \"os\"\n[[phases]]\nname = \"export\"\ncopy = \"out\"\n\
                    collection = \"texts\"\nparts = 3\nview = \"a/b\"\nwarm_up = true\n";
        let study = Study::parse(&format!("{STUDY}{more}"), Path::new("t.toml"), &[]).unwrap();
        let [import, export] = &study.phases[..] else { panic!() };
        assert!(import.loads() && !export.loads());
        assert_eq!((import.copy_tasks(), import.copy_parts()), (32, 128));
        assert_eq!((export.copy_tasks(), export.copy_parts()), (2, 3));
        assert_eq!(import.loaded(&study).collect::<Vec<_>>(), ["texts"]);
        assert_eq!((export.loaded(&study).count(), export.copied(&study)), (0, Some("texts")));
        // As in a result.
        let again: Study = serde_json::from_value(serde_json::to_value(&study).unwrap()).unwrap();
        assert_eq!(again, study);
    }

    #[test]
    fn what_a_copy_cannot_have_is_refused_where_it_stands() {
        for (more, said) in [
            ("load = [\"texts\"]", "phases.0.load: a phase either copies"),
            ("mix = { read = 1 }", "phases.0.mix: a phase either copies"),
            ("workers = 8", "phases.0.workers: the threads of a copy are its `tasks`"),
            ("rate = 5", "phases.0.rate: `rate` has no meaning for a copy"),
            ("duration = \"5s\"", "phases.0.duration: `duration` has no meaning"),
            ("operations = 5", "phases.0.operations: `operations` has no meaning"),
            ("think = \"1ms\"", "phases.0.think: `think` has no meaning"),
            ("popularity = \"zipf\"", "phases.0.popularity: `popularity` has no meaning"),
            ("ledger = true\nstreams = \"disjoint\"", "phases.0.ledger: `ledger` has no meaning"),
            ("check = 1.0", "phases.0.check: `check` has no meaning"),
            ("tasks = 0", "phases.0.tasks: use 1 to 1,024 tasks"),
            ("tasks = 2000", "phases.0.tasks: use 1 to 1,024 tasks"),
            ("parts = 0", "phases.0.parts: use 1 to 65,536 parts"),
            ("batch = 0", "phases.0.batch: use 1 to 1,000,000"),
            ("view = \"a/b\"", "phases.0.view: a view can only be read, with copy = \"out\""),
            ("collection = \"text\"", "phases.0.collection: unknown collection `text`; did you mean `texts`?"),
        ] {
            let text = refused(&format!("{STUDY}{more}\n"));
            assert!(text.contains(said), "{more}: {text}");
        }
        let out = STUDY.replace("\"in\"", "\"out\"");
        for (more, key) in
            [("batch = 5", "batch"), ("durability = \"os\"", "durability"), ("in_flight = 2", "in_flight")]
        {
            let text = refused(&format!("{out}{more}\n"));
            assert!(text.contains(&format!("phases.0.{key}: `{key}` needs copy = \"in\"")), "{text}");
        }
        for (from, to, said) in [
            ("copy = \"in\"", "copy = \"both\"", "phases.0.copy: `both` is not known here; known: `in`, `out`"),
            (
                "copy = \"in\"",
                "mix = { read = 1 }\noperations = 1\ntasks = 3",
                "phases.0.tasks: `tasks` is only for phases that copy",
            ),
            (
                "copy = \"in\"",
                "mix = { read = 1 }\noperations = 1\nview = \"a/b\"",
                "phases.0.view: `view` here is only for phases",
            ),
            ("count = 10", "count = 10\nbody = \"bytes\"", "phases.0.copy: files hold JSON"),
            ("count = 10", "existing = \"theirs\"", "phases.0.copy: `texts` was not made by Storebench"),
            (
                "count = 10",
                "count = 10\n[collections.more]\ncount = 1",
                "phases.0.copy: the study has several collections",
            ),
            (
                "[[phases]]",
                "[search]\nphase = \"import\"\nfrom = 1\nto = 2\n[limits]\n\"import.service.p99\" = \"1s\"\n[[phases]]",
                "search.phase: a load, a copy or a warm-up has no rate",
            ),
        ] {
            let text = refused(&STUDY.replacen(from, to, 1));
            assert!(text.contains(said), "{to}: {text}");
        }
    }

    #[test]
    fn limits_know_the_operation_of_a_copy() {
        let with = |op: &str| format!("{STUDY}[limits]\n\"import.{op}.service.p99\" = \"1s\"\n");
        Study::parse(&with("copy-in"), Path::new("t.toml"), &[]).unwrap();
        assert!(refused(&with("copy-out")).contains("did you mean `copy-in`?"));
    }
}
