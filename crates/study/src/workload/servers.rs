//! Servers that a study starts and stops itself, and what it does to them.

use std::time::Duration;

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Problem, no_such};
use super::study::Study;
use crate::units::{ByteSize, Span};
use crate::written::is_default;

/// The server of a store. Its commands are given to `sh -c`, with `{data}`, `{port}` and `{name}` filled in; they are run only
/// with `--manage-servers`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// A command that is the server, in the foreground: it is stopped, killed and paused by signals to it and to all that it
    /// has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// A further node of the store whose own server has this name: it is started after that one, and stopped before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_of: Option<String>,
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
    /// It runs in a network namespace of its own, at an address of its own: what stands for `{address}`. Partitions need it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: bool,
    /// Where the server, or the machine that it is on, tells of itself in Prometheus' text format:
    /// `"http://10.0.0.1:9100/metrics"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
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

/// How a server is started again before a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RestartSpec {
    /// As it is.
    Warm,
    /// After the system's cache of its data was dropped.
    Cold,
}

/// A link between servers: what connects to `listen` on this machine comes out at `to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// A port of this machine (127.0.0.1).
    pub listen: u16,
    /// Host and port.
    pub to: String,
}

impl Study {
    /// The server of a store, by the store's name, or else by its scheme.
    pub fn server_of(&self, store: &str, scheme: &str) -> Option<(&str, &ServerSpec)> {
        let find = |name: &str| self.servers.get_key_value(name).map(|(name, spec)| (name.as_str(), spec));
        find(store).or_else(|| find(scheme)).filter(|(_, spec)| spec.node_of.is_none())
    }

    /// The further servers of a store whose own is called `main`, in their order.
    pub fn nodes_of<'a>(&'a self, main: &'a str) -> impl Iterator<Item = (&'a str, &'a ServerSpec)> {
        let is_node = move |(_, spec): &(&String, &ServerSpec)| spec.node_of.as_deref() == Some(main);
        self.servers.iter().filter(is_node).map(|(name, spec)| (name.as_str(), spec))
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
        if server.namespace && server.run.is_none() {
            say("namespace", "only what `run` runs can be put into one; use it in place of `start`");
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
        let commands = [
            &server.run,
            &server.start,
            &server.stop,
            &server.kill,
            &server.pause,
            &server.resume,
            &server.prepare,
            &server.ready,
        ];
        let texts = || commands.iter().filter_map(|command| command.as_ref()).chain(server.env.values());
        let named = |what: &str| texts().any(|text| text.contains(what));
        if named("{port}") && server.port.is_none() {
            say("port", "a command names {port}; add `port`");
        }
        if (named("{data}") || server.prepare.is_some()) && server.data.is_none() {
            say("data", "a command needs the data folder; add `data`");
        }
    }
    for (name, server) in &study.servers {
        let Some(of) = &server.node_of else { continue };
        let mains = study.servers.iter().filter(|(_, other)| other.node_of.is_none()).map(|(name, _)| name.as_str());
        if of == name || !mains.clone().any(|main| main == of) {
            let path = vec!["servers".into(), name.clone(), "node_of".into()];
            problems.push(Problem { path, message: no_such("store's own server", of, mains) });
        }
    }
    for (name, link) in &study.links {
        let path = |key: &str| vec!["links".into(), name.clone(), key.into()];
        let is_place = link
            .to
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
        if !is_place {
            problems.push(Problem {
                path: path("to"),
                message: "where does it lead? write host and port: \"127.0.0.1:5432\"".into(),
            });
        }
        if link.listen == 0 {
            let message = "servers have to know the port: use one that is free, such as 15432".into();
            problems.push(Problem { path: path("listen"), message });
        }
    }
    problems
}
