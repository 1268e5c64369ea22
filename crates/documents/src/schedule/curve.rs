//! Λ⁻¹ for changing rates: the time at which a number of operations is expected.

use super::rate::{NS_PER_S, Rate};

/// A stretch of time over which the rate is linear.
#[derive(Debug, Clone, Copy)]
struct Segment {
    start_ns: u64,
    /// `u64::MAX` for the last.
    end_ns: u64,
    /// Λ at its start and end, in operations. The end is infinite for a last segment that is not a pause.
    start: f64,
    end: f64,
    /// Operations per second at its start, and the change per second.
    per_s: f64,
    more_per_s2: f64,
}

impl Segment {
    /// When Λ reaches `operations`, which lies within the segment.
    #[inline]
    fn at(&self, operations: f64) -> u64 {
        let x = (operations - self.start).max(0.0);
        let ns = if self.more_per_s2 == 0.0 {
            x * NS_PER_S / self.per_s
        } else if x == 0.0 {
            0.0
        } else {
            // x = a t + b t² / 2, solved in the form that loses no precision for either sign of b.
            let (a, b) = (self.per_s, self.more_per_s2);
            let root = (a * a + 2.0 * b * x).max(0.0).sqrt();
            2.0 * x / (a + root) * NS_PER_S
        };
        // The cast saturates, and turns a NaN into 0.
        self.start_ns.saturating_add((ns + 0.5) as u64).min(self.end_ns)
    }
}

/// A rate as segments, at least one.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    pub(super) rate: Rate,
    segments: Vec<Segment>,
}

impl Curve {
    /// The curve of a rate that has been [checked](Rate::check).
    pub(super) fn new(rate: &Rate) -> Self {
        let mut curve = Self { rate: rate.clone(), segments: Vec::new() };
        match rate {
            Rate::Constant(per_s) => curve.push(u64::MAX, *per_s, 0.0),
            Rate::Ramp { from, to, over_ns } => {
                curve.push(*over_ns, *from, (to - from) / (*over_ns as f64 / NS_PER_S));
                curve.push(u64::MAX, *to, 0.0);
            }
            Rate::Steps(steps) => {
                let mut end_ns = 0u64;
                for (step, &(for_ns, per_s)) in (1..).zip(steps) {
                    end_ns = if step == steps.len() { u64::MAX } else { end_ns.saturating_add(for_ns) };
                    curve.push(end_ns, per_s, 0.0);
                }
            }
        }
        curve
    }

    /// Adds a segment from where the last one ends, unless it would be empty.
    fn push(&mut self, end_ns: u64, per_s: f64, more_per_s2: f64) {
        let (start_ns, start) = self.segments.last().map_or((0, 0.0), |last| (last.end_ns, last.end));
        if end_ns <= start_ns {
            return;
        }
        let end = if per_s == 0.0 && more_per_s2 == 0.0 {
            // A pause: Λ at its end is Λ at its start.
            start
        } else if end_ns == u64::MAX {
            f64::INFINITY
        } else {
            self.rate.expected(end_ns)
        };
        self.segments.push(Segment { start_ns, end_ns, start, end, per_s, more_per_s2 });
    }

    /// When Λ exceeds `operations`, in ns; `u64::MAX` for never. An operation at the start of a pause is scheduled at
    /// its end, so that a pause has none.
    ///
    /// `from` is the segment at which the search starts, and is set to the segment found. Pass 0 first, then the same
    /// variable as long as `operations` does not decrease.
    #[inline]
    pub(super) fn at(&self, operations: f64, from: &mut usize) -> u64 {
        while let Some(segment) = self.segments.get(*from) {
            if operations < segment.end {
                return segment.at(operations);
            }
            *from += 1;
        }
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(rate: &Rate, operations: f64) -> u64 {
        Curve::new(rate).at(operations, &mut 0)
    }

    #[test]
    fn known_points() {
        let ramp = Rate::Ramp { from: 0.0, to: 200.0, over_ns: 2 * S };
        // Λ(t) = 50 t² during the ramp.
        assert_eq!([0.0, 0.5, 50.0, 200.0, 400.0].map(|n| at(&ramp, n)), [0, S / 10, S, 2 * S, 3 * S]);
        let down = Rate::Ramp { from: 200.0, to: 0.0, over_ns: 2 * S };
        assert_eq!([0.0, 150.0, 200.0, 201.0].map(|n| at(&down, n)), [0, S, u64::MAX, u64::MAX]);
        let steps = Rate::Steps(vec![(S, 0.0), (S, 100.0), (2 * S, 0.0), (S, 10.0), (S, 20.0)]);
        let scheduled = [0.0, 50.0, 99.0, 100.0, 105.0, 110.0, 130.0].map(|n| at(&steps, n) / (S / 100));
        assert_eq!(scheduled, [100, 150, 199, 400, 450, 500, 600]);
        let ends = Rate::Steps(vec![(S, 100.0), (S, 0.0)]);
        assert_eq!([99.5, 100.0].map(|n| at(&ends, n)), [995 * S / 1_000, u64::MAX]);
    }

    fn any_rate() -> impl Strategy<Value = Rate> {
        let per_s = || prop_oneof![1 => Just(0.0), 4 => 0.01..1e6, 1 => 1e6..1e8];
        let for_ns = || prop_oneof![1 => Just(0u64), 5 => 1u64..100 * S];
        prop_oneof![
            per_s().prop_map(Rate::Constant),
            (per_s(), per_s(), for_ns()).prop_map(|(from, to, over_ns)| Rate::Ramp { from, to, over_ns }),
            prop::collection::vec((for_ns(), per_s()), 1..6).prop_map(Rate::Steps),
        ]
        .prop_filter("never scheduled", |rate| rate.check().is_ok())
    }

    proptest! {
        #[test]
        fn inverse_of_expected(rate in any_rate(), t_ns in 0u64..600 * S) {
            let operations = rate.expected(t_ns);
            let back_ns = at(&rate, operations);
            if back_ns < u64::MAX {
                // Times may differ if nothing is scheduled between them; operations may not.
                let again = rate.expected(back_ns);
                let tolerance = 1e-12 * operations + 2.0 * rate.peak_per_s() / NS_PER_S + 1e-9;
                prop_assert!((again - operations).abs() <= tolerance, "{operations} {again}");
            } else {
                prop_assert!(rate.expected(t_ns + 1_000 * S) <= operations + 1e-9 * operations.max(1.0));
            }
        }

        #[test]
        fn the_way_there_does_not_matter(rate in any_rate(), steps in prop::collection::vec(0.0..1e6f64, 1..20)) {
            let curve = Curve::new(&rate);
            let (mut operations, mut segment, mut before) = (0.0, 0, 0);
            for step in steps {
                operations += step;
                let scheduled_ns = curve.at(operations, &mut segment);
                prop_assert_eq!(scheduled_ns, curve.at(operations, &mut 0));
                prop_assert!(scheduled_ns >= before);
                before = scheduled_ns;
            }
        }
    }
}
