//! Servers that a study starts and stops itself, and what it does to them.

use std::time::Duration;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Problem;
use super::phases::Phase;
use super::study::Study;
use crate::units::{ByteSize, Count, Span};

/// The server of a store. Its commands are given to `sh -c`, with `{data}`, `{port}` and `{name}` filled in; they are run only
/// with `--manage-servers`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// A command that is the server, in the foreground: it is stopped, killed and paused by signals to it and to all that it
    /// has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// In place of `run`: a command that has the server started by somebody else, and ends when it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// With `start`: stops it in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// With `start`: ends it at once, with no chance to write anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill: Option<String>,
    /// With `start`: has it stand still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<String>,
    /// With `pause`: lets it go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// A command that is run once before the first start, where the data folder is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// A command that succeeds as soon as the server is ready; without it: as soon as the store answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// The folder with its data; relative to where the command is run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// What stands for `{port}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// What its commands find in their environment besides.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    /// Processors that it may use, with all that it has started: 0.5 is half of one. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Memory that it may use, the cache of its files among it. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// How long it may take to be ready; default 60 s.
    #[serde(default = "a_minute")]
    pub ready_within: Span,
    /// How long it may take to stop in order; default 60 s.
    #[serde(default = "a_minute")]
    pub stop_within: Span,
}

fn a_minute() -> Span {
    Span(Duration::from_secs(60))
}

/// Something that is done to a store's server while a phase runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What.
    #[serde(rename = "do")]
    pub what: FaultKind,
    /// How long after the phase's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Span>,
    /// In place of `at`: when so many operations of the phase have ended, as counted at each interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Count>,
    /// How long it lasts: until the server is started again, or goes on; default 0 s.
    #[serde(default, rename = "for", skip_serializing_if = "is_default")]
    pub lasts: Span,
    /// Of a power cut: a random part of what was not synced survives, drawn by this seed; default: nothing of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<u64>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What is done to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// It is ended at once (SIGKILL), and started again.
    Kill,
    /// It is stopped in order (SIGTERM), and started again.
    Restart,
    /// It stands still (SIGSTOP), and goes on (SIGCONT).
    Pause,
    /// It is ended at once, and what its disk had not synced is forgotten; then it is started again.
    PowerCut,
    /// Its disk has no room: no file grows.
    DiskFull,
}

impl FaultKind {
    /// The name in studies and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Restart => "restart",
            Self::Pause => "pause",
            Self::PowerCut => "power-cut",
            Self::DiskFull => "disk-full",
        }
    }

    /// Whether it is done to the disk, which is made for it then.
    pub fn is_of_disk(self) -> bool {
        matches!(self, Self::PowerCut | Self::DiskFull)
    }
}

impl Study {
    /// The server of a store, by the store's name, or else by its scheme.
    pub fn server_of(&self, store: &str, scheme: &str) -> Option<(&str, &ServerSpec)> {
        let find = |name: &str| self.servers.get_key_value(name).map(|(name, spec)| (name.as_str(), spec));
        find(store).or_else(|| find(scheme))
    }

    /// Whether a server's disk is cut off or filled: its data are on one that is made for the run, then.
    pub fn has_faults_of_disks(&self) -> bool {
        self.phases.iter().flat_map(|phase| &phase.faults).any(|fault| fault.what.is_of_disk())
    }

    /// Whether anything is done to a server.
    pub fn has_faults(&self) -> bool {
        self.phases.iter().any(|phase| !phase.faults.is_empty())
    }
}

pub(super) fn check(study: &Study) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, server) in &study.servers {
        let mut say = |key: &str, message: &str| {
            problems.push(Problem { path: vec!["servers".into(), name.clone(), key.into()], message: message.into() });
        };
        match (&server.run, &server.start) {
            (Some(_), Some(_)) => {
                say("start", "give `run` (a command that is the server) or `start` (one that has it started), not both")
            }
            (None, None) => say("run", "a server needs `run`, a command that is the server, or `start` and `stop`"),
            (Some(_), None) => {
                for (key, given) in [
                    ("stop", server.stop.is_some()),
                    ("kill", server.kill.is_some()),
                    ("pause", server.pause.is_some()),
                    ("resume", server.resume.is_some()),
                ] {
                    if given {
                        say(key, "what `run` runs is controlled by signals; leave it out, or use `start`");
                    }
                }
            }
            (None, Some(_)) if server.stop.is_none() => {
                say("start", "what a command has started another has to stop: add `stop`");
            }
            (None, Some(_)) => {}
        }
        for (key, given) in [("cpus", server.cpus.is_some()), ("memory", server.memory.is_some())] {
            if given && server.run.is_none() {
                say(
                    key,
                    "only what `run` runs can be limited; use it in place of `start`, or limit it where it is started",
                );
            }
        }
        if server.cpus.is_some_and(|cpus| !(0.01..=1e6).contains(&cpus)) {
            say("cpus", "processors are 0.01 or more: 0.5 is half of one");
        }
        if server.memory.is_some_and(|memory| memory.0 == 0) {
            say("memory", "nothing runs without memory; use \"256MiB\"");
        }
        if server.pause.is_some() != server.resume.is_some() {
            say("pause", "`pause` and `resume` need each other");
        }
        let commands = [&server.run, &server.start, &server.stop, &server.kill, &server.prepare, &server.ready];
        let named = |what: &str| commands.iter().any(|c| c.as_ref().is_some_and(|c| c.contains(what)));
        if named("{port}") && server.port.is_none() {
            say("port", "a command names {port}; add `port`");
        }
        if (named("{data}") || server.prepare.is_some()) && server.data.is_none() {
            say("data", "a command needs the data folder; add `data`");
        }
    }
    for (position, phase) in study.phases.iter().enumerate() {
        faults(study, position, phase, &mut problems);
    }
    problems
}

fn faults(study: &Study, position: usize, phase: &Phase, problems: &mut Vec<Problem>) {
    let mut say = |nth: usize, key: &str, message: String| {
        let path = ["phases", &position.to_string(), "faults", &nth.to_string(), key].map(str::to_owned).to_vec();
        problems.push(Problem { path, message });
    };
    for (nth, fault) in phase.faults.iter().enumerate() {
        match (fault.at, fault.after) {
            (Some(_), Some(_)) => say(nth, "after", "give `at` or `after`, not both".into()),
            (None, None) => say(nth, "do", "when? add `at = \"5s\"`, or `after`, a number of operations".into()),
            (Some(at), None) if phase.duration.is_some_and(|duration| at.0 >= duration.0) => {
                say(nth, "at", format!("the phase `{}` is over by then; use less than its duration", phase.name));
            }
            (None, Some(after)) if phase.operations.is_some_and(|operations| after.0 >= operations.0) => {
                say(nth, "after", format!("the phase `{}` is over by then; use less than its operations", phase.name));
            }
            _ => {}
        }
        if fault.keep.is_some() && fault.what != FaultKind::PowerCut {
            say(nth, "keep", "only a power cut forgets: take `keep` out, or use do = \"power-cut\"".into());
        }
        if matches!(fault.what, FaultKind::Pause | FaultKind::DiskFull) && fault.lasts.0.is_zero() {
            say(nth, "do", "for how long? add `for = \"3s\"`".into());
        }
        if phase.loads() || phase.copy.is_some() {
            say(nth, "do", "a load or a copy ends with the first document that cannot be written; break the store in a phase with a `mix`".into());
        }
        if study.search.as_ref().is_some_and(|search| search.phase == phase.name) {
            say(
                nth,
                "do",
                format!("the rate of `{}` is searched, and each probe would be broken; use another phase", phase.name),
            );
        }
    }
}
