//! `rate-not-sustained`: did the store keep up with the rate?

use crate::human::{count, duration, percent, rate};
use crate::in_flight::{FULL, carried_at_most};
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};

pub(super) const CHECK: Check = Check::new("rate-not-sustained", "the rate was not sustained", &[Looks::Phase(look)]);

/// The least share of the scheduled rate that must be answered, and the highest share of operations that may be
/// unfinished.
pub(super) const SUSTAINED: f64 = 0.99;
pub(super) const UNFINISHED: f64 = 0.01;

/// Whether the store kept up with the rate. A finding about the store, not a fault of the run.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let asked = scene.phase.rate.as_ref()?;
    if asked.scheduled == 0 {
        return None;
    }
    let unfinished = scene.phase.ops.values().map(|op| op.unfinished as f64).sum::<f64>() / asked.scheduled as f64;
    let severity =
        if asked.sustained_share < SUSTAINED || unfinished > UNFINISHED { Severity::Caution } else { Severity::Pass };
    let mut observed = format!(
        "{}/s of {}/s scheduled ({}); {} unfinished at the end",
        rate(asked.achieved_per_s),
        rate(asked.scheduled_per_s),
        percent(asked.sustained_share),
        percent(unfinished)
    );
    let full = scene.phase.in_flight_share >= FULL;
    let carried = carried_at_most(scene.phase).zip(scene.phase.all.service_ns.mean);
    if let Some((most, service_ns)) = carried.filter(|_| severity > Severity::Pass) {
        observed += &format!(
            "; an in-flight limit of {} allows at most {}/s at a mean service time of {}",
            count(scene.phase.in_flight_limit),
            rate(most),
            duration(service_ns)
        );
    }
    let recorded = scene.phase.rate.as_ref().is_some_and(|rate| rate.planned.is_string());
    let advice = if recorded && !full {
        "operations were sent later than recorded: the store did not keep up, or clients waited for their own last answers, since each sends one operation at a time; lower `speed`, or report the rate that was answered"
    } else if full {
        "the in-flight limit was reached: raise `in_flight` or `connections` and see whether the store then keeps up, before you call this its limit; report the rate that was answered, not percentiles, which grow with the length of the phase"
    } else {
        "the store did not keep up: report the rate that it sustained, not percentiles, which grow with the length of the phase; lower `rate` to find it"
    };
    Some(
        Finding::new(
            severity,
            observed,
            format!(
                "caution below {} of the scheduled rate or above {} unfinished",
                percent(SUSTAINED),
                percent(UNFINISHED)
            ),
            advice,
        )
        .weighing(1.0 - asked.sustained_share),
    )
}

#[cfg(test)]
mod tests {
    use storebench_engine::measure::{Interval, PhaseRecord, Recorder};

    use crate::fixture;
    use crate::validity::testing::{CAUTION, PASS, closed, open, severity};
    use crate::validity::{exit_code, judge};

    #[test]
    fn rate_not_sustained() {
        for (sustained, unfinished, expected) in
            [(1.0, 0, PASS), (0.99, 120, PASS), (0.989, 0, CAUTION), (1.0, 121, CAUTION)]
        {
            let result = open(|p| {
                p.rate.as_mut().unwrap().sustained_share = sustained;
                p.ops[0].unfinished = unfinished;
            });
            assert_eq!(severity(&result, "rate-not-sustained"), expected, "{sustained} {unfinished}");
        }
        assert_eq!(severity(&closed(|_| ()), "rate-not-sustained"), None);
    }

    /// The phase of the fixture answers 12,000 within 12 s.
    #[test]
    fn a_rate_is_sustained_by_answers_in_the_time_of_the_schedule() {
        let seen = |change: fn(&mut PhaseRecord)| {
            let mut record = fixture::open_loop();
            (record.scheduled, record.scheduled_over_ns) = (Some(12_000), Some(12_000_000_000));
            change(&mut record);
            let result = fixture::run_of(&[record]);
            let rate = result.trials[0].phases[0].rate.clone().unwrap();
            (severity(&result, "rate-not-sustained"), rate)
        };
        assert_eq!(seen(|r| r.scheduled = Some(12_000)).0, PASS);
        // Counted: the schedule was over in a tenth of the time.
        let (found, rate) = seen(|r| r.scheduled_over_ns = Some(1_200_000_000));
        assert_eq!((found, rate.scheduled_per_s), (CAUTION, 10_000.0));
        // Everything was answered in the end, but half of it after the schedule was over.
        let (found, rate) = seen(|r| {
            (r.scheduled, r.scheduled_over_ns) = (Some(12_000), Some(6_000_000_000));
        });
        assert!(found == CAUTION && (0.49..0.51).contains(&rate.sustained_share), "{rate:?}");
        // Failing fast sustains no rate.
        let (found, rate) = seen(|r| {
            for tally in &mut r.total.ops {
                tally.failed[0] += tally.succeeded;
                tally.succeeded = 0;
            }
        });
        assert!(found == CAUTION && rate.achieved_per_s == 0.0, "{rate:?}");
        // One operation that hangs through a long drain does not count against all others.
        let (found, rate) = seen(|r| {
            let last = r.intervals.len() as u64;
            r.intervals.push(Interval::new(last, 12_000_000_000, 22_000_000_000, &Recorder::new(2)));
            r.elapsed_ns = 22_000_000_000;
        });
        assert!(found == PASS && rate.sustained_share == 1.0, "{rate:?}");
        // Of four operations the last was due at the very end, and answered after it; two late ones are too many.
        let (found, rate) = seen(|r| few(r, [3, 1]));
        assert!(found == PASS && rate.sustained_share == 1.0, "{rate:?}");
        let (found, rate) = seen(|r| few(r, [2, 2]));
        assert!(found == CAUTION && rate.sustained_share < 0.99, "{rate:?}");
    }

    /// A phase that answers so many operations within its schedule of 15 s, and so many in the 400 ms after it.
    fn few(record: &mut PhaseRecord, answered: [u64; 2]) {
        let mut total = Recorder::new(record.total.ops.len());
        let [within, after] = answered.map(|count| {
            let mut recorder = Recorder::new(record.total.ops.len());
            recorder.ops[0].succeeded = count;
            total.add(&recorder);
            recorder
        });
        let (end, last) = (15_000_000_000, 15_400_000_000);
        record.intervals = vec![Interval::new(0, 0, end, &within), Interval::new(1, end, last, &after)];
        record.elapsed_ns = last;
        (record.total, record.scheduled, record.scheduled_over_ns) = (total, Some(4), Some(end));
    }

    #[test]
    fn rate_not_sustained_is_a_finding_and_no_failure() {
        let mut result = open(|p| {
            p.rate.as_mut().unwrap().sustained_share = 0.4;
            p.ops[0].unfinished = 7_000;
        });
        result.checks = judge(&result);
        assert_eq!(exit_code(&result), 0, "{:#?}", result.checks);
    }
}
