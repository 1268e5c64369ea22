//! `rate-not-held`: did the store keep up with the rate?

use crate::human::{duration, percent, plural, rate};
use crate::slots::{FULL, carried_at_most};
use crate::verdicts::check::{Check, Finding, Looks, Scene};
use crate::verdicts::model::Level;

pub(super) const CHECK: Check = Check::new("rate-not-held", "the rate was not held", &[Looks::Phase(look)]);

/// Share of the due rate at which operations were answered; share of the due that were censored.
pub(super) const HELD: f64 = 0.99;
pub(super) const CENSORED: f64 = 0.01;

/// Whether the store kept up with the rate. A finding about the store, not a fault of the run.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let held = scene.phase.rate.as_ref()?;
    if held.due == 0 {
        return None;
    }
    let censored = scene.phase.ops.values().map(|op| op.censored as f64).sum::<f64>() / held.due as f64;
    let level = if held.held_share < HELD || censored > CENSORED { Level::Caution } else { Level::Pass };
    let mut saw = format!(
        "{}/s of {}/s due ({}); {} still unanswered at the end",
        rate(held.achieved_per_s),
        rate(held.due_per_s),
        percent(held.held_share),
        percent(censored)
    );
    let full = scene.phase.slots_busy_share >= FULL;
    let carried = carried_at_most(scene.phase).zip(scene.phase.all.service_ns.mean);
    if let Some((most, service_ns)) = carried.filter(|_| level > Level::Pass) {
        saw += &format!(
            "; {} at a mean service time of {} allow at most {}/s",
            plural(scene.phase.slots, "slot"),
            duration(service_ns),
            rate(most)
        );
    }
    let advice = if full {
        "every slot was taken: raise `in_flight` or `connections` and see whether the store then keeps up, before you call this its limit; report the rate that was held, not percentiles, which grow with the length of the phase"
    } else {
        "the store did not keep up: report the rate that it held, not percentiles, which grow with the length of the phase; lower `rate` to find it"
    };
    Some(Finding::new(
        level,
        saw,
        format!("caution below {} of the due rate or above {} unanswered", percent(HELD), percent(CENSORED)),
        advice,
    ))
}

#[cfg(test)]
mod tests {
    use storebench_engine::measure::{Interval, PhaseRecord, Recorder};

    use crate::fixture;
    use crate::verdicts::testing::{CAUTION, PASS, closed, level, open};
    use crate::verdicts::{exit_code, judge};

    #[test]
    fn rate_not_held() {
        for (held, censored, expected) in [(1.0, 0, PASS), (0.99, 120, PASS), (0.989, 0, CAUTION), (1.0, 121, CAUTION)]
        {
            let result = open(|p| {
                p.rate.as_mut().unwrap().held_share = held;
                p.ops[0].censored = censored;
            });
            assert_eq!(level(&result, "rate-not-held"), expected, "{held} {censored}");
        }
        assert_eq!(level(&closed(|_| ()), "rate-not-held"), None);
    }

    /// The phase of the fixture answers 12,000 within 12 s.
    #[test]
    fn a_rate_is_held_by_answers_in_the_time_of_the_schedule() {
        let seen = |change: fn(&mut PhaseRecord)| {
            let mut record = fixture::open_loop();
            (record.due, record.due_over_ns) = (Some(12_000), Some(12_000_000_000));
            change(&mut record);
            let result = fixture::run_of(&[record]);
            let rate = result.trials[0].phases[0].rate.clone().unwrap();
            (level(&result, "rate-not-held"), rate)
        };
        assert_eq!(seen(|r| r.due = Some(12_000)).0, PASS);
        // Counted: the schedule was over in a tenth of the time.
        let (found, rate) = seen(|r| r.due_over_ns = Some(1_200_000_000));
        assert_eq!((found, rate.due_per_s), (CAUTION, 10_000.0));
        // Everything was answered in the end, but half of it after the schedule was over.
        let (found, rate) = seen(|r| {
            (r.due, r.due_over_ns) = (Some(12_000), Some(6_000_000_000));
        });
        assert!(found == CAUTION && (0.49..0.51).contains(&rate.held_share), "{rate:?}");
        // Failing fast holds no rate.
        let (found, rate) = seen(|r| {
            for tally in &mut r.total.ops {
                tally.failed[0] += tally.succeeded;
                tally.succeeded = 0;
            }
        });
        assert!(found == CAUTION && rate.achieved_per_s == 0.0, "{rate:?}");
        // One operation that hangs through a long drain does not speak for all.
        let (found, rate) = seen(|r| {
            let last = r.intervals.len() as u64;
            r.intervals.push(Interval::new(last, 12_000_000_000, 22_000_000_000, &Recorder::new(2)));
            r.elapsed_ns = 22_000_000_000;
        });
        assert!(found == PASS && rate.held_share == 1.0, "{rate:?}");
    }

    #[test]
    fn rate_not_held_is_a_finding_and_no_failure() {
        let mut result = open(|p| {
            p.rate.as_mut().unwrap().held_share = 0.4;
            p.ops[0].censored = 7_000;
        });
        result.verdicts = judge(&result);
        assert_eq!(exit_code(&result), 0, "{:#?}", result.verdicts);
    }
}
