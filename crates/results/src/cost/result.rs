//! The costs of a run, as stored in its result and as a table.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::configurations::{AtRate, ConfigurationCost, ConfigurationCostInput, RateBasis, cheapest, not_told_apart};
use super::sheet::PriceSheet;
use crate::OpResult;
use crate::human::{self, cut, is_useless};
use crate::lines::wrap;
use crate::table::ColumnKind::{Count, Text};
use crate::table::Table;

/// Columns of the widest line.
const WIDTH: usize = 120;
/// Characters of the longest name in a table.
const NAME: usize = 30;

/// What is priced by the million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Operations that succeeded.
    #[default]
    Operations,
    /// Documents written, read or found, if operations have several. Batches of any size are then priced alike.
    Documents,
}

impl Work {
    /// How many an operation did each second.
    pub(super) fn per_s(self, op: &OpResult) -> f64 {
        match self {
            Self::Operations => op.throughput_per_s,
            Self::Documents => op.documents_per_s,
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operations => "operations",
            Self::Documents => "documents",
        })
    }
}

/// The costs of the configurations of a run, and the prices behind them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostResult {
    /// The whole price sheet.
    pub sheet: PriceSheet,
    /// What is priced by the million.
    pub work: Work,
    /// The latency limit, in words. Null if the study has none.
    pub limit: Option<String>,
    /// The configurations that the sheet prices, in the order of the study.
    pub configurations: Vec<ConfigurationCost>,
    /// The rate at which the cheapest was chosen. If there is a limit, it is the rate that meets it.
    pub compared_at: RateBasis,
    /// The configuration with the lowest cost per million. Null if none has a price or meets the limit.
    pub cheapest: Option<String>,
    /// Other configurations whose cost does not clearly differ from the cheapest one's.
    pub not_told_apart: Vec<String>,
    /// What a reader needs to know about these figures.
    pub notes: Vec<String>,
}

impl CostResult {
    /// The costs of configurations. `limit` describes the limit that `within_limit_per_s` meets; `None` if the study
    /// has no limit. The notes name configurations without a price.
    pub(crate) fn of(sheet: PriceSheet, inputs: &[ConfigurationCostInput], limit: Option<String>, work: Work) -> Self {
        let (mut configurations, mut unpriced) = (Vec::new(), Vec::new());
        for input in inputs {
            match ConfigurationCost::of(&sheet, input) {
                Some(cost) => configurations.push(cost),
                None => unpriced.push(input.configuration.as_str()),
            }
        }
        let compared_at = if limit.is_some() { RateBasis::WithinLimit } else { RateBasis::Measured };
        if let Some(rate) = sheet.rate {
            configurations.iter_mut().for_each(|of| of.at_your_rate = of.at_rate(rate.0 as f64, compared_at));
        }
        let best = cheapest(&configurations, compared_at);
        let like_best = best.map(|best| not_told_apart(&configurations, best, compared_at)).unwrap_or_default();
        let mut result = Self {
            cheapest: best.map(|best| configurations[best].configuration.clone()),
            not_told_apart: like_best.iter().map(|&index| configurations[index].configuration.clone()).collect(),
            compared_at,
            notes: Vec::new(),
            sheet,
            work,
            limit,
            configurations,
        };
        result.notes = result.explain(&unpriced);
        result
    }

    /// The sheet of a run that has measured nothing yet.
    pub fn unmeasured(sheet: PriceSheet) -> Self {
        Self::of(sheet, &[], None, Work::Operations)
    }

    /// The cost of a configuration at a rate. `None` if it has none.
    pub(crate) fn at(&self, configuration: &str, basis: RateBasis) -> Option<&AtRate> {
        self.configurations.iter().find(|of| of.configuration == configuration)?.at(basis)
    }

