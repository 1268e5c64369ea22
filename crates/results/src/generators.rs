//! The parts of a merged run as a table.

use crate::PhaseResult;
use crate::human::{count, duration, percent, rate};
use crate::table::ColumnKind::{Count, Less, More, Text};
use crate::table::{Cell, Table};
use crate::times::{P99, cell, response_of_all, service_of_all};

/// What each part did in a phase: when it began, how much it sent, the times that it saw, and how busy its client was.
/// `None` if the phase was not merged.
pub fn generators(phase: &PhaseResult) -> Option<Table> {
    if phase.generators.is_empty() {
        return None;
    }
    let open = phase.rate.is_some();
    let mut table = Table::new([
        ("part", Text),
        ("began after", Less),
        ("workers", Count),
        ("operations", Count),
        ("answered/s", More),
        (if open { "response p99" } else { "service p99" }, Less),
        ("client CPU/op", Less),
        ("busiest worker", Less),
    ]);
    for of in &phase.generators {
        let times = response_of_all(&of.all).unwrap_or_else(|| service_of_all(&of.all));
        let cost = of.client.cpu_us_per_op;
        table.row([
            Cell::from(of.part.to_string()),
            number(duration(of.began_after_ns as f64), Some(of.began_after_ns)),
            number(count(of.workers.into()), Some(of.workers.into())),
            number(count(of.operations), Some(of.operations)),
            Cell::number(rate(of.answered_per_s), Some(of.answered_per_s)),
            number(cell(&times, P99).text, times.p99),
            Cell::number(cost.map_or_else(|| "unknown".to_owned(), |us| duration(us * 1e3)), cost),
            Cell::number(percent(of.client.busiest_worker_share), Some(of.client.busiest_worker_share)),
        ]);
    }
    Some(table)
}

fn number(text: String, value: Option<u64>) -> Cell {
    Cell::number(text, value.map(|value| value as f64))
}
