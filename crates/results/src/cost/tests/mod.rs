mod configurations;
mod of_run;
mod result;
mod sheet;

use std::path::Path;

use super::{ConfigurationCostInput, PriceSheet};
use crate::stats::Estimate;

/// Three machines and the three other prices. The figures in the tests are computed by hand from these.
const SHEET: &str = r#"
currency = "USD"
source = "a made-up price list"
date = "2026-01-31"
rate = "11.5k"
[nodes.large]
per_hour = 2.0
cpus = 16
memory = "64GiB"

[nodes.small]
per_hour = 0.25

[nodes.local]
per_hour = 3
disk = "2TB"

[disk]
per_gib_month = 0.1

[io]
per_million = 0.2

[egress]
per_gib = 0.09

[configurations."cached rate=*"]
node = "small"
clients = 0

[stores]
cluster = { node = "large", nodes = 3, clients = 2, client_node = "small", disk_gib = 100 }
beside = { node = "local", nodes = 2 }
default = { node = "large" }
"#;

/// Parses a sheet whose dates are all in the past.
fn sheet(text: &str) -> PriceSheet {
    PriceSheet::parse(text, Path::new("prices.toml")).unwrap()
}

/// A sheet with the required keys, followed by `rest`.
fn plain(rest: &str) -> PriceSheet {
    sheet(&format!("currency = \"USD\"\nsource = \"a list\"\ndate = \"2026-01-31\"\n{rest}"))
}

fn exactly(value: f64) -> Estimate {
    Estimate { value, low: None, high: None, trials: 1 }
}

fn between(value: f64, low: f64, high: f64) -> Estimate {
    Estimate { value, low: Some(low), high: Some(high), trials: 5 }
}

fn input(store: &str, configuration: &str, throughput_per_s: Estimate) -> ConfigurationCostInput {
    ConfigurationCostInput {
        store: store.to_owned(),
        configuration: configuration.to_owned(),
        throughput_per_s,
        within_limit_per_s: None,
        disk_bytes: None,
        read_bytes_per_op: None,
        written_bytes_per_op: None,
    }
}

/// Equal up to rounding.
#[track_caller]
fn near(found: f64, wanted: f64) {
    assert!((found - wanted).abs() <= 1e-12 * wanted.abs().max(1e-9), "{found} is not {wanted}");
}
