//! What configurations cost: money for an hour, a month, a year and a million operations.
//!
//! Prices come from a dated [sheet](PriceSheet) that the user writes; nothing here looks prices up. The result keeps
//! the whole sheet, so that a cost can be checked against its prices. `docs/cost.md` lists what is priced and what is
//! not.

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
pub(crate) use of_run::priced_phase;
pub(crate) use of_run::{cost_figure, cost_of_run};
pub use result::{CostResult, Work, money};
pub use sheet::{DiskPrice, EgressPrice, IoPrice, NodePrice, PriceDate, PriceSheet, RunsOn};
