//! The costs of a run, as JSON and as text.

use super::super::{ConfigurationCostInput, CostResult, RateBasis, Work};
use super::{SHEET, between, exactly, input, plain, sheet};
use crate::stats::Estimate;

fn with_limit(store: &str, rate: Estimate, within: Option<Estimate>) -> ConfigurationCostInput {
    ConfigurationCostInput {
        within_limit_per_s: within,
        disk_bytes: Some(5 << 30),
        read_bytes_per_op: Some(2_048.0),
        written_bytes_per_op: Some(0.0),
        ..input(store, store, rate)
    }
}

fn whole() -> CostResult {
    let rate = between(12_000.0, 11_500.0, 12_400.0);
    let configurations = [
        with_limit("cluster", between(50_000.0, 48_000.0, 52_000.0), Some(between(40_000.0, 39_000.0, 41_000.0))),
        with_limit("other", rate, Some(between(11_000.0, 10_500.0, 11_400.0))),
        with_limit("beside", rate, None),
    ];
    CostResult::of(sheet(SHEET), &configurations, Some("mixed.response.p99 of 200 ms".into()), Work::Operations)
}

#[test]
fn json_gives_the_result_back() {
    let before = whole();
    let json = serde_json::to_string(&before).unwrap();
    assert_eq!(serde_json::from_str::<CostResult>(&json).unwrap(), before);
    assert!(json.contains(r#""compared_at":"within-limit""#), "{json}");
}

#[cfg(feature = "schema")]
#[test]
fn the_result_fits_its_schema() {
    let before = whole();
    let schema = schemars::schema_for!(CostResult).to_value();
    assert_eq!(storebench_schema::faults(&schema, &serde_json::to_value(&before).unwrap()), Vec::<String>::new());
}

#[test]
fn the_text_says_what_was_found() {
    insta::assert_snapshot!(whole().to_string());
}

#[test]
fn no_line_is_wider_than_120_columns() {
    let name = "a-very-long-name-of-a-store-that-nobody-would-write-".repeat(4);
    let mut sheet = plain(&format!(
        "nodes.{name} = {{ per_hour = 1e12, source = '{name}' }}\n\
         stores.default = {{ node = '{name}', nodes = 4_000_000_000, clients = 4_000_000_000, client_node = '{name}' }}"
    ));
    sheet.source = name.clone();
    sheet.notes = vec![name.clone(), "several words ".repeat(40)];
    let mut configurations = vec![with_limit(&name, between(1e-9, 1e-10, 1e-8), Some(between(1e15, 1e14, 1e16)))];
    configurations.push(with_limit(&format!("{name}2"), exactly(1e200), None));
    let text = CostResult::of(sheet, &configurations, Some(name), Work::Operations).to_string();
    for line in text.lines() {
        assert!(line.chars().count() <= 120, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn configurations_without_a_price_are_named() {
    let sheet = plain("nodes.a.per_hour = 3.6\nstores.a.node = 'a'");
    let configurations = [input("a", "a", exactly(1_000.0)), input("b", "b", exactly(1_000.0))];
    let result = CostResult::of(sheet, &configurations, None, Work::Operations);
    assert_eq!((result.configurations.len(), result.compared_at), (1, RateBasis::Measured));
    assert_eq!(result.cheapest.as_deref(), Some("a"));
    assert!(result.notes[0].starts_with("no price for b: add [stores.NAME]"), "{:?}", result.notes);
}

#[test]
fn single_trials_are_not_told_apart() {
    let sheet = plain("nodes.a.per_hour = 3.6\nstores.default.node = 'a'");
    let configurations = [input("a", "a", exactly(1_000.0)), input("b", "b", exactly(10.0))];
    let result = CostResult::of(sheet, &configurations, None, Work::Operations);
    assert_eq!(result.not_told_apart, ["b"]);
    let text = result.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("; not clearly cheaper than b (intervals overlap, or there are fewer than two trials)."),
        "{result}"
    );
}

/// `0.000004342 – 158.04` was shown as an interval.
#[test]
fn an_interval_that_says_nothing_is_unknown() {
    let sheet = plain("nodes.a.per_hour = 3.6\nstores.default.node = 'a'");
    let rate = Estimate { trials: 2, ..between(1_000.0, 6.3, 230_000_000.0) };
    let result = CostResult::of(sheet, &[input("a", "a", rate)], None, Work::Operations);
    let text = result.to_string();
    assert!(text.contains("  unknown  unknown  ") && !text.contains("158.7"), "{text}");
    let told = "unknown: the ends of the interval are more than tenfold apart; run more rounds or longer phases: a";
    assert!(result.notes.iter().any(|note| note == told), "{:?}", result.notes);
    // The result keeps them.
    assert!(result.configurations[0].measured.unwrap().per_million.without_clients.high.unwrap() > 158.0);
}

#[test]
fn at_your_rate_the_same_machines_do_less() {
    let sheet = |rate: &str| plain(&format!("rate = {rate}\nnodes.a.per_hour = 3.6\nstores.default.node = 'a'"));
    let of = |rate: &str, within: Option<f64>| {
        let configuration = with_limit("a", exactly(1_000.0), within.map(exactly));
        let limit = within.map(|_| "the limit".to_owned());
        CostResult::of(sheet(rate), &[configuration], limit, Work::Operations)
    };
    let yours = |result: &CostResult| Some(result.configurations[0].at_your_rate?.per_million.without_clients.value);
    // 3.60 an hour for 250/s: a million takes 4,000 s.
    assert!((yours(&of("250", None)).unwrap() - 4.0).abs() < 1e-9);
    // A given rate is never quite reached.
    assert!((yours(&of("'1.01k'", None)).unwrap() - 0.990_099).abs() < 1e-6);
    for (rate, within) in [("1100", None), ("800", Some(500.0))] {
        let result = of(rate, within);
        assert_eq!(yours(&result), None);
        let told = format!("did not reach your rate of {}/s: a", crate::human::count(rate.parse().unwrap()));
        assert!(result.notes.contains(&told), "{:?}", result.notes);
    }
}

#[test]
fn nothing_is_cheapest_where_nothing_holds_the_limit() {
    let sheet = plain("nodes.a.per_hour = 3.6\nstores.default.node = 'a'");
    let result =
        CostResult::of(sheet.clone(), &[input("a", "a", exactly(1_000.0))], Some("the limit".into()), Work::Operations);
    assert_eq!((result.cheapest.as_deref(), result.not_told_apart.len()), (None, 0));
    assert!(result.notes.contains(&"no rate within the limit: a".to_owned()), "{:?}", result.notes);
    // No operations: reported, without a division by 0.
    let result = CostResult::of(sheet, &[input("a", "a", exactly(0.0))], None, Work::Operations);
    assert_eq!(result.cheapest, None);
    assert!(result.notes.iter().any(|note| note.starts_with("no operations were measured")), "{:?}", result.notes);
    assert!(serde_json::to_string(&result).unwrap().contains(r#""measured":null"#));
}

#[test]
fn the_page_about_cost_shows_what_is_printed() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cost.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, toml) = page.split_once("```toml\n").unwrap();
    let (toml, _) = toml.split_once("```").unwrap();
    assert_eq!(sheet(toml), sheet(SHEET));
    assert!(page.contains(&format!("```\n{}```", whole())), "docs/cost.md should show:\n{}", whole());
}
