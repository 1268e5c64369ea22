//! The price sheet: what machines, disk and traffic cost, and which configuration runs on what.

#[cfg(feature = "schema")]
use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use indexmap::IndexMap;
use jiff::civil::Date;
#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use storebench_study::units::{ByteSize, Count};
use storebench_study::workload::{Problem, StudyErrors, did_you_mean, read_toml};

/// Prices, their source, and which configuration runs on what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PriceSheet {
    /// The currency of every price, in three capital letters (ISO 4217): `USD`.
    pub currency: String,
    /// The source of the prices.
    pub source: String,
    /// The day on which they were valid.
    pub date: PriceDate,
    /// Operations that you serve each second. What a million of them cost at this rate is shown beside the measured rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Count>,
    /// What a reader needs to know about the prices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Machines by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub nodes: IndexMap<String, NodePrice>,
    /// Disk that is paid for separately from the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskPrice>,
    /// I/O requests that are paid for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<IoPrice>,
    /// Bytes sent out that are paid for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressPrice>,
    /// What configurations run on, by configuration name. `*` matches any text. These take precedence over `stores`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub configurations: IndexMap<String, RunsOn>,
    /// What stores run on, by store name in the study. `default` covers every other store.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub stores: IndexMap<String, RunsOn>,
}

/// What one machine costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NodePrice {
    /// Money for one machine for one hour.
    pub per_hour: f64,
    /// Its processors, as the provider counts them. For the reader only; no cost depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Its memory. For the reader only; no cost depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// The disk included in its price. If it is given, measured bytes on disk are not charged again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<ByteSize>,
    /// The source of this price, if it differs from the sheet's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The day on which this price was valid, if it differs from the sheet's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<PriceDate>,
}

/// What disk costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DiskPrice {
    /// Money for 1 GiB for a month of 730 hours.
    pub per_gib_month: f64,
}

/// What I/O requests cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IoPrice {
    /// Money for a million requests.
    pub per_million: f64,
    /// The bytes that are billed as one request; default 4 KiB.
    #[serde(default = "four_kib")]
    pub bytes: ByteSize,
}

fn four_kib() -> ByteSize {
    ByteSize(4_096)
}

/// What bytes sent out cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EgressPrice {
    /// Money for 1 GiB.
    pub per_gib: f64,
}

/// What a configuration runs on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunsOn {
    /// The machine of the store: a name in `nodes`.
    pub node: String,
    /// How many of them; default 1.
    #[serde(default = "one")]
    pub nodes: u32,
    /// Machines of the client. 0 means that it has none of its own. If left out, no cost with clients is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// The machine of the client: a name in `nodes`. If left out, the clients have no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_node: Option<String>,
    /// GiB of disk that are paid for on each node, instead of the measured bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_gib: Option<f64>,
}

/// What to write for a required key.
fn remedy(key: &str) -> &'static str {
    match key {
        "currency" => "write the three letters of the currency, like currency = \"USD\"",
        "source" => "say where the prices are from, like source = \"list prices of the provider, region west\"",
        "date" => "write the day on which these prices were valid, like date = \"2026-11-22\"",
        "per_hour" => "write what one machine costs for an hour, like per_hour = 0.532",
        "per_gib_month" => "write what 1 GiB of disk costs for a month, like per_gib_month = 0.08",
        "per_million" => "write what a million I/O requests cost, like per_million = 0.2",
        "per_gib" => "write what 1 GiB sent costs, like per_gib = 0.09",
        "node" => "name a machine of [nodes], like node = \"large\"",
        _ => "add it",
    }
}

fn one() -> u32 {
    1
}

impl PriceSheet {
    /// Reads and checks a price sheet.
    ///
    /// # Errors
    /// Every problem, with file, line and key as for a study: missing or unknown keys, negative prices, machines that
    /// are not in the sheet, a date in the future.
    pub fn read(file: &Path) -> Result<Self, StudyErrors> {
        Self::parse(&read_toml(file, "a price sheet")?, file)
    }

    /// Parses a price sheet. `file` only appears in errors.
    ///
    /// # Errors
    /// As [`PriceSheet::read`].
    pub fn parse(text: &str, file: &Path) -> Result<Self, StudyErrors> {
        Self::parse_on(text, file, today())
    }

    pub(super) fn parse_on(text: &str, file: &Path, today: Date) -> Result<Self, StudyErrors> {
        let sheet: Self = StudyErrors::read(text, file, |key| Some(remedy(key)))?;
        let problems = sheet.problems(today);
        if problems.is_empty() { Ok(sheet) } else { Err(StudyErrors::of(file, text, problems)) }
    }

    /// What a configuration runs on, by the first of these that applies: its name, the first matching pattern, its
    /// store, `default`. `None` if the sheet has none of them.
    pub fn runs_on(&self, store: &str, configuration: &str) -> Option<&RunsOn> {
        let by_pattern =
            || self.configurations.iter().find(|(pattern, _)| fits(pattern, configuration)).map(|(_, on)| on);
        self.configurations
            .get(configuration)
            .or_else(by_pattern)
            .or_else(|| self.stores.get(store))
            .or_else(|| self.stores.get("default"))
    }

