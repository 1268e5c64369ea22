//! Faults of a store's servers and links while a phase runs.

mod check;

use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phases::Phase;
use super::study::Study;
use crate::mix64;
use crate::units::{ByteSize, Count, Span};
use crate::written::{is_default, names};

pub(super) use check::check;

/// A fault of a store's server, or of the link to it, while a phase runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The kind of fault.
    #[serde(rename = "do")]
    pub what: FaultKind,
    /// When it begins, after the start of the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Span>,
    /// Instead of `at`: when this many operations of the phase have ended, checked at each interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Count>,
    /// Instead of `at`: when a statistic of the store meets a condition: `"wal_bytes > 1MiB"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// How long it lasts, until the server is started again or resumed; default 0 s. For a command: how long it may
    /// take.
    #[serde(default, rename = "for", skip_serializing_if = "is_default")]
    pub lasts: Span,
    /// Which server, if the store has several; default: the one with the name of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// For a kill or a restart: drops the data from the system's cache before the server starts again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cold: bool,
    /// For a power cut: a random part of the unsynced data survives, drawn from this seed; default: none of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<u64>,
    /// For a limit: the cores that the server may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// For a limit: the memory that the server may use, including the page cache of its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// For a limit: bytes that the server may read from its disk per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_read: Option<ByteSize>,
    /// For a limit: bytes that the server may write to its disk per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_write: Option<ByteSize>,
    /// For a link: which of the study's `links`; default: the one between this process and the store's server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// For a link: this is added to each round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Span>,
    /// For a link: each direction takes up to this much more or less, uniformly distributed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// For a link: bytes per second in each direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<ByteSize>,
    /// For a link: nothing passes until the fault ends; everything passes later.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stall: bool,
    /// For a link: data in this direction is lost on each connection that is open during the fault, also later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_open: Option<Lost>,
    /// For a link: new connections are refused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refuse: bool,
    /// For a partition: groups of servers that reach each other, by name; the servers in no group form one more group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Vec<String>>,
    /// For a partition: which servers this process reaches; default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients_reach: Option<ClientsReach>,
    /// For a partition of two groups: only what the first sends to the second is lost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub one_way: bool,
    /// For a run: the command, run with `sh -c`, with `{data}`, `{port}` and `{name}` filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// The kind of fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Kills the server (SIGKILL) and starts it again.
    #[default]
    Kill,
    /// Shuts it down cleanly (SIGTERM) and starts it again.
    Restart,
    /// Shuts all servers of the store down cleanly and starts them again, one after the other.
    RollingRestart,
    /// Pauses it (SIGSTOP) and resumes it (SIGCONT).
    Pause,
    /// Kills it, discards what its disk had not synced, and starts it again.
    PowerCut,
    /// Its disk is full: no file can grow.
    DiskFull,
    /// It gets less of the machine: cores, memory, disk.
    Limit,
    /// The link to it is slow, stalls, loses data or refuses connections.
    Link,
    /// All connections over the link are reset.
    Reset,
    /// Servers cannot reach each other.
    Partition,
    /// Runs a command of the user, for example to add a node or to rebalance.
    Run,
}

names! { FaultKind:
    Kill "kill", Restart "restart", RollingRestart "rolling-restart", Pause "pause", PowerCut "power-cut",
    DiskFull "disk-full", Limit "limit", Link "link", Reset "reset", Partition "partition", Run "run",
}

impl FaultKind {
    /// Whether the store is expected not to answer during the fault.
    pub fn silences(self) -> bool {
        !matches!(self, Self::Limit)
    }

    /// Whether it takes something from the server that it may not be able to live without: a store may end by itself.
    pub fn starves(self) -> bool {
        matches!(self, Self::DiskFull | Self::Limit)
    }

    /// Whether it ends the server and starts it again.
    pub fn starts_again(self) -> bool {
        matches!(self, Self::Kill | Self::Restart | Self::RollingRestart | Self::PowerCut)
    }

    /// Whether it is done to the disk. Storebench then makes a disk for the run.
    pub fn is_of_disk(self) -> bool {
        matches!(self, Self::PowerCut | Self::DiskFull)
    }

    /// Whether it is done to a link, so that the server need not be controlled.
    pub fn is_of_link(self) -> bool {
        matches!(self, Self::Link | Self::Reset)
    }

    /// Whether it is done to a server that has to be controlled.
    pub fn is_of_server(self) -> bool {
        !self.is_of_link() && self != Self::Run
    }

    /// Whether it may hit all nodes of a store: one after the other, or by whatever a command does. Others hit one
    /// node.
    pub fn hits_all_nodes(self) -> bool {
        matches!(self, Self::RollingRestart | Self::Run)
    }
}

