//! What the work costs, if the run has prices.

use indexmap::IndexMap;

use super::words::{capital, interval};
use crate::RunResult;
use crate::cost::{ConfigurationCost, RateBasis, money, priced_phase};
use crate::human::{count, is_useless, listed};
use crate::stats::Estimate;
use storebench_study::op_kind::OpKind;

/// The most configurations whose cost is told at the rate of the price sheet.
const MOST_AT_YOUR_RATE: usize = 4;
/// Seconds in an hour: a million operations in each of them.
const SECONDS: f64 = 3_600.0;

/// Money in the sheet's currency, with its interval.
fn shown(result: &RunResult, of: &Estimate) -> Option<String> {
    let currency = &result.cost.as_ref()?.sheet.currency;
    let ends = match is_useless(of) {
        true => " (how certain is unknown: the ends of its interval are more than tenfold apart; run more rounds)"
            .to_owned(),
        false => interval(of, money),
    };
    Some(format!("{currency} {}{ends}", money(of.value)))
}

/// `a million writes`, `a million documents`.
fn a_million(result: &RunResult) -> Option<String> {
    let cost = result.cost.as_ref()?;
    let phase = priced_phase(result)?;
    let mut ops = result.phases().filter(|of| of.name == phase).flat_map(|of| of.ops.values()).peekable();
    let writes = ops.peek().is_some() && ops.all(|op| op.op_kind().is_some_and(OpKind::writes));
    let operations = cost.work.to_string() == "operations";
    Some(format!("a million {}", if writes && operations { "writes".to_owned() } else { cost.work.to_string() }))
}

/// What a configuration costs within the limits, as a clause: `at USD 0.0123 (…) for a million writes, or USD 44.30 an hour
/// for a million a second`. Only the first of several says what for. `None` without a price.
pub(super) fn within_limits(result: &RunResult, configuration: &str, first: bool) -> Option<String> {
    let cost = result.cost.as_ref()?;
    let price = cost.at(configuration, RateBasis::WithinLimit)?.per_million.without_clients;
    let currency = &cost.sheet.currency;
    let (each, hourly) = (shown(result, &price)?, money(price.value * SECONDS));
    Some(match first {
        true => format!("at {each} for {}, or {currency} {hourly} an hour for a million a second", a_million(result)?),
        false => format!("at {each}, or {currency} {hourly} an hour"),
    })
}

/// What a million operations cost, or why that is unknown. Empty without prices. `searched`: costs within the limits are
/// told beside the rates.
pub(super) fn told(result: &RunResult, searched: bool) -> Vec<String> {
    let Some(cost) = &result.cost else { return Vec::new() };
    let any = |basis| cost.configurations.iter().any(|of| of.at(basis).is_some());
    let mut told = Vec::new();
    if !any(cost.compared_at) && !any(RateBasis::Measured) {
        told.extend(cost.notes.first().map(|why| format!("What it costs is unknown: {why}.")));
    } else if !any(cost.compared_at) {
        let missed = "No rate met the limits; at the measured rates they missed, ";
        told.extend(of_stores(result, RateBasis::Measured).map(|cost| format!("{missed}{cost}.")));
    } else if !searched {
        told.extend(of_stores(result, cost.compared_at).map(|cost| format!("{}.", capital(&cost))));
    }
    let yours = |of: &ConfigurationCost| {
        let price = of.at_your_rate.as_ref()?.per_million.without_clients;
        Some(format!("{} on {}", shown(result, &price)?, of.configuration))
    };
    let yours: Vec<String> = cost.configurations.iter().filter_map(yours).take(MOST_AT_YOUR_RATE).collect();
    if let (Some(rate), false, Some(what)) = (cost.sheet.rate, yours.is_empty(), a_million(result)) {
        told.push(format!("At your rate of {}/s, {what} cost {}.", count(rate.0), listed(yours)));
    }
    told
}

/// What a million operations cost, for each store at its cheapest.
fn of_stores(result: &RunResult, basis: RateBasis) -> Option<String> {
    let cost = result.cost.as_ref()?;
    let mut stores: IndexMap<&str, (&str, Estimate)> = IndexMap::new();
    let mut several = false;
    for of in &cost.configurations {
        let Some(at) = of.at(basis) else { continue };
        let price = at.per_million.without_clients;
        several |= stores.contains_key(of.store.as_str());
        let known = stores.entry(&of.store).or_insert((&of.configuration, price));
        if price.value < known.1.value {
            *known = (&of.configuration, price);
        }
    }
    let of = |(configuration, price): &(&str, Estimate)| Some(format!("{} on {configuration}", shown(result, price)?));
    let told: Vec<String> = stores.values().filter_map(of).collect();
    let at_best = if several { ", at the cheapest values of each store" } else { "" };
    let a_million = a_million(result)?;
    let phase = priced_phase(result)?;
    (!told.is_empty()).then(|| format!("in {phase}, {a_million} cost {}{at_best}", listed(told)))
}