    fn explain(&self, unpriced: &[&str]) -> Vec<String> {
        let mut notes = Vec::new();
        if !unpriced.is_empty() {
            let one = "[stores.NAME] or [configurations.\"PATTERN\"]";
            notes.push(format!("no price for {}: add {one} to the price sheet", unpriced.join(", ")));
        }
        // A note about the configurations for which something is so.
        let mut note = |is: &dyn Fn(&ConfigurationCost) -> bool, what: &str| {
            let about = self.configurations.iter().filter(|of| is(of)).map(|of| of.configuration.as_str());
            let about: Vec<&str> = about.collect();
            notes.extend((!about.is_empty()).then(|| format!("{what}: {}", about.join(", "))));
        };
        note(
            &|of| of.per_hour.with_clients.is_none(),
            "client machines are not included, because the sheet does not price them",
        );
        note(&|of| self.limit.is_some() && of.within_limit.is_none(), "no rate within the limit");
        if let Some(rate) = self.sheet.rate {
            let what = format!("did not reach your rate of {}/s", human::count(rate.0));
            note(&|of| of.at_your_rate.is_none(), &what);
        }
        note(
            &|of| of.at(self.compared_at).is_some_and(|at| is_useless(&at.per_million.without_clients)),
            "unknown: the ends of the interval are more than tenfold apart; run more rounds or longer phases",
        );
        let idle = format!("no {} were measured, so a million of them has no price", self.work);
        note(&|of| of.measured.is_none(), &idle);
        for configuration in &self.configurations {
            notes.extend(configuration.notes.iter().map(|note| format!("{}: {note}", configuration.configuration)));
        }
        if self.configurations.iter().any(|configuration| configuration.usage.is_some()) {
            notes.push(format!(
                "I/O and egress are included in the price per million {}, not in the price per hour",
                self.work
            ));
        }
        notes
    }

    /// A sentence that names the cheapest configuration. `None` if there is none.
    fn conclusion(&self) -> Option<String> {
        let best = self.cheapest.as_ref()?;
        let within = match &self.limit {
            Some(limit) => format!(" within {limit}"),
            None => " at the measured rate".to_owned(),
        };
        let alike = match self.not_told_apart.as_slice() {
            [] => String::new(),
            others => {
                let has_interval = |name: &String| {
                    let alone = self.at(name, self.compared_at).map(|at| at.per_million.without_clients);
                    alone.is_some_and(|alone| alone.low.is_some() && alone.high.is_some())
                };
                let all = has_interval(best) && others.iter().all(has_interval);
                let why = if all {
                    "their intervals overlap"
                } else {
                    "intervals overlap, or there are fewer than two trials"
                };
                format!("; not clearly cheaper than {} ({why})", others.join(", "))
            }
        };
        Some(format!("Cheapest for a million {}{within}: {best}{alike}.", self.work))
    }

    fn standing(&self) -> Table {
        let names = [
            ("configuration", Text),
            ("runs on", Text),
            ("per hour", Count),
            ("per month", Count),
            ("per year", Count),
        ];
        let mut table = Table::new(names);
        for configuration in &self.configurations {
            let on = &configuration.runs_on;
            let moneys = [configuration.per_hour, configuration.per_month, configuration.per_year];
            let machines = format!("{} × {}", human::count(on.nodes.into()), on.node);
            let row =
                |name: &str, on: &str, money: [String; 3]| [cut(name, NAME), cut(on, NAME)].into_iter().chain(money);
            table.row(row(&configuration.configuration, &machines, moneys.map(|m| money(m.without_clients))));
            if let Some(clients) = on.clients.filter(|clients| *clients > 0) {
                let node = on.client_node.as_deref().unwrap_or("(no price)");
                let clients = format!("+ {} × {node}", human::count(clients.into()));
                table.row(row("  with clients", &clients, moneys.map(|m| m.with_clients.map_or("n/a".into(), money))));
            }
        }
        table
    }

