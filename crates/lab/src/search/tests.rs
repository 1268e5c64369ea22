//! Stores with a known limit: tests what is found, in how many probes, and under how much noise.

use proptest::prelude::*;
use storebench_documents::keys::Rng;
use storebench_documents::schedule::{Arrivals, Rate};
use storebench_study::units::Span;
use storebench_study::workload::ArrivalSpec;

use super::*;

fn spec(from: f64, to: f64, within: f64, confirm: u32) -> RateSearch {
    let rest = Span(std::time::Duration::ZERO);
    RateSearch { phase: "any".into(), from, to, within, confirm, most_probes: 100_000, hold: 0, rest }
}

/// Runs a search on a store. The store is a function from the rate and the number of the probe, from 0, to whether it
/// met the limits.
fn run(spec: &RateSearch, mut store: impl FnMut(f64, usize) -> bool) -> SearchResult {
    let mut number = 0;
    run_for(spec, |rate, _| {
        number += 1;
        store(rate, number - 1)
    })
}

/// The same. The store is a function from the rate, and from how many times as long as the phase the probe lasts.
fn run_for(spec: &RateSearch, mut store: impl FnMut(f64, u32) -> bool) -> SearchResult {
    let mut search = Search::new(spec);
    loop {
        match search.next() {
            Step::Done(found) => return found,
            Step::Probe { rate, why, times, .. } => {
                let met = store(rate, times);
                search.tell(ProbeResult { rate, why, times, met, ..ProbeResult::default() });
            }
        }
    }
}

fn holding(from: f64, to: f64) -> RateSearch {
    RateSearch { hold: 5, ..spec(from, to, 0.05, 1) }
}

/// A store that stalls for 1 s in every 30 s at rates from `stalls_from` on, probed for 10 s with 5 s between the probes.
/// The limit is on the p99: at most a hundredth of the operations may be scheduled during a stall. Beyond 7,300/s it
/// never meets the limit.
fn stalling(stalls_from: f64) -> impl FnMut(f64, u32) -> bool {
    let mut now_s = 0;
    move |rate, times| {
        let length_s = 10 * times;
        let stalled_s = (now_s..now_s + length_s).filter(|second| second % 30 == 29).count() as f64;
        now_s += length_s + 5;
        rate <= 7_300.0 && (rate < stalls_from || stalled_s / f64::from(length_s) <= 0.01)
    }
}

#[test]
fn a_store_that_stalls_now_and_then_does_not_pass() {
    // Every probe happens to lie between two stalls.
    let short = run_for(&spec(100.0, 100_000.0, 0.05, 1), stalling(0.0));
    assert_eq!((short.rate, short.is_held()), (Some(7_288.0), false));
    let found = run_for(&holding(100.0, 100_000.0), stalling(0.0));
    assert_eq!((found.rate, found.fails_at, found.complete), (None, Some(100.0), true));
    assert_eq!(found.not_held(), Some((7_288.0, 5)));
    let held: Vec<f64> = found.probes.iter().filter(|p| p.why == ProbeReason::Hold).map(|p| p.rate).collect();
    assert_eq!(held, [7_288.0, 6_941.0, 6_296.0, 100.0]);
}

#[test]
fn a_rate_that_holds_for_longer_is_the_result() {
    let found = run_for(&holding(100.0, 100_000.0), stalling(f64::INFINITY));
    assert_eq!((found.rate, found.fails_at, found.is_held()), (Some(7_288.0), Some(7_611.0), true));
    assert_eq!(found.probes.iter().filter(|p| p.times == 5).count(), 1);
    // A store that stalls only when it is busy.
    for stalls_from in [7_000.0, 6_500.0, 5_000.0, 150.0] {
        let found = run_for(&holding(100.0, 100_000.0), stalling(stalls_from));
        let (rate, fails) = (found.rate.unwrap(), found.fails_at.unwrap());
        assert!(found.complete && found.is_held(), "{found:?}");
        assert!(rate < stalls_from && fails >= stalls_from && fails <= rate * 1.05 * (1.0 + 1e-9), "{found:?}");
    }
}

