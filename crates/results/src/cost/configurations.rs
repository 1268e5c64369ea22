//! What a configuration costs, which configuration is cheapest, and what a plan's time costs.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::sheet::{PriceSheet, RunsOn};
use crate::stats::Estimate;

/// Hours in a month: a twelfth of a year.
pub(crate) const HOURS_PER_MONTH: f64 = 730.0;
/// Hours in a year of 365 days.
pub(crate) const HOURS_PER_YEAR: f64 = 8_760.0;

const GIB: f64 = (1u64 << 30) as f64;
const SECONDS_PER_HOUR: f64 = 3_600.0;
const MILLION: f64 = 1e6;

/// The measurements of a configuration that its cost depends on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfigurationCostInput {
    /// Name of the store in the study.
    pub(crate) store: String,
    /// Name of the configuration.
    pub(crate) configuration: String,
    /// Operations each second, over the trials of the configuration.
    pub(crate) throughput_per_s: Estimate,
    /// The rate that meets the latency limit, in operations per second. `None` if there is no limit, or no rate meets
    /// it.
    pub(crate) within_limit_per_s: Option<Estimate>,
    /// Bytes of the store's files, if known.
    pub(crate) disk_bytes: Option<u64>,
    /// Bytes read per operation, on average. `None` if unknown.
    pub(crate) read_bytes_per_op: Option<f64>,
    /// Bytes written per operation, on average. `None` if unknown.
    pub(crate) written_bytes_per_op: Option<f64>,
}

/// Money without and with the machines of the client, in the sheet's currency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Money {
    /// For the store alone.
    pub without_clients: f64,
    /// With the client's machines. Null if the sheet does not price them.
    pub with_clients: Option<f64>,
}

impl Money {
    fn times(self, factor: f64) -> Self {
        Self {
            without_clients: self.without_clients * factor,
            with_clients: self.with_clients.map(|money| money * factor),
        }
    }

    fn is_finite(self) -> bool {
        self.without_clients.is_finite() && self.with_clients.is_none_or(f64::is_finite)
    }
}

/// Disk that is paid for separately from the machines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiskCost {
    /// GiB on all nodes together.
    pub gib: f64,
    /// Whether the size was measured; otherwise it comes from the sheet.
    pub measured: bool,
    /// Money for a month of 730 hours.
    pub per_month: f64,
}

/// The cost of a million operations by their bytes, without machines and disk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsageCost {
    /// I/O requests: bytes read and written, divided by the bytes of one request. Null if they have no price, or the
    /// bytes are unknown.
    pub io_per_million: Option<f64>,
    /// Egress: the bytes read. Null if it has no price, or the bytes are unknown.
    pub egress_per_million: Option<f64>,
}

impl UsageCost {
    /// The sum of both.
    pub fn per_million(&self) -> f64 {
        self.io_per_million.unwrap_or(0.0) + self.egress_per_million.unwrap_or(0.0)
    }
}

/// Money for a million operations: machines and disk for the time they take, plus I/O and egress if priced. The
/// interval is the inverse of the rate's: the fast end is the cheap end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PerMillion {
    /// For the store alone.
    pub without_clients: Estimate,
    /// With the client's machines. Null if the sheet does not price them.
    pub with_clients: Option<Estimate>,
}

/// What a configuration costs at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AtRate {
    /// Operations each second.
    pub rate_per_s: Estimate,
    /// Money for a million operations.
    pub per_million: PerMillion,
    /// Money for I/O and egress in an hour at this rate. It is not in the configuration's `per_hour`.
    pub usage_per_hour: f64,
}

/// What a configuration costs. Money is in the sheet's currency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigurationCost {
    /// Name of the configuration.
    pub configuration: String,
    /// Name of the store in the study.
    pub store: String,
    /// What it runs on, according to the sheet.
    pub runs_on: RunsOn,
    /// Disk that is paid for separately from the machines. Null if there is none, or its size is unknown.
    pub disk: Option<DiskCost>,
    /// Machines and disk for an hour.
    pub per_hour: Money,
    /// For a month of 730 hours.
    pub per_month: Money,
    /// For a year of 8,760 hours.
    pub per_year: Money,
    /// I/O and egress of a million operations. Null if neither has a price, or no bytes are known.
    pub usage: Option<UsageCost>,
    /// At the measured rate. Null if nothing was done.
    pub measured: Option<AtRate>,
    /// At the rate that meets the latency limit. Null if there is no limit, or no rate meets it.
    pub within_limit: Option<AtRate>,
    /// At the rate of the price sheet. Null if the sheet has none, or if it was not reached (within the limit, if there is
    /// one).
    pub at_your_rate: Option<AtRate>,
    /// What these figures lack although the sheet prices it.
    pub notes: Vec<String>,
}

/// The rate at which configurations are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RateBasis {
    /// The rate that was measured.
    Measured,
    /// The rate that meets the latency limit.
    WithinLimit,
}

