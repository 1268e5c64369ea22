//! Servers that a study starts and stops itself, and what it does to them.

use std::time::Duration;

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Problems, no_such};
use super::study::Study;
use crate::units::{ByteSize, Span};
use crate::written::is_default;

/// The server of a store. Its commands run with `sh -c`, with `{data}`, `{port}` and `{name}` filled in, and only with
/// `--manage-servers`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// A command that runs the server in the foreground. A signal to its process group stops the server; signals to it
    /// and to all processes that it started kill and pause it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// With `run`: the signal that shuts it down cleanly; default `SIGTERM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<StopSignal>,
    /// The user that its commands run as if Storebench runs as root; otherwise, they run as the user of Storebench.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Makes this an additional node of the store whose main server has this name. It starts after that server and
    /// stops before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_of: Option<String>,
    /// Instead of `run`: a command that makes another program start the server, and ends when the server is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Shuts it down cleanly. With `run`, it replaces `stop_signal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// With `start`: kills it, without a chance to write anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill: Option<String>,
    /// With `start`: pauses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<String>,
    /// With `pause`: resumes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// A command that runs once before the first start, if the data folder is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// A command that succeeds as soon as the server is ready; default: the server is ready as soon as the store
    /// answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// The folder with its data, relative to the folder in which the command runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The value of `{port}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Runs it in its own network namespace with its own address, the value of `{address}`. Partitions need this.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: bool,
    /// URLs of metrics of the server or its machine, in the text format of Prometheus:
    /// `"http://10.0.0.1:9100/metrics"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// Additional environment variables of its commands.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    /// The cores that it may use, with all processes that it started: 0.5 is half a core. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// The memory that it may use, including the page cache of its files. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// How long it may take to be ready; default 60 s.
    #[serde(default = "a_minute")]
    pub ready_within: Span,
    /// How long it may take to shut down cleanly; default 60 s.
    #[serde(default = "a_minute")]
    pub stop_within: Span,
}

fn a_minute() -> Span {
    Span(Duration::from_secs(60))
}

/// A signal that shuts a server down cleanly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum StopSignal {
    /// What `kill` sends.
    #[default]
    #[serde(rename = "SIGTERM")]
    Term,
    /// What Ctrl-C sends.
    #[serde(rename = "SIGINT")]
    Int,
    /// What Ctrl-\ sends.
    #[serde(rename = "SIGQUIT")]
    Quit,
    /// What the end of a terminal sends.
    #[serde(rename = "SIGHUP")]
    Hup,
    /// A signal that a program may use as it likes.
    #[serde(rename = "SIGUSR1")]
    Usr1,
    /// Likewise.
    #[serde(rename = "SIGUSR2")]
    Usr2,
}

/// How a server is restarted before a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RestartSpec {
    /// With the system's cache of its data left as it is.
    Warm,
    /// With the system's cache of its data dropped.
    Cold,
}

/// A link between servers: connections to `listen` on this machine are forwarded to `to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// A port on this machine (127.0.0.1).
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

    /// The additional nodes of the store whose main server is called `main`, in order.
    pub fn nodes_of<'a>(&'a self, main: &'a str) -> impl Iterator<Item = (&'a str, &'a ServerSpec)> {
        let is_node = move |(_, spec): &(&String, &ServerSpec)| spec.node_of.as_deref() == Some(main);
        self.servers.iter().filter(is_node).map(|(name, spec)| (name.as_str(), spec))
    }
}