    fn problems(&self, today: Date) -> Vec<Problem> {
        let mut found = SheetProblems(Vec::new());
        if self.currency.len() != 3 || !self.currency.bytes().all(|b| b.is_ascii_uppercase()) {
            found.add(&["currency"], format!("invalid currency `{}`; {}", self.currency, remedy("currency")));
        }
        found.text(&["source"], &self.source);
        found.date(&["date"], self.date, today);
        if self.rate == Some(Count(0)) {
            found.add(&["rate"], "a rate of 0 has no cost per million; write how many you serve each second".into());
        }
        for (name, node) in &self.nodes {
            found.money(&["nodes", name, "per_hour"], node.per_hour);
            if let Some(source) = &node.source {
                found.text(&["nodes", name, "source"], source);
            }
            if let Some(date) = node.date {
                found.date(&["nodes", name, "date"], date, today);
            }
        }
        if let Some(disk) = self.disk {
            found.money(&["disk", "per_gib_month"], disk.per_gib_month);
        }
        if let Some(io) = self.io {
            found.money(&["io", "per_million"], io.per_million);
            if io.bytes.bytes() == 0 {
                found.add(&["io", "bytes"], "a request of 0 bytes cannot be counted; write bytes = \"4KiB\"".into());
            }
        }
        if let Some(egress) = self.egress {
            found.money(&["egress", "per_gib"], egress.per_gib);
        }
        for (table, entries) in [("configurations", &self.configurations), ("stores", &self.stores)] {
            for (name, on) in entries {
                self.check_runs_on(&mut found, &[table, name], on);
            }
        }
        found.0
    }

    fn check_runs_on(&self, found: &mut SheetProblems, path: &[&str], on: &RunsOn) {
        let at = |key| [path, &[key]].concat();
        for (key, name) in [("node", Some(&on.node)), ("client_node", on.client_node.as_ref())] {
            if let Some(name) = name.filter(|name| !self.nodes.contains_key(*name)) {
                found.add(&at(key), self.no_such_node(name));
            }
        }
        if on.nodes == 0 {
            found.add(&at("nodes"), "a store runs on at least 1 machine; write nodes = 1 or more".into());
        }
        if on.client_node.is_some() && on.clients.is_none() {
            found.add(&at("client_node"), "the number of client machines is missing; add clients = 1 or more".into());
        }
        if let Some(gib) = on.disk_gib {
            if !(gib.is_finite() && gib >= 0.0) {
                found.add(&at("disk_gib"), format!("invalid size {gib}; write 0 or more GiB"));
            } else if self.disk.is_none() {
                found.add(
                    &at("disk_gib"),
                    "disk has no price in this sheet; add a table [disk] with per_gib_month".into(),
                );
            }
        }
    }

    fn no_such_node(&self, name: &str) -> String {
        let names = || self.nodes.keys().map(String::as_str);
        match did_you_mean(name, names()) {
            Some(meant) => format!("unknown machine `{name}`; did you mean `{meant}`?"),
            None if self.nodes.is_empty() => {
                format!("unknown machine `{name}`: [nodes] is empty; add [nodes.{name}] with per_hour")
            }
            None => {
                let all: Vec<String> = names().map(|n| format!("`{n}`")).collect();
                format!("unknown machine `{name}`; expected one of: {}", all.join(", "))
            }
        }
    }
}

/// The problems that were found.
struct SheetProblems(Vec<Problem>);

impl SheetProblems {
    fn add(&mut self, path: &[&str], message: String) {
        self.0.push(Problem { path: path.iter().map(|&part| part.to_owned()).collect(), message });
    }

    fn money(&mut self, path: &[&str], price: f64) {
        if !(price.is_finite() && price >= 0.0) {
            self.add(path, format!("invalid price {price}; write 0 or more"));
        }
    }

    fn text(&mut self, path: &[&str], text: &str) {
        if text.trim().is_empty() {
            self.add(path, format!("it is empty; {}", remedy("source")));
        }
    }

    fn date(&mut self, path: &[&str], date: PriceDate, today: Date) {
        if date.0 > today {
            self.add(path, format!("{date} is in the future; write the day on which these prices were valid"));
        }
    }
}

/// The latest date anywhere on Earth: today's date is then never in the future, whatever the time zone.
fn today() -> Date {
    jiff::tz::Offset::constant(14).to_datetime(jiff::Timestamp::now()).date()
}

/// Whether a name matches a pattern, in which `*` matches any text.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let middle: Vec<&str> = parts.collect();
    let Some((last, middle)) = middle.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// A day in RFC 3339 form: `2026-11-22`. An unquoted TOML date is accepted too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PriceDate(pub Date);

/// The TOML parser passes a date on as a table with this one key. The name is private to the parser; a test that reads
/// an unquoted date would catch a change.
const TOML_DATE: &str = "$__toml_private_datetime";

impl std::str::FromStr for PriceDate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = |(i, b): (usize, u8)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() };
        let shaped = text.len() == 10 && text.bytes().enumerate().all(digits);
        let date = if shaped { text.parse().ok() } else { None };
        date.map(Self).ok_or_else(|| format!("invalid date `{text}`; write year, month and day like \"2026-11-22\""))
    }
}

impl fmt::Display for PriceDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for PriceDate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PriceDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = PriceDate;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a date like \"2026-11-22\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<PriceDate, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PriceDate, A::Error> {
                match map.next_entry::<String, String>()? {
                    Some((key, text)) if key == TOML_DATE => text.parse().map_err(de::Error::custom),
                    _ => Err(de::Error::invalid_type(de::Unexpected::Map, &self)),
                }
            }
        }
        deserializer.deserialize_any(V)
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for PriceDate {
    fn schema_name() -> Cow<'static, str> {
        "PriceDate".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date", "description": "a day: \"2026-11-22\"" })
    }
}
