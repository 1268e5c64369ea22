//! What the work costs, if the run has prices.

use indexmap::IndexMap;

use super::words::{interval, listed};
use crate::RunResult;
use crate::cost::{AtRate, RateBasis, money, priced_phase};
use crate::stats::Estimate;
use storebench_study::op_kind::OpKind;

/// Seconds in an hour: a million operations in each of them.
const SECONDS: f64 = 3_600.0;

/// Money in the sheet's currency, with its interval.
fn shown(result: &RunResult, of: &Estimate) -> Option<String> {
    let currency = &result.cost.as_ref()?.sheet.currency;
    Some(format!("{currency} {}{}", money(of.value), interval(of, money)))
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

fn at(result: &RunResult, configuration: &str, basis: RateBasis) -> Option<AtRate> {
    let all = &result.cost.as_ref()?.configurations;
    all.iter().find(|of| of.configuration == configuration)?.at(basis).copied()
}

/// What a configuration costs within the limits, as a clause: `at USD 0.0123 (…) for a million writes, or USD 44.30 an hour
/// for a million a second`. Only the first of several says what for. `None` without a price.
pub(super) fn within_limits(result: &RunResult, configuration: &str, first: bool) -> Option<String> {
    let price = at(result, configuration, RateBasis::WithinLimit)?.per_million.without_clients;
    let currency = &result.cost.as_ref()?.sheet.currency;
    let (each, hourly) = (shown(result, &price)?, money(price.value * SECONDS));
    Some(match first {
        true => format!("at {each} for {}, or {currency} {hourly} an hour for a million a second", a_million(result)?),
        false => format!("at {each}, or {currency} {hourly} an hour"),
    })
}

/// What a million operations cost, a clause for each store at its cheapest. `None` without prices.
pub(super) fn of_stores(result: &RunResult) -> Option<String> {
    let cost = result.cost.as_ref()?;
    let mut stores: IndexMap<&str, (&str, Estimate)> = IndexMap::new();
    let mut several = false;
    for of in &cost.configurations {
        let Some(at) = of.at(cost.compared_at) else { continue };
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
    (!told.is_empty()).then(|| format!("In {phase}, {a_million} cost {}{at_best}.", listed(told)))
}