    fn by_rate(&self) -> Table {
        let per_s = if self.work == Work::Operations { "ops/s" } else { "docs/s" };
        let numbers = [per_s, "per million", "low", "high", "with clients"].map(|name| (name, Count));
        let mut table = Table::new([("configuration", Text), ("rate", Text)].into_iter().chain(numbers));
        for configuration in &self.configurations {
            for (name, at) in [
                ("measured", configuration.measured),
                ("within limit", configuration.within_limit),
                ("at your rate", configuration.at_your_rate),
            ] {
                let Some(at) = at else { continue };
                let alone = at.per_million.without_clients;
                let maybe = |value: Option<f64>| value.map_or("n/a".to_owned(), money);
                let end = |value| if is_useless(&alone) { "unknown".to_owned() } else { maybe(value) };
                table.row([
                    cut(&configuration.configuration, NAME),
                    name.to_owned(),
                    cut(&human::rate(at.rate_per_s.value), 10),
                    money(alone.value),
                    end(alone.low),
                    end(alone.high),
                    maybe(at.per_million.with_clients.map(|with| with.value)),
                ]);
            }
        }
        table
    }
}

impl fmt::Display for CostResult {
    /// Two tables and notes in at most 120 columns. Longer names are cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sheet = &self.sheet;
        let paragraph = |f: &mut fmt::Formatter<'_>, first: &str, text: &str| {
            for (n, line) in wrap(text, WIDTH - 2).iter().enumerate() {
                writeln!(f, "{}{}", if n == 0 { first } else { "  " }, cut(line, WIDTH - 2))?;
            }
            Ok(())
        };
        paragraph(f, "", &format!("Cost in {}; prices of {}: {}", sheet.currency, sheet.date, sheet.source))?;
        for (name, node) in &sheet.nodes {
            let used = |configuration: &ConfigurationCost| {
                configuration.runs_on.node == *name
                    || configuration.runs_on.client_node.as_ref().is_some_and(|n| n == name)
            };
            if (node.source.is_some() || node.date.is_some()) && self.configurations.iter().any(used) {
                let (date, source) = (node.date.unwrap_or(sheet.date), node.source.as_ref().unwrap_or(&sheet.source));
                paragraph(f, "  ", &format!("{name}: {date}, {source}"))?;
            }
        }
        if !self.configurations.is_empty() {
            write!(f, "\n{}", self.standing().print(2))?;
        }
        if self
            .configurations
            .iter()
            .any(|configuration| configuration.measured.is_some() || configuration.within_limit.is_some())
        {
            write!(f, "\n{}", self.by_rate().print(2))?;
        }
        writeln!(f)?;
        if let Some(conclusion) = self.conclusion() {
            paragraph(f, "", &conclusion)?;
        }
        for note in self.notes.iter().chain(&sheet.notes) {
            paragraph(f, "- ", note)?;
        }
        Ok(())
    }
}

/// Money: two decimals from 1 on, four digits below, no decimals from 1,000 on, an exponent for very large and small
/// values. At most 11 characters.
pub fn money(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        _ if !(1e-6..999_999_999.5).contains(&value) => format!("{value:.3e}"),
        _ if value >= 999.995 => human::count(value.round() as u64),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ => {
            // Four digits after the zeros.
            let decimals = 3 - value.log10().floor() as i32;
            format!("{value:.*}", usize::try_from(decimals).unwrap_or(4))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_has_few_signs() {
        assert_eq!(money(0.0), "0");
        assert_eq!(money(56.3), "56.30");
        assert_eq!(money(41_099.0), "41,099");
        assert_eq!(money(0.014_217_17), "0.01422");
        assert_eq!(money(0.532), "0.5320");
        assert_eq!(money(1e-9), "1.000e-9");
        for value in [999_999_999.4, 1e300, 1e-300, 0.999_999, 1.234e-6, 999.99] {
            assert!(money(value).chars().count() <= 11, "{}", money(value));
        }
    }
}
