//! Checks every formula against figures computed by hand.

use std::path::Path;

use super::super::configurations::{cheapest, not_told_apart};
use super::super::{ConfigurationCost, ConfigurationCostInput, Money, PriceSheet, RateBasis, plan_cost};
use super::{SHEET, between, exactly, input, near, plain, sheet};
use crate::stats::Estimate;

const GIB: u64 = 1 << 30;

#[track_caller]
fn money(found: Money, without: f64, with: Option<f64>) {
    near(found.without_clients, without);
    assert_eq!(found.with_clients.is_some(), with.is_some());
    near(found.with_clients.unwrap_or(0.0), with.unwrap_or(0.0));
}

#[track_caller]
fn estimate(found: Estimate, value: f64, low: f64, high: f64) {
    near(found.value, value);
    near(found.low.unwrap(), low);
    near(found.high.unwrap(), high);
}

fn cost(sheet: &PriceSheet, input: &ConfigurationCostInput) -> ConfigurationCost {
    ConfigurationCost::of(sheet, input).unwrap()
}

#[test]
fn machines_and_disk_cost_by_the_hour_month_and_year() {
    // 3 × 2.0 = 6/h; disk 3 × 100 GiB × 0.1 = 30 a month; clients 2 × 0.25 = 0.5/h.
    let cluster = cost(&sheet(SHEET), &input("cluster", "cluster", exactly(1_000.0)));
    let disk = cluster.disk.unwrap();
    assert_eq!((disk.gib, disk.measured), (300.0, false));
    near(disk.per_month, 30.0);
    money(cluster.per_hour, 6.0 + 30.0 / 730.0, Some(6.5 + 30.0 / 730.0));
    money(cluster.per_month, 4_410.0, Some(4_775.0));
    money(cluster.per_year, 52_920.0, Some(57_300.0));
}

#[test]
fn clients_of_which_nothing_is_said_are_not_nothing() {
    let sheet = sheet(SHEET);
    money(cost(&sheet, &input("other", "other", exactly(1.0))).per_hour, 2.0, None);
    // `clients = 0` says that there are none.
    money(cost(&sheet, &input("x", "cached rate=1", exactly(1.0))).per_hour, 0.25, Some(0.25));
    // The number is given, but not the price.
    let sheet = plain("nodes.a.per_hour = 1.0\nstores.a = { node = 'a', clients = 4 }");
    let unpriced = cost(&sheet, &input("a", "a", exactly(1.0)));
    money(unpriced.per_hour, 1.0, None);
    assert_eq!(unpriced.measured.unwrap().per_million.with_clients, None);
}

#[test]
fn disk_costs_by_the_bytes_that_were_measured() {
    // 7.3 GiB × 0.1 = 0.73 a month, 0.001 an hour.
    let sheet = sheet(SHEET);
    let bytes = (7.3 * GIB as f64) as u64;
    let other =
        cost(&sheet, &ConfigurationCostInput { disk_bytes: Some(10 * GIB), ..input("other", "other", exactly(1.0)) });
    assert!(other.disk.unwrap().measured);
    near(other.disk.unwrap().gib, 10.0);
    near(other.disk.unwrap().per_month, 1.0);
    money(other.per_month, 1_461.0, None);
    // The sheet's size takes precedence.
    let cluster =
        cost(&sheet, &ConfigurationCostInput { disk_bytes: Some(bytes), ..input("cluster", "c", exactly(1.0)) });
    near(cluster.disk.unwrap().per_month, 30.0);
    // A machine's own disk is in its price.
    let beside =
        cost(&sheet, &ConfigurationCostInput { disk_bytes: Some(bytes), ..input("beside", "b", exactly(1.0)) });
    assert_eq!(beside.disk, None);
    money(beside.per_hour, 6.0, None);
    // An unknown size is reported.
    let unknown = cost(&sheet, &input("other", "other", exactly(1.0)));
    assert_eq!(unknown.disk, None);
    assert!(unknown.notes[0].starts_with("the cost excludes the disk"), "{:?}", unknown.notes);
}

#[test]
fn a_million_operations_cost_the_time_they_take() {
    // 7.2/h at 1,000/s: 1,000 s = 7.2 / 3.6 = 2.0; with clients 10.8/h: 3.0.
    let sheet = plain(
        "nodes.a.per_hour = 3.6\nnodes.c.per_hour = 1.8\n\
         stores.a = { node = 'a', nodes = 2, clients = 2, client_node = 'c' }",
    );
    let mut of = input("a", "a", between(1_000.0, 800.0, 1_250.0));
    of.within_limit_per_s = Some(between(500.0, 400.0, 625.0));
    let a = cost(&sheet, &of);
    let measured = a.measured.unwrap();
    assert_eq!((measured.rate_per_s, measured.usage_per_hour), (of.throughput_per_s, 0.0));
    estimate(measured.per_million.without_clients, 2.0, 1.6, 2.5);
    estimate(measured.per_million.with_clients.unwrap(), 3.0, 2.4, 3.75);
    assert_eq!(measured.per_million.without_clients.trials, 5);
    let within = a.within_limit.unwrap();
    estimate(within.per_million.without_clients, 4.0, 3.2, 5.0);
    estimate(within.per_million.with_clients.unwrap(), 6.0, 4.8, 7.5);
    assert_eq!((a.usage, a.notes.len()), (None, 0));
}