pub(super) fn check(study: &Study, problems: &mut Problems<'_>) {
    for (name, server) in &study.servers {
        let mut say = |key: &str, message: &str| problems.say(&["servers", name, key], message);
        match (&server.run, &server.start) {
            (Some(_), Some(_)) => say(
                "start",
                "give `run` (a command that runs the server) or `start` (a command that starts it), not both",
            ),
            (None, None) => say("run", "a server needs `run`, a command that runs the server, or `start` and `stop`"),
            (Some(_), None) => {
                for (key, given) in [
                    ("kill", server.kill.is_some()),
                    ("pause", server.pause.is_some()),
                    ("resume", server.resume.is_some()),
                ] {
                    if given {
                        say(key, "a server with `run` is killed and paused by signals; remove this, or use `start`");
                    }
                }
                if server.stop.is_some() && server.stop_signal.is_some() {
                    say("stop_signal", "`stop` is a command that stops the server; remove it or `stop_signal`");
                }
            }
            (None, Some(_)) if server.stop.is_none() => {
                say("start", "a server with `start` needs a command that stops it; add `stop`");
            }
            (None, Some(_)) => {}
        }
        if server.stop_signal.is_some() && server.run.is_none() {
            say("stop_signal", "only a server with `run` gets signals; use `run` instead of `start`, or remove this");
        }
        if server.user.as_ref().is_some_and(String::is_empty) {
            say("user", "name a user of this machine, such as \"postgres\", or remove this");
        }
        if server.namespace && server.run.is_none() {
            say("namespace", "only a server with `run` can have a namespace; use `run` instead of `start`");
        }
        for (key, given) in [("cpus", server.cpus.is_some()), ("memory", server.memory.is_some())] {
            if given && server.run.is_none() {
                say(
                    key,
                    "only a server with `run` can be limited; use `run` instead of `start`, or set the limit where it is started",
                );
            }
        }
        if server.cpus.is_some_and(|cpus| !(0.01..=1e6).contains(&cpus)) {
            say("cpus", "use 0.01 cores or more; 0.5 is half a core");
        }
        if server.memory.is_some_and(|memory| memory.0 == 0) {
            say("memory", "a server needs memory; use a limit such as \"256MiB\"");
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
            say("port", "a command uses {port}; add `port`");
        }
        if (named("{data}") || server.prepare.is_some()) && server.data.is_none() {
            say("data", "a command needs the data folder; add `data`");
        }
    }
    for (name, server) in &study.servers {
        let Some(of) = &server.node_of else { continue };
        let mains = study.servers.iter().filter(|(_, other)| other.node_of.is_none()).map(|(name, _)| name.as_str());
        if of == name || !mains.clone().any(|main| main == of) {
            problems.say(&["servers", name, "node_of"], no_such("main server", of, mains));
        }
    }
    for (name, link) in &study.links {
        let mut say = |key: &str, message: &str| problems.say(&["links", name, key], message);
        let is_place = link
            .to
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
        if !is_place {
            say("to", "write the host and port that it leads to, such as \"127.0.0.1:5432\"");
        }
        if link.listen == 0 {
            say("listen", "servers have to know the port; use a free one, such as 15432");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn study(server: &str) -> Result<ServerSpec, String> {
        let text = format!(
            "title = \"x\"\ncollections = {{ docs = {{ count = 1 }} }}\n[[phases]]\nname = \"a\"\nload = [\"docs\"]\n\
             [servers.pg]\n{server}"
        );
        let study = Study::parse(&text, Path::new("x.toml"), &[]).map_err(|errors| errors.to_string())?;
        Ok(study.servers["pg"].clone())
    }

    #[test]
    fn a_server_is_stopped_by_a_signal_or_a_command() {
        assert_eq!(study("run = \"postgres\"").unwrap().stop_signal, None);
        let given = study("run = \"postgres\"\nstop_signal = \"SIGINT\"\nuser = \"postgres\"").unwrap();
        assert_eq!((given.stop_signal, given.user.as_deref()), (Some(StopSignal::Int), Some("postgres")));
        assert_eq!(study("run = \"postgres\"\nstop = \"pg_ctl stop\"").unwrap().stop.as_deref(), Some("pg_ctl stop"));
        for (server, told) in [
            ("run = \"a\"\nstop_signal = \"INT\"", "known: `SIGTERM`, `SIGINT`"),
            ("run = \"a\"\nstop_signal = \"SIGINT\"\nstop = \"b\"", "remove it or `stop_signal`"),
            ("start = \"a\"\nstop = \"b\"\nstop_signal = \"SIGINT\"", "only a server with `run` gets signals"),
            ("run = \"a\"\nkill = \"b\"", "killed and paused by signals"),
            ("run = \"a\"\nuser = \"\"", "name a user of this machine"),
            ("run = \"a\"\nstop = \"b {port}\"", "add `port`"),
        ] {
            let error = study(server).unwrap_err();
            assert!(error.contains(told), "{server}: {error}");
        }
    }
}