#[test]
fn probes_that_run_out_before_a_rate_held_give_none() {
    let whole = run_for(&holding(100.0, 100_000.0), stalling(0.0));
    let short = RateSearch { most_probes: whole.probes.len() as u32 - 2, ..holding(100.0, 100_000.0) };
    let found = run_for(&short, stalling(0.0));
    assert_eq!((found.rate, found.fails_at, found.complete), (None, Some(6_941.0), false));
    // Before any rate had to hold, the rate is what most probes say.
    let short = RateSearch { most_probes: whole.probes.len() as u32 - 4, ..holding(100.0, 100_000.0) };
    let found = run_for(&short, stalling(0.0));
    assert_eq!((found.rate, found.complete, found.is_held()), (Some(7_288.0), false, false));
}

/// The usual number of probes if none is wrong.
fn usual_probes(spec: &RateSearch) -> u32 {
    let grow = (spec.to / spec.from).log2().ceil().max(0.0) as u32;
    let halve = (GROWTH.ln() / spec.within.ln_1p()).log2().ceil().max(0.0) as u32;
    1u32.saturating_add(grow).saturating_add(halve).saturating_add(spec.confirm.saturating_mul(2))
}

#[test]
fn a_threshold_is_found_as_its_specification_says() {
    let found = run(&spec(100.0, 100_000.0, 0.05, 1), |rate, _| rate <= 7_300.0);
    let rates: Vec<(f64, ProbeReason)> = found.probes.iter().map(|p| (p.rate, p.why)).collect();
    assert_eq!(
        rates,
        [
            (100.0, ProbeReason::First),
            (200.0, ProbeReason::Grow),
            (400.0, ProbeReason::Grow),
            (800.0, ProbeReason::Grow),
            (1_600.0, ProbeReason::Grow),
            (3_200.0, ProbeReason::Grow),
            (6_400.0, ProbeReason::Grow),
            (12_800.0, ProbeReason::Grow),
            (9_051.0, ProbeReason::Bisect),
            (7_611.0, ProbeReason::Bisect),
            (6_979.0, ProbeReason::Bisect),
            (7_288.0, ProbeReason::Bisect),
            (7_288.0, ProbeReason::ConfirmMet),
            (7_611.0, ProbeReason::ConfirmFails),
        ]
    );
    assert_eq!((found.rate, found.fails_at, found.complete), (Some(7_288.0), Some(7_611.0), true));
}

#[test]
fn a_store_that_never_holds_has_no_rate() {
    let found = run(&spec(100.0, 1e6, 0.05, 2), |_, _| false);
    assert_eq!((found.rate, found.fails_at), (None, Some(100.0)));
    assert_eq!((found.probes.len(), found.complete), (3, true));
}

#[test]
fn a_store_that_always_holds_is_found_at_the_limit() {
    let found = run(&spec(100.0, 1_000.0, 0.05, 1), |_, _| true);
    assert_eq!((found.rate, found.fails_at), (Some(1_000.0), None));
    assert_eq!((found.probes.len(), found.complete), (6, true));
    let one = run(&spec(100.0, 100.0, 0.05, 0), |_, _| true);
    assert_eq!((one.rate, one.fails_at, one.probes.len()), (Some(100.0), None, 1));
}

#[test]
fn a_found_rate_that_fails_again_is_stepped_down_from() {
    // Holds up to 1,000, except for one lucky probe at 1,189, which later probes refute.
    let found = run(&spec(500.0, 4_000.0, 0.05, 1), |rate, n| rate <= 1_000.0 || (n == 4 && rate == 1_189.0));
    assert!(found.probes.iter().any(|p| p.rate == 1_189.0 && p.met), "{found:?}");
    assert!(found.probes.iter().any(|p| p.rate == 1_189.0 && p.why == ProbeReason::ConfirmMet && !p.met), "{found:?}");
    assert_eq!(found.rate, Some(1_000.0));
    assert!(found.fails_at.unwrap() <= 1_050.0);
}

