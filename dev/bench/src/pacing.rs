//! How late operations are sent if they are scheduled at a fixed rate.

use std::time::{Duration, Instant};

use storebench_engine::measure::{histogram, record, thread_cpu_ns};

use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::options::Options;
use crate::pin::pinned;
use crate::rounds::interleave;
use crate::subject::{Subject, pinned_null};

pub(crate) const FIGURES: &[&str] = &["precise", "economical"];

const TOPIC: &str = "pacing";
const RATE_PER_S: u64 = 50_000;

fn study(duration_ms: u64) -> String {
    let phase = |pacing: &str| {
        format!(
            r#"
[[phases]]
name = "{pacing}"
mix = {{ read = 50, upsert = 50 }}
popularity = "zipf:0.99"
workers = 1
rate = {RATE_PER_S}
pacing = "{pacing}"
duration = "{duration_ms}ms"
drain = "1s"
"#
        )
    };
    format!(
        r#"
title = "The pacer by itself"
seed = 435
[collections.documents]
count = 1_000_000_000
size = "1KiB"
fields = {{ text = {{ text = "fill" }} }}
{}{}"#,
        phase("precise"),
        phase("economical")
    )
}

/// The values of a round: share sent (%), send delay p50 and p99 (µs), processor time (% of a core), ready to run but
/// not running (%).
type Round = [f64; 5];

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let duration_ms = options.work(5_000);
    let subject = Subject::new(&study(duration_ms))?;
    let mut precise = || paced(&subject, "precise");
    let mut economical = || paced(&subject, "economical");
    let mut tokio = || pinned(|| sleep_until(Duration::from_millis(duration_ms)));
    let all = interleave::<5>(options.rounds, vec![&mut precise, &mut economical, &mut tokio])?;
    let [precise, economical, tokio] = &all[..] else { return Err("three sides give three results".into()) };
    let mut figures = Vec::new();
    for (name, ours, p50, p99) in [("precise", precise, 2.0, 100.0), ("economical", economical, 100.0, 500.0)] {
        if !options.wants(TOPIC, name) {
            continue;
        }
        let waited = &ours[4];
        figures.push(
            Figure::new(TOPIC, format!("{name}: operations sent of those scheduled"), Unit::Percent, ours[0].clone())
                // Every operation must be sent in every round.
                .target(Target::AtLeast(100.0))
                .judged_by_the_worst(),
        );
        figures.push(
            Figure::new(TOPIC, format!("{name}: send delay p50 at 50,000/s"), Unit::Us, ours[1].clone())
                .beside("tokio sleep_until", tokio[1].clone())
                .target(Target::AtMost(p50)),
        );
        figures.push(
            Figure::new(TOPIC, format!("{name}: send delay p99"), Unit::Us, ours[2].clone())
                .beside("tokio sleep_until", tokio[2].clone())
                .target(Target::AtMost(p99))
                .note(format!(
                    "the worker was ready but not running for {:.2} % of the time ({:.2}–{:.2}): other programs had its processor",
                    waited.median(),
                    waited.least(),
                    waited.greatest()
                )),
        );
        let cpu = Figure::new(TOPIC, format!("{name}: processor time"), Unit::Percent, ours[3].clone());
        figures.push(match name {
            "precise" => cpu.beside("tokio sleep_until", tokio[3].clone()),
            _ => cpu.beside("precise", precise[3].clone()).target(Target::RatioAtMost(0.5)),
        });
    }
    Ok(figures)
}

fn paced(subject: &Subject, phase: &str) -> Result<Round, Failure> {
    let record = subject.run(&pinned_null(), phase)?;
    let scheduled = record.scheduled.ok_or("an open loop must report what was scheduled")?;
    let delay = |quantile| record.total.send_delay.value_at_quantile(quantile) as f64 / 1e3;
    let worker = record.worker_use.first().ok_or("there was no worker")?;
    let share = |ns: u64| 100.0 * ns as f64 / worker.wall_ns.max(1) as f64;
    Ok([
        100.0 * record.operations() as f64 / scheduled.max(1) as f64,
        delay(0.5),
        delay(0.99),
        share(worker.cpu_ns),
        share(worker.run_queue_ns),
    ])
}

/// What most load generators do: tokio's timer, one operation after each wait. Nothing is sent, so the processor time
/// is that of waiting alone.
fn sleep_until(duration: Duration) -> Result<Round, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let count = duration.as_nanos() as u64 * RATE_PER_S / 1_000_000_000;
    let mut late = histogram();
    let cpu = thread_cpu_ns();
    let start = Instant::now();
    runtime.block_on(async {
        for number in 0..count {
            let scheduled = start + Duration::from_nanos(number * 1_000_000_000 / RATE_PER_S);
            // If the time has passed, do not wait: the backlog is sent at once.
            if Instant::now() < scheduled {
                tokio::time::sleep_until(scheduled.into()).await;
            }
            record(&mut late, Instant::now().saturating_duration_since(scheduled).as_nanos() as u64);
        }
    });
    let share = 100.0 * (thread_cpu_ns() - cpu) as f64 / start.elapsed().as_nanos().max(1) as f64;
    let late = |quantile| late.value_at_quantile(quantile) as f64 / 1e3;
    Ok([100.0, late(0.5), late(0.99), share, 0.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_gives_every_figure() {
        let subject = Subject::new(&study(50)).unwrap();
        for phase in ["precise", "economical"] {
            let [sent, p50, p99, cpu, _] = paced(&subject, phase).unwrap();
            assert!(sent > 0.0 && sent <= 100.0, "{sent}");
            assert!(p50 <= p99 && cpu > 0.0);
        }
        let [_, p50, p99, cpu, _] = sleep_until(Duration::from_millis(50)).unwrap();
        assert!(p50 <= p99 && cpu > 0.0);
    }
}