#[test]
fn without_an_interval_of_the_rate_there_is_none_of_the_cost() {
    let sheet = plain("nodes.a.per_hour = 3.6\nstores.a.node = 'a'");
    let a = cost(&sheet, &input("a", "a", exactly(1_000.0)));
    let alone = a.measured.unwrap().per_million.without_clients;
    near(alone.value, 1.0);
    assert_eq!((alone.low, alone.high, alone.trials, a.within_limit), (None, None, 1, None));
}

#[test]
fn io_and_egress_cost_by_bytes() {
    // 3 KiB read and 1 KiB written make one request of 4 KiB per operation: 0.2 for a million. Egress of 3 × 2^10 ×
    // 10^6 bytes at 0.09/GiB: 3e6 / 2^20 × 0.09.
    let sheet = sheet(SHEET);
    let mut of = input("x", "cached rate=1", between(1_000.0, 800.0, 1_250.0));
    of.read_bytes_per_op = Some(3_072.0);
    of.written_bytes_per_op = Some(1_024.0);
    of.disk_bytes = Some(0);
    let cached = cost(&sheet, &of);
    let usage = cached.usage.unwrap();
    let egress = 3e6 / 1_048_576.0 * 0.09;
    near(usage.io_per_million.unwrap(), 0.2);
    near(usage.egress_per_million.unwrap(), egress);
    near(usage.per_million(), 0.2 + egress);
    // 0.25/h over 3.6 million operations an hour, and the usage; 3.6 times the usage an hour.
    let measured = cached.measured.unwrap();
    let all = 0.2 + egress;
    estimate(measured.per_million.without_clients, 0.25 / 3.6 + all, 0.25 / 4.5 + all, 0.25 / 2.88 + all);
    near(measured.usage_per_hour, 3.6 * all);
    near(cached.per_hour.without_clients, 0.25);
}

#[test]
fn bytes_that_nobody_knows_are_said() {
    let sheet = sheet(SHEET);
    let mut of = input("beside", "b", exactly(1.0));
    of.read_bytes_per_op = Some(1_024.0);
    let half = cost(&sheet, &of);
    assert_eq!(half.usage.unwrap().io_per_million, None);
    assert!(half.usage.unwrap().egress_per_million.is_some());
    assert_eq!(half.notes, ["the cost excludes I/O, because the bytes per operation are unknown"]);
    let none = cost(&sheet, &input("beside", "b", exactly(1.0)));
    assert_eq!((none.usage, none.notes.len()), (None, 2));
}

#[test]
fn no_operations_have_no_price() {
    let sheet = plain("nodes.a.per_hour = 3.6\nstores.a.node = 'a'");
    for nothing in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-320] {
        let mut of = input("a", "a", exactly(nothing));
        of.within_limit_per_s = Some(exactly(nothing));
        let a = cost(&sheet, &of);
        assert_eq!((a.measured, a.within_limit), (None, None), "{nothing}");
        money(a.per_hour, 3.6, None);
    }
    // An interval that reaches 0 has no expensive end.
    let a = cost(&sheet, &input("a", "a", between(1_000.0, 0.0, 2_000.0)));
    let alone = a.measured.unwrap().per_million.without_clients;
    near(alone.low.unwrap(), 0.5);
    assert_eq!(alone.high, None);
}

#[test]
fn a_configuration_that_the_sheet_does_not_know_has_no_cost() {
    let sheet = plain("nodes.a.per_hour = 3.6\nstores.a.node = 'a'");
    assert_eq!(ConfigurationCost::of(&sheet, &input("b", "b", exactly(1.0))), None);
    // Neither has one whose machine is missing from an unchecked sheet, or whose cost overflows.
    let mut wrong = sheet.clone();
    wrong.stores["a"].node = "gone".into();
    assert_eq!(ConfigurationCost::of(&wrong, &input("a", "a", exactly(1.0))), None);
    let mut wrong = sheet;
    wrong.nodes["a"].per_hour = f64::MAX;
    assert_eq!(ConfigurationCost::of(&wrong, &input("a", "a", exactly(1.0))), None);
}