#[test]
fn probes_that_run_out_say_so() {
    let short = RateSearch { most_probes: 4, ..spec(100.0, 1e6, 0.05, 1) };
    let found = run(&short, |rate, _| rate <= 300.0);
    // 100, 200, 400 and 282.8: nothing is confirmed.
    assert_eq!((found.rate, found.fails_at), (Some(282.8), Some(400.0)));
    assert!(!found.complete && found.probes.len() == 4);
    // A search that ends with its last allowed probe is complete.
    let spec = spec(100.0, 1e6, 0.05, 1);
    let whole = run(&spec, |rate, _| rate <= 300.0);
    let exactly = RateSearch { most_probes: whole.probes.len() as u32, ..spec };
    assert!(run(&exactly, |rate, _| rate <= 300.0).complete);
}

#[test]
fn a_noisy_store_is_found_where_half_of_its_probes_hold() {
    // A logistic edge: from 6 % below to 6 % above the limit, the probability to hold falls from 95 % to 5 %.
    let (limit, width) = (5_000.0f64, 0.02);
    let far = |confirm: u32| {
        let mut far: Vec<f64> = (0..300)
            .map(|seed| {
                let mut random = Rng::new(seed);
                let found = run(&spec(100.0, 1e6, 0.05, confirm), |rate, _| {
                    random.unit() < 1.0 / (1.0 + ((rate / limit).ln() / width).exp())
                });
                (found.rate.unwrap() / limit).ln()
            })
            .collect();
        far.sort_by(f64::total_cmp);
        far
    };
    let (alone, confirmed) = (far(0), far(2));
    assert!(confirmed[150].abs() < 0.03, "median {}", confirmed[150]);
    assert!(confirmed[7] > -0.1 && confirmed[292] < 0.05, "95 % within {} to {}", confirmed[7], confirmed[292]);
    let spread = |sorted: &[f64]| sorted[285] - sorted[15];
    assert!(spread(&confirmed) < spread(&alone), "{} {}", spread(&confirmed), spread(&alone));
}

proptest! {
    #[test]
    fn a_threshold_is_always_within_the_bracket(
        from in 1.0f64..1e4, decades in 0.0f64..4.0, at in 0.0f64..1.0, within in 0.001f64..1.0, confirm in 0u32..4,
    ) {
        let to = from * 10f64.powf(decades);
        let limit = from * 10f64.powf(decades * at);
        let spec = spec(from, to, within, confirm);
        let found = run(&spec, |rate, _| rate <= limit);
        let rate = found.rate.unwrap();
        prop_assert!(found.complete && rate <= limit);
        match found.fails_at {
            Some(high) => prop_assert!(high > limit && high / rate <= (1.0 + within) * (1.0 + 1e-9)),
            None => prop_assert!(rate == to),
        }
        prop_assert!(found.probes.len() <= usual_probes(&spec) as usize + 1, "{}", found.probes.len());
    }

    #[test]
    fn as_many_wrong_probes_as_confirm_change_nothing(
        limit in 90.0f64..12_000.0, confirm in 1u32..4, wrong in prop::collection::vec(0usize..40, 3),
    ) {
        let found = run(&spec(100.0, 10_000.0, 0.05, confirm), |rate, n| {
            (rate <= limit) != wrong[..confirm as usize].contains(&n)
        });
        prop_assert!(found.complete);
        match found.rate {
            None => prop_assert!(limit < 100.0),
            Some(rate) => {
                prop_assert!(rate <= limit);
                prop_assert!(found.fails_at.map_or(rate == 10_000.0, |high| high > limit && high / rate <= 1.05));
            }
        }
    }

    #[test]
    fn it_ends_whatever_the_answers(
        seed: u64, within in 0.01f64..1.0, confirm in 0u32..4, chance in 0.0f64..1.0, hold in 0u32..3,
    ) {
        let mut random = Rng::new(seed);
        let (from, to) = (10.0f64, 1e5f64);
        let wanted = RateSearch { hold, ..spec(from, to, within, confirm) };
        let found = run(&wanted, |_, _| random.unit() < chance);
        prop_assert!(found.complete);
        prop_assert!(found.rate.is_none() || hold == 0 || found.is_held());
        // Rates lie √(1 + within) apart, slightly less because of rounding.
        let rates = (to / from).ln() / (within.ln_1p() / 2.2) + 3.0;
        let holds = found.probes.iter().filter(|probe| probe.why == ProbeReason::Hold).count();
        let others = found.probes.len() - holds;
        prop_assert!(others as f64 <= rates * f64::from(2 * confirm + 1), "{}", found.probes.len());
        prop_assert!(holds as f64 <= rates);
        prop_assert!(found.probes.iter().all(|p| p.rate >= from && p.rate <= to));
    }

    #[test]
    fn a_search_is_taken_up_by_telling_it_its_probes(limit in 50.0f64..20_000.0, cut in 0usize..20) {
        let spec = holding(100.0, 10_000.0);
        let whole = run(&spec, |rate, n| rate <= limit && n % 7 != 6);
        let mut again = Search::new(&spec);
        whole.probes.iter().take(cut).for_each(|probe| again.tell(probe.clone()));
        match (again.next(), whole.probes.get(cut)) {
            (Step::Probe { rate, why, .. }, Some(probe)) => prop_assert_eq!((rate, why), (probe.rate, probe.why)),
            (Step::Done(found), None) => prop_assert_eq!(found, whole),
            (step, probe) => prop_assert!(false, "{:?} {:?}", step, probe),
        }
    }
}