impl ConfigurationCost {
    /// The cost of a configuration. `None` if the sheet does not say what it runs on, names a machine that it lacks (a
    /// checked sheet never does), or its prices overflow a number.
    pub(crate) fn of(sheet: &PriceSheet, configuration: &ConfigurationCostInput) -> Option<Self> {
        let on = sheet.runs_on(&configuration.store, &configuration.configuration)?;
        let mut notes = Vec::new();
        let machines = machines(sheet, &on.node, on.nodes)?;
        let disk = disk(sheet, on, configuration, &mut notes);
        let store_per_hour = machines + disk.map_or(0.0, |disk| disk.per_month / HOURS_PER_MONTH);
        let per_hour = Money {
            without_clients: store_per_hour,
            with_clients: clients(sheet, on).map(|clients| store_per_hour + clients),
        };
        let per_year = per_hour.times(HOURS_PER_YEAR);
        if !per_year.is_finite() {
            return None;
        }
        let usage = usage(sheet, configuration, &mut notes);
        let at = |rate| at_rate(rate, per_hour, usage.map_or(0.0, |usage| usage.per_million()));
        Some(Self {
            configuration: configuration.configuration.clone(),
            store: configuration.store.clone(),
            runs_on: on.clone(),
            disk,
            per_hour,
            per_month: per_hour.times(HOURS_PER_MONTH),
            per_year,
            usage,
            measured: at(configuration.throughput_per_s),
            within_limit: configuration.within_limit_per_s.and_then(at),
            at_your_rate: None,
            notes,
        })
    }

    /// The cost at a rate that is at most 2 % above what was reached on this basis: the machines cost the same, but do
    /// less. It has no interval.
    pub(super) fn at_rate(&self, per_s: f64, basis: RateBasis) -> Option<AtRate> {
        let reached = self.at(basis).filter(|at| at.rate_per_s.value * 1.02 >= per_s)?;
        let rate = Estimate { value: per_s, low: None, high: None, trials: reached.rate_per_s.trials };
        at_rate(rate, self.per_hour, self.usage.map_or(0.0, |usage| usage.per_million()))
    }

    /// The cost at a rate. `None` if there is no such rate.
    pub fn at(&self, at: RateBasis) -> Option<&AtRate> {
        match at {
            RateBasis::Measured => self.measured.as_ref(),
            RateBasis::WithinLimit => self.within_limit.as_ref(),
        }
    }
}

/// The price of `count` machines for an hour.
fn machines(sheet: &PriceSheet, node: &str, count: u32) -> Option<f64> {
    Some(sheet.nodes.get(node)?.per_hour * f64::from(count))
}

/// The price of the client's machines for an hour. `None` if the sheet lacks their number or price.
fn clients(sheet: &PriceSheet, on: &RunsOn) -> Option<f64> {
    match (on.clients?, &on.client_node) {
        (0, _) => Some(0.0),
        (count, node) => machines(sheet, node.as_ref()?, count),
    }
}

/// The disk that is paid for. The sheet's size takes precedence over the measured one, and the price of a machine
/// includes its own disk.
fn disk(
    sheet: &PriceSheet,
    on: &RunsOn,
    configuration: &ConfigurationCostInput,
    notes: &mut Vec<String>,
) -> Option<DiskCost> {
    let price = sheet.disk?;
    let (gib, measured) = match (on.disk_gib, configuration.disk_bytes) {
        (Some(gib), _) => (gib * f64::from(on.nodes), false),
        _ if sheet.nodes.get(&on.node).is_some_and(|node| node.disk.is_some()) => return None,
        (None, Some(bytes)) => (bytes as f64 / GIB, true),
        (None, None) => {
            notes.push("the cost excludes the disk, because its size is unknown; set disk_gib".into());
            return None;
        }
    };
    Some(DiskCost { gib, measured, per_month: gib * price.per_gib_month })
}

/// I/O and egress of a million operations.
fn usage(sheet: &PriceSheet, configuration: &ConfigurationCostInput, notes: &mut Vec<String>) -> Option<UsageCost> {
    let known = |bytes: Option<f64>| bytes.filter(|bytes| bytes.is_finite() && *bytes >= 0.0);
    let (read, written) = (known(configuration.read_bytes_per_op), known(configuration.written_bytes_per_op));
    let mut priced = |what: &str, bytes: Option<f64>, per_byte: f64| {
        let cost = bytes.map(|bytes| bytes * per_byte * MILLION).filter(|cost| cost.is_finite());
        if cost.is_none() {
            notes.push(format!("the cost excludes {what}, because the bytes per operation are unknown"));
        }
        cost
    };
    let both = read.zip(written).map(|(read, written)| read + written);
    let request = |bytes: u64| MILLION * bytes as f64;
    let usage = UsageCost {
        io_per_million: sheet.io.and_then(|io| priced("I/O", both, io.per_million / request(io.bytes.bytes()))),
        egress_per_million: sheet.egress.and_then(|egress| priced("egress", read, egress.per_gib / GIB)),
    };
    (usage.io_per_million.is_some() || usage.egress_per_million.is_some()).then_some(usage)
}