/// Which servers of a partitioned network this process reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ClientsReach {
    /// All of them.
    All,
    /// Those of the first group.
    First,
    /// None of them.
    None,
}

/// A direction of a link, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Lost {
    /// What the client sends is lost.
    ToServer,
    /// What the server sends is lost.
    ToClient,
    /// Both.
    Both,
}

/// Random faults. The phase is divided into stretches of equal length. In each stretch except the first, one fault
/// begins in the first half.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RandomFaults {
    /// The length of a stretch.
    pub every: Span,
    /// The faults to draw from, each equally likely, without their time.
    pub of: Vec<Fault>,
    /// The seed; default: the study's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl RandomFaults {
    /// The faults of a phase of this length, in their order.
    pub fn drawn(&self, seed: u64, duration: Duration) -> Vec<Fault> {
        let every = u64::try_from(self.every.0.as_nanos()).unwrap_or(u64::MAX).max(1);
        let length = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let seed = mix64(self.seed.unwrap_or(seed), 0x0066_6175_6c74_7321);
        let draw = |stretch: u64| {
            let of = self.of.get((mix64(seed, stretch * 2) % self.of.len().max(1) as u64) as usize)?;
            let within = mix64(seed, stretch * 2 + 1) % (every / 2).max(1);
            Some(Fault { at: Some(Span(Duration::from_nanos(stretch * every + within))), ..of.clone() })
        };
        (1..length / every).filter_map(draw).collect()
    }
}

/// A condition on a statistic of a store, above or below a number: `"wal_bytes > 1MiB"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Condition {
    /// The name of the statistic.
    pub figure: String,
    /// Whether it must be above the number, or below.
    pub above: bool,
    /// The number.
    pub number: f64,
    text: String,
}

impl Condition {
    /// Whether a value meets the condition.
    pub fn holds(&self, value: f64) -> bool {
        if self.above { value > self.number } else { value < self.number }
    }
}

impl TryFrom<String> for Condition {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong =
            || format!("invalid condition `{text}`; write a figure of the store and a number: \"wal_bytes > 1MiB\"");
        let (at, above) =
            text.find('>').map(|at| (at, true)).or_else(|| text.find('<').map(|at| (at, false))).ok_or_else(wrong)?;
        let (figure, number) = (text[..at].trim(), text[at + 1..].trim());
        let number = match number.parse::<f64>() {
            Ok(number) if number.is_finite() => number,
            _ => number.parse::<ByteSize>().map_err(|_| wrong())?.0 as f64,
        };
        if figure.is_empty() || figure.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Self { figure: figure.to_owned(), above, number, text })
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.text
    }
}

impl Study {
    /// The faults of a phase of this study, in order.
    pub fn faults_of(&self, phase: &Phase) -> Vec<Fault> {
        let drawn = phase.random_faults.as_ref().zip(phase.duration);
        let drawn = drawn.map_or_else(Vec::new, |(random, duration)| random.drawn(self.seed, duration.0));
        phase.faults.iter().cloned().chain(drawn).collect()
    }

    /// The faults of all phases, and those that random ones are drawn from.
    fn possible_faults(&self) -> impl Iterator<Item = &Fault> {
        self.phases
            .iter()
            .flat_map(|phase| phase.faults.iter().chain(phase.random_faults.iter().flat_map(|random| &random.of)))
    }

    fn any_fault(&self, is: impl Fn(&Fault) -> bool) -> bool {
        self.possible_faults().any(is)
    }

    /// Whether a fault cuts the power of a server's disk or fills it. Its data is then on a disk that is made for the
    /// run.
    pub fn has_faults_of_disks(&self) -> bool {
        self.any_fault(|fault| fault.what.is_of_disk())
    }

    /// Whether any fault or restart is done to a server, so that it has to be controlled.
    pub fn has_faults_of_servers(&self) -> bool {
        self.any_fault(|fault| fault.what.is_of_server()) || self.phases.iter().any(|phase| phase.restart.is_some())
    }

    /// Whether a server's limits change while it runs.
    pub fn has_faults_of_limits(&self) -> bool {
        self.any_fault(|fault| fault.what == FaultKind::Limit)
    }

    /// The limits that faults set for a server while it runs; `None` if there are none.
    pub fn limits_of_faults(&self, server: &str) -> Option<Vec<&Fault>> {
        let own = self.servers.get(server).is_none_or(|spec| spec.node_of.is_none());
        let is_its = |fault: &&Fault| fault.server.as_deref().map_or(own, |named| named == server);
        let limits: Vec<&Fault> =
            self.possible_faults().filter(|fault| fault.what == FaultKind::Limit).filter(is_its).collect();
        (!limits.is_empty()).then_some(limits)
    }

