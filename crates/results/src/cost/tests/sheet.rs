//! What a price sheet may contain, and how errors are reported.

use std::path::Path;

use jiff::civil::date;

use super::super::{PriceDate, PriceSheet};
use super::{SHEET, sheet};

/// The error for a text, as of 31 January 2026.
fn refusal(text: &str) -> String {
    PriceSheet::parse_on(text, Path::new("prices.toml"), date(2026, 1, 31)).unwrap_err().to_string()
}

/// The error after one change to the complete sheet.
#[track_caller]
fn after(from: &str, to: &str) -> String {
    assert!(SHEET.contains(from), "{from}");
    refusal(&SHEET.replacen(from, to, 1))
}

#[test]
fn a_whole_sheet_is_read() {
    let sheet = sheet(SHEET);
    assert_eq!(sheet.currency, "USD");
    assert_eq!(sheet.date, PriceDate(date(2026, 1, 31)));
    assert_eq!(sheet.nodes["large"].cpus, Some(16));
    assert_eq!(sheet.nodes["large"].memory.unwrap().bytes(), 64 << 30);
    assert_eq!(sheet.nodes["local"].per_hour, 3.0);
    assert_eq!(sheet.io.unwrap().bytes.bytes(), 4_096);
    assert_eq!((sheet.stores["beside"].nodes, sheet.stores["default"].nodes), (2, 1));
}

#[test]
fn a_date_may_stand_without_quotes() {
    let bare = sheet(&SHEET.replace("\"2026-01-31\"", "2026-01-31"));
    assert_eq!(bare, sheet(SHEET));
}

