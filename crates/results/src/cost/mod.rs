//! What configurations cost: money for an hour, a month, a year and a million operations.
//!
//! Prices come from a [sheet](PriceSheet) that somebody wrote and dated; nothing here looks one up. The whole
//! sheet is kept in the result, so that a cost can be checked against the prices it was made of.
//! What is priced and what is not stands in `docs/cost.md`.

mod configurations;
mod of_run;
mod result;
mod sheet;
#[cfg(test)]
mod tests;

pub(crate) use configurations::ConfigurationCostInput;
pub use configurations::{
    AtRate, ConfigurationCost, DiskCost, Money, PerMillion, PlanCost, RateBasis, UsageCost, plan_cost,
};
pub(crate) use of_run::{cost_figure, cost_of_run};
pub use result::{CostResult, Work};
pub use sheet::{DiskPrice, EgressPrice, IoPrice, NodePrice, PriceDate, PriceSheet, RunsOn};