#[test]
fn the_published_studies_cost_what_they_cost() {
    // 56.30/h at 1.1 M/s: 56.30 / 3,960 a million. 21.28/h at 1 M/s: 21.28 / 3,600.
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../prices/published.toml");
    let sheet = PriceSheet::read(Path::new(file)).unwrap();
    let first = cost(&sheet, &input("", "published-50-nodes", exactly(1.1e6)));
    money(first.per_hour, 56.30, None);
    money(first.per_year, 493_188.0, None);
    near(first.measured.unwrap().per_million.without_clients.value, 56.30 / 3_960.0);
    let second = cost(&sheet, &input("", "published-40-nodes", exactly(1e6)));
    money(second.per_hour, 21.28, None);
    money(second.per_month, 15_534.4, None);
    near(second.measured.unwrap().per_million.without_clients.value, 21.28 / 3_600.0);
    assert_eq!(cheapest(&[first, second], RateBasis::Measured), Some(1));
}

/// Configurations at 3.6/h each, by their rate and the rate that meets the limit.
fn configurations(rates: &[(Estimate, Option<Estimate>)]) -> Vec<ConfigurationCost> {
    let sheet = plain("nodes.a.per_hour = 3.6\nstores.default.node = 'a'");
    let configuration = |(n, (rate, within)): (usize, &(Estimate, Option<Estimate>))| {
        cost(&sheet, &ConfigurationCostInput { within_limit_per_s: *within, ..input("a", &n.to_string(), *rate) })
    };
    rates.iter().enumerate().map(configuration).collect()
}

#[test]
fn the_cheapest_holds_the_limit() {
    let slow = between(1_000.0, 990.0, 1_010.0);
    let fast = between(2_000.0, 1_990.0, 2_010.0);
    // The fastest one does not meet the limit.
    let configurations = configurations(&[(slow, Some(slow)), (fast, None), (slow, Some(fast)), (exactly(0.0), None)]);
    assert_eq!(cheapest(&configurations, RateBasis::WithinLimit), Some(2));
    assert_eq!(cheapest(&configurations, RateBasis::Measured), Some(1));
    assert_eq!(cheapest(&configurations[1..2], RateBasis::WithinLimit), None);
    assert_eq!(cheapest(&configurations[3..], RateBasis::Measured), None);
    assert_eq!(cheapest(&[], RateBasis::Measured), None);
    // On a tie, the first one.
    assert_eq!(cheapest(&[configurations[2].clone(), configurations[2].clone()], RateBasis::WithinLimit), Some(0));
}

#[test]
fn overlapping_intervals_are_not_told_apart() {
    let configurations = configurations(&[
        (between(1_000.0, 900.0, 1_100.0), None),
        (between(980.0, 950.0, 1_010.0), None),
        (between(800.0, 700.0, 899.0), None),
        (exactly(500.0), None),
        (exactly(0.0), None),
    ]);
    assert_eq!(cheapest(&configurations, RateBasis::Measured), Some(0));
    // The third's interval lies beyond the first's; the fourth has none; the fifth has no price.
    assert_eq!(not_told_apart(&configurations, 0, RateBasis::Measured), [1, 3]);
    assert_eq!(not_told_apart(&configurations, 4, RateBasis::Measured), [0usize; 0]);
    assert_eq!(not_told_apart(&configurations, 9, RateBasis::Measured), [0usize; 0]);
}

#[test]
fn a_plan_costs_the_time_of_all_its_machines() {
    let sheet = sheet(SHEET);
    // cluster 6 + 30/730 and beside 6 are paid for together; the clients only once: 0.5.
    let hourly = 12.5 + 30.0 / 730.0;
    let cost = plan_cost(&sheet, [("cluster", "cluster"), ("beside", "b 1"), ("beside", "b 2")], 1_800.0, 7_200.0);
    near(cost.least, hourly / 2.0);
    near(cost.most, hourly * 2.0);
    assert!(cost.unpriced.is_empty());
    assert!(!cost.with_clients, "the clients of `beside` have no price");
    // Two configurations of a store share the more expensive machines: 2.0 rather than 0.25.
    let cost = plan_cost(&sheet, [("x", "cached rate=1"), ("x", "x")], 3_600.0, 3_600.0);
    near(cost.least, 2.0);
    let cost = plan_cost(&sheet, [("x", "cached rate=1"), ("cluster", "cluster")], 3_600.0, -1.0);
    assert!(cost.with_clients);
    assert_eq!(cost.most, 0.0);
    let mut bare = sheet;
    bare.stores.shift_remove("default");
    let cost = plan_cost(&bare, [("x", "x"), ("beside", "b")], 3_600.0, 3_600.0);
    assert_eq!(cost.unpriced, ["x"]);
    near(cost.most, 6.0);
}