#[test]
fn json_gives_the_sheet_back() {
    let before = sheet(SHEET);
    let json = serde_json::to_string(&before).unwrap();
    assert!(json.contains(r#""date":"2026-01-31""#), "{json}");
    assert_eq!(serde_json::from_str::<PriceSheet>(&json).unwrap(), before);
}

#[test]
fn what_is_missing_is_named_with_a_remedy() {
    assert_eq!(
        after("date = \"2026-01-31\"\n", ""),
        "prices.toml: `date` is missing; write the day on which these prices were valid, like date = \"2026-11-22\""
    );
    let source = after("source = \"a made-up price list\"\n", "");
    assert!(source.starts_with("prices.toml: `source` is missing; say where the prices are from"), "{source}");
    let price = after("per_hour = 0.25\n", "");
    assert!(
        price.starts_with("prices.toml:11:1: nodes.small: `per_hour` is missing; write what one machine"),
        "{price}"
    );
}

#[test]
fn an_empty_source_or_date_is_refused() {
    let source = after("a made-up price list", " ");
    assert!(source.starts_with("prices.toml:3:1: source: it is empty; say where the prices are from"), "{source}");
    let empty = after("date = \"2026-01-31\"", "date = \"\"");
    assert!(empty.starts_with("prices.toml:4:8: date: invalid date ``; write year, month and day like"), "{empty}");
    let of_node = after("per_hour = 0.25", "per_hour = 0.25\nsource = ''");
    assert!(of_node.starts_with("prices.toml:13:1: nodes.small.source: it is empty"), "{of_node}");
}

#[test]
fn dates_that_are_none_are_refused() {
    for wrong in ["2026-02-30", "31.1.2026", "2026-1-31", "20260131", "2026-W05-6", "2026-01-31T00:00:00Z"] {
        let message = after("2026-01-31", wrong);
        assert!(message.starts_with(&format!("prices.toml:4:8: date: invalid date `{wrong}`")), "{message}");
    }
    assert!(after("\"2026-01-31\"", "2026").starts_with("prices.toml:4:8: date: "));
}

#[test]
fn a_date_to_come_is_refused() {
    let message = after("2026-01-31", "2026-02-01");
    assert!(message.starts_with("prices.toml:4:1: date: 2026-02-01 is in the future; write the day"), "{message}");
    let of_node = after("per_hour = 0.25", "per_hour = 0.25\ndate = \"2027-01-01\"");
    assert!(of_node.starts_with("prices.toml:13:1: nodes.small.date: 2027-01-01 is in the future"), "{of_node}");
    // Today is never in the future, whatever the reader's time zone.
    let today = jiff::Zoned::now().date();
    PriceSheet::parse(&SHEET.replace("2026-01-31", &today.to_string()), Path::new("prices.toml")).unwrap();
}

#[test]
fn unknown_keys_are_refused_with_what_was_meant() {
    let message = after("per_hour = 0.25", "per_huor = 0.25");
    assert!(
        message.starts_with(
            "prices.toml:12:1: nodes.small.per_huor: `per_huor` is not known here; did you mean `per_hour`?"
        ),
        "{message}"
    );
    let root = after("[egress]", "[egres]");
    assert!(root.contains(": egres: `egres` is not known here; did you mean `egress`?"), "{root}");
    let inline = after("clients = 2", "client = 2");
    assert!(inline.starts_with("prices.toml:32:40: stores.cluster.client: "), "{inline}");
    assert!(inline.contains("did you mean `clients`?"), "{inline}");
}

#[test]
fn machines_that_are_not_there_are_refused() {
    let message = after("default = { node = \"large\" }", "default = { node = \"lagre\" }");
    assert_eq!(
        message,
        "prices.toml:34:13: stores.default.node: unknown machine `lagre`; did you mean `large`?\n    \
         34 | default = { node = \"lagre\" }"
    );
    let client = after("client_node = \"small\"", "client_node = \"elsewhere\"");
    assert!(client.contains("expected one of: `large`, `small`, `local`"), "{client}");
}

#[test]
fn prices_are_finite_and_not_negative() {
    for wrong in ["-0.25", "inf", "-inf", "nan"] {
        let message = after("per_hour = 0.25", &format!("per_hour = {wrong}"));
        assert!(message.starts_with("prices.toml:12:1: nodes.small.per_hour: "), "{message}");
        assert!(message.contains("invalid price"), "{message}");
    }
    assert!(after("per_gib_month = 0.1", "per_gib_month = -1").contains(": disk.per_gib_month: invalid price -1"));
    assert!(after("per_million = 0.2", "per_million = -1").contains(": io.per_million: invalid price -1"));
    assert!(after("per_gib = 0.09", "per_gib = nan").contains(": egress.per_gib: invalid price NaN"));
    let text = after("per_hour = 0.25", "per_hour = \"cheap\"");
    assert!(text.starts_with("prices.toml:12:12: nodes.small.per_hour: invalid type"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert!(after("nodes = 3", "nodes = 0").contains(": stores.cluster.nodes: a store runs on at least 1 machine"));
    assert!(after("disk_gib = 100", "disk_gib = -1").contains(": stores.cluster.disk_gib: invalid size -1"));
    assert!(
        after("[disk]\nper_gib_month = 0.1", "").contains(": stores.cluster.disk_gib: disk has no price in this sheet")
    );
    assert!(
        after("clients = 2, ", "").contains(": stores.cluster.client_node: the number of client machines is missing")
    );
    assert!(after("per_million = 0.2", "per_million = 0.2\nbytes = 0").contains(": io.bytes: a request of 0 bytes"));
    for wrong in ["usd", "US$", "", "EURO"] {
        assert!(after("\"USD\"", &format!("\"{wrong}\"")).contains(&format!(": currency: invalid currency `{wrong}`")));
    }
}

#[test]
fn every_fault_is_told() {
    let message = refusal(&SHEET.replace("per_hour = 0.25", "per_hour = -1").replace("nodes = 3", "nodes = 0"));
    assert!(message.contains("nodes.small.per_hour") && message.contains("stores.cluster.nodes"), "{message}");
}

#[test]
fn keys_with_dots_have_their_place() {
    let message = after("cached rate=*\"]\nnode = \"small\"", "phases.load.rate=*\"]\nnode = \"none\"");
    assert!(
        message.starts_with("prices.toml:28:1: configurations.phases.load.rate=*.node: unknown machine `none`"),
        "{message}"
    );
}

#[test]
fn what_is_no_toml_is_refused_at_its_place() {
    let message = refusal("currency = \"USD\"\nsource = = 1\n");
    assert!(message.starts_with("prices.toml:2:"), "{message}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let message = PriceSheet::read(Path::new("no/such.toml")).unwrap_err().to_string();
    assert!(message.starts_with("no/such.toml: cannot be read: "), "{message}");
    assert!(message.ends_with("; give the path of a price sheet (TOML)"), "{message}");
}

#[test]
fn a_configuration_runs_on_what_fits_it_best() {
    let mut sheet = sheet(SHEET);
    let on = |sheet: &PriceSheet, store: &str, configuration: &str| {
        sheet.runs_on(store, configuration).map(|on| on.node.clone())
    };
    assert_eq!(on(&sheet, "cluster", "cluster").as_deref(), Some("large"));
    assert_eq!(on(&sheet, "beside", "beside rate=10").as_deref(), Some("local"));
    assert_eq!(on(&sheet, "beside", "cached rate=10").as_deref(), Some("small"));
    assert_eq!(on(&sheet, "other", "other").as_deref(), Some("large"));
    // The exact name takes precedence over earlier patterns.
    let exact = sheet.stores["beside"].clone();
    sheet.configurations.insert("cached rate=10".into(), exact);
    assert_eq!(on(&sheet, "beside", "cached rate=10").as_deref(), Some("local"));
    sheet.stores.shift_remove("default");
    assert_eq!(on(&sheet, "other", "other"), None);
}

#[test]
fn a_star_stands_for_any_text() {
    for (pattern, name, fits) in [
        ("*", "", true),
        ("*", "a", true),
        ("a", "a", true),
        ("a", "ab", false),
        ("a*", "ab", true),
        ("*b", "ab", true),
        ("*b", "ba", false),
        ("a*c", "abc", true),
        ("a*a", "a", false),
        ("a*b*c", "a1b2b3c", true),
        ("a*b*c", "a1c2b", false),
        ("", "a", false),
    ] {
        assert_eq!(super::super::sheet::fits(pattern, name), fits, "{pattern} {name}");
    }
}

#[test]
fn the_published_prices_are_as_published() {
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../prices/published.toml"));
    let sheet = PriceSheet::read(file).unwrap();
    for (configuration, in_all, nodes) in [("published-50-nodes", 56.30, 50), ("published-40-nodes", 21.28, 40)] {
        let on = sheet.runs_on("", configuration).unwrap();
        assert_eq!((on.nodes, on.clients, &on.client_node), (nodes, Some(32), &None));
        super::near(sheet.nodes[&on.node].per_hour * f64::from(nodes), in_all);
        assert!(sheet.nodes[&on.node].source.is_some() && sheet.nodes[&on.node].date.is_some());
    }
    assert!(sheet.notes.iter().any(|note| note.contains("do not give their dates")));
}