/// The cost at a rate. `None` if the rate is 0, or so small that the cost overflows.
fn at_rate(rate: Estimate, per_hour: Money, usage_per_million: f64) -> Option<AtRate> {
    let per_million = |hour: f64| {
        let cost = |per_s: f64| {
            let cost = hour / (per_s * SECONDS_PER_HOUR) * MILLION + usage_per_million;
            (per_s > 0.0 && per_s.is_finite() && cost.is_finite()).then_some(cost)
        };
        let (low, high) = (rate.high.and_then(cost), rate.low.and_then(cost));
        Some(Estimate { value: cost(rate.value)?, low, high, trials: rate.trials })
    };
    let usage_per_hour = usage_per_million * rate.value * SECONDS_PER_HOUR / MILLION;
    Some(AtRate {
        rate_per_s: rate,
        per_million: PerMillion {
            without_clients: per_million(per_hour.without_clients)?,
            with_clients: per_hour.with_clients.and_then(per_million),
        },
        usage_per_hour: Some(usage_per_hour).filter(|money| money.is_finite())?,
    })
}

/// The configuration with the lowest cost per million operations at a rate, without clients; the first one on a tie.
/// Configurations without such a rate, such as those that miss the limit, are left out. `None` if none remains.
pub(crate) fn cheapest(configurations: &[ConfigurationCost], at: RateBasis) -> Option<usize> {
    let price = |configuration: &ConfigurationCost| configuration.at(at).map(|at| at.per_million.without_clients.value);
    let priced =
        configurations.iter().enumerate().filter_map(|(index, configuration)| Some((index, price(configuration)?)));
    priced.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index)
}

/// The other configurations whose cost does not clearly differ from the cheapest one's: the intervals overlap, or one
/// of the two has no interval because it has fewer than two trials.
pub(crate) fn not_told_apart(configurations: &[ConfigurationCost], cheapest: usize, at: RateBasis) -> Vec<usize> {
    let price = |configuration: &ConfigurationCost| configuration.at(at).map(|at| at.per_million.without_clients);
    let Some(best) = configurations.get(cheapest).and_then(price) else { return Vec::new() };
    let others = configurations.iter().enumerate().filter(|(index, _)| *index != cheapest);
    others
        .filter(|(_, configuration)| price(configuration).is_some_and(|other| overlap(best, other)))
        .map(|(index, _)| index)
        .collect()
}

fn overlap(a: Estimate, b: Estimate) -> bool {
    match (a.low, a.high, b.low, b.high) {
        (Some(a_low), Some(a_high), Some(b_low), Some(b_high)) => a_low <= b_high && b_low <= a_high,
        _ => true,
    }
}

/// The cost of a plan's time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanCost {
    /// For the shortest time that it may take.
    pub least: f64,
    /// For the longest.
    pub most: f64,
    /// Configurations whose machines have no price in the sheet; they are in neither figure.
    pub unpriced: Vec<String>,
    /// Whether the figures include the client machines of every configuration. Machines without a price are left out.
    pub with_clients: bool,
}

/// The cost of a plan that takes `least_s` to `most_s` seconds. `configurations` are pairs of a store's name and a
/// configuration's name.
///
/// The machines of every store are paid for the whole time, since nothing here rents or returns them. Configurations of
/// one store run one after another on the same machines, and all configurations use the same clients, so the most
/// expensive of each counts. Disk counts if the sheet gives its size; I/O and egress do not.
pub fn plan_cost<'a>(
    sheet: &PriceSheet,
    configurations: impl IntoIterator<Item = (&'a str, &'a str)>,
    least_s: f64,
    most_s: f64,
) -> PlanCost {
    let mut stores: IndexMap<&str, f64> = IndexMap::new();
    let mut most_clients = 0.0f64;
    let mut cost = PlanCost { with_clients: true, ..PlanCost::default() };
    for (store, configuration) in configurations {
        let priced =
            sheet.runs_on(store, configuration).and_then(|on| Some((on, machines(sheet, &on.node, on.nodes)?)));
        let Some((on, machines)) = priced else {
            cost.unpriced.push(configuration.to_owned());
            continue;
        };
        let disk = on
            .disk_gib
            .zip(sheet.disk)
            .map_or(0.0, |(gib, price)| gib * f64::from(on.nodes) * price.per_gib_month / HOURS_PER_MONTH);
        let dearest = stores.entry(store).or_insert(0.0);
        *dearest = dearest.max(machines + disk);
        match clients(sheet, on) {
            Some(clients) => most_clients = most_clients.max(clients),
            None => cost.with_clients = false,
        }
    }
    let per_s = (stores.values().sum::<f64>() + most_clients) / SECONDS_PER_HOUR;
    cost.least = per_s * least_s.max(0.0);
    cost.most = per_s * most_s.max(0.0);
    cost
}