    /// Whether a fault is done to the link between this process and a store, so that Storebench has to make one.
    pub fn has_faults_of_links(&self) -> bool {
        self.any_fault(|fault| fault.what.is_of_link() && fault.link.is_none())
    }

    /// Whether commands are run while phases run.
    pub fn has_commands(&self) -> bool {
        self.any_fault(|fault| fault.what == FaultKind::Run)
    }
}

impl Fault {
    /// The details of the fault in words: `round trips 50 ms longer`; empty if there are none.
    pub fn detail(&self) -> String {
        let mut all = Vec::new();
        let mut add = |said: Option<String>| all.extend(said);
        add(self.server.as_ref().map(|server| format!("of {server}")));
        add(self.link.as_ref().map(|link| format!("of {link}")));
        add(self.cold.then(|| "with cold caches".to_owned()));
        add(self.latency.map(|more| format!("round trips {more} longer")));
        add(self.jitter.map(|jitter| format!("±{jitter}")));
        add(self.bandwidth.map(|bytes| format!("{bytes}/s")));
        add(self.stall.then(|| "stalled".to_owned()));
        add(self.half_open.map(|lost| {
            let lost = match lost {
                Lost::ToServer => "what clients send",
                Lost::ToClient => "what the server sends",
                Lost::Both => "all that is sent",
            };
            format!("{lost} is lost")
        }));
        add(self.refuse.then(|| "connections refused".to_owned()));
        add(self.cpus.map(|cpus| format!("{cpus} processors")));
        add(self.memory.map(|bytes| format!("{bytes} of memory")));
        add(self.disk_read.map(|bytes| format!("{bytes}/s read")));
        add(self.disk_write.map(|bytes| format!("{bytes}/s written")));
        let apart = self.groups.iter().map(|group| group.join(" and ")).collect::<Vec<_>>();
        let sign = if self.one_way { " not heard by " } else { " apart from " };
        add((!apart.is_empty()).then(|| apart.join(sign)));
        add(self.command.as_ref().map(|command| format!("`{command}`")));
        all.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_faults_are_seeded_and_leave_the_first_stretch_and_the_ends_alone() {
        let of = vec![
            Fault::default(),
            Fault { what: FaultKind::Pause, lasts: Span(Duration::from_secs(2)), ..Fault::default() },
        ];
        let random = RandomFaults { every: Span(Duration::from_secs(10)), of, seed: None };
        let drawn = random.drawn(7, Duration::from_secs(125));
        assert_eq!(drawn.len(), 11, "one in each stretch but the first, and none in what is no whole stretch");
        for (nth, fault) in drawn.iter().enumerate() {
            let at = fault.at.unwrap().0.as_secs_f64() - 10.0 * (nth + 1) as f64;
            assert!((0.0..5.0).contains(&at), "{at}");
        }
        assert!([FaultKind::Kill, FaultKind::Pause].iter().all(|kind| drawn.iter().any(|fault| fault.what == *kind)));
        assert_eq!(drawn, random.drawn(7, Duration::from_secs(125)));
        assert_ne!(drawn, random.drawn(8, Duration::from_secs(125)));
        assert_eq!(
            RandomFaults { seed: Some(7), ..random.clone() }.drawn(1, Duration::from_secs(125)),
            drawn,
            "its own seed is used in place of the study's"
        );
    }

    #[test]
    fn a_condition_is_a_figure_and_a_number() {
        let read = |text: &str| Condition::try_from(text.to_owned());
        let above = read("wal_bytes > 1MiB").unwrap();
        assert!(above.holds((1 << 20) as f64 + 1.0) && !above.holds((1 << 20) as f64));
        let below = read("free<0.5").unwrap();
        assert!(below.holds(0.4) && !below.holds(0.5) && below.figure == "free");
        assert_eq!(String::from(below), "free<0.5");
        for wrong in ["wal_bytes", "> 1", "wal bytes > 1", "wal_bytes > much", "wal_bytes > NaN"] {
            assert!(read(wrong).unwrap_err().contains("invalid condition"), "{wrong}");
        }
    }

    #[test]
    fn a_fault_is_told_in_words() {
        let fault = Fault {
            what: FaultKind::Link,
            latency: Some(Span(Duration::from_millis(50))),
            half_open: Some(Lost::ToServer),
            ..Fault::default()
        };
        assert_eq!(fault.detail(), "round trips 50ms longer, what clients send is lost");
        assert_eq!(Fault::default().detail(), "");
    }
}