const CONCURRENCY: usize = 4;
const SERVICE_NS: u64 = 1_000_000;
const CAPACITY_PER_S: f64 = 4_000.0;

/// The p99 response time, in ns, of a store that serves 4 operations at once, 1 ms each. Operations start in scheduled
/// order, each when the one four before it has ended. All take equally long, so none overtakes another.
fn p99_ns(rate: f64, arrival: ArrivalSpec, seed: u64, operations: usize) -> u64 {
    let mut scheduled = Arrivals::new(&Rate::Constant(rate), arrival, 0, 1, seed).unwrap();
    let mut free_ns = [0u64; CONCURRENCY];
    let mut times: Vec<u64> = (0..operations)
        .map(|n| {
            let scheduled_ns = scheduled.peek_ns();
            scheduled.advance();
            let free = &mut free_ns[n % CONCURRENCY];
            *free = scheduled_ns.max(*free) + SERVICE_NS;
            *free - scheduled_ns
        })
        .collect();
    *times.select_nth_unstable(operations * 99 / 100).1
}

#[test]
fn under_constant_arrivals_the_capacity_is_found() {
    // A D/D/4 queue: up to the capacity, no operation waits; beyond it, a probe of 10 s ends with a long queue.
    let found = run(&spec(100.0, 100_000.0, 0.05, 1), |rate, _| {
        p99_ns(rate, ArrivalSpec::Constant, 0, (10.0 * rate) as usize) < 5_000_000
    });
    let (rate, high) = (found.rate.unwrap(), found.fails_at.unwrap());
    assert!((CAPACITY_PER_S / 1.05..=CAPACITY_PER_S).contains(&rate), "{found:?}");
    assert!(high > CAPACITY_PER_S && high <= rate * 1.05, "{found:?}");
}

#[test]
fn under_poisson_arrivals_it_agrees_with_a_long_simulation() {
    const LIMIT_NS: u64 = 5_000_000;
    // The M/D/4 queue directly: bisect on the p99 of 1,000,000 operations, with the same arrivals each time.
    let (mut low, mut high) = (2_000.0f64, CAPACITY_PER_S);
    while high / low > 1.002 {
        let rate = (low * high).sqrt();
        let holds = p99_ns(rate, ArrivalSpec::Poisson, 1, 1_000_000) < LIMIT_NS;
        *(if holds { &mut low } else { &mut high }) = rate;
    }
    // Under Poisson arrivals operations queue in the client, so the limit is reached below the capacity, unlike in a
    // D/D/4 queue.
    assert!(low > 0.8 * CAPACITY_PER_S && high < 0.99 * CAPACITY_PER_S, "{low}");
    for seed in 0..4 {
        let found = run(&spec(100.0, 100_000.0, 0.03, 1), |rate, n| {
            p99_ns(rate, ArrivalSpec::Poisson, 1_000 * (seed + 1) + n as u64, (20.0 * rate) as usize) < LIMIT_NS
        });
        let rate = found.rate.unwrap();
        assert!((rate / low - 1.0).abs() < 0.05, "seed {seed}: {rate}, directly {low}");
    }
}
