//! One figure: its values by round, its reference, and its target.

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    GbPerS,
    MbPerS,
    Instructions,
    Ns,
    Us,
    Ms,
    DocsPerS,
    MillionsPerS,
    Mb,
    Percent,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GbPerS => "GB/s",
            Self::MbPerS => "MB/s",
            Self::Instructions => "instr.",
            Self::Ns => "ns",
            Self::Us => "µs",
            Self::Ms => "ms",
            Self::DocsPerS => "docs/s",
            Self::MillionsPerS => "million/s",
            Self::Mb => "MB",
            Self::Percent => "%",
        }
    }
}

/// One value per round, in the order of the rounds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Samples(pub(crate) Vec<f64>);

impl Samples {
    fn sorted(&self) -> Vec<f64> {
        let mut values = self.0.clone();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The middle value, or the mean of the two in the middle; NaN if there are none.
    pub(crate) fn median(&self) -> f64 {
        let values = self.sorted();
        match values.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => values[n / 2],
            n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
        }
    }

    pub(crate) fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    pub(crate) fn greatest(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }
}

/// The reference of a figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reference {
    /// What it is.
    pub(crate) what: String,
    /// In the figure's unit, from the same rounds.
    pub(crate) values: Samples,
}

/// The target of a median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// For the ratio to the reference.
    RatioAtLeast(f64),
    /// For the ratio to the reference.
    RatioAtMost(f64),
}

/// How a figure compares with its target.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Met,
    Missed,
    NotMeasured(String),
    /// It has no target and is shown only for comparison.
    Told,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) topic: &'static str,
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) ours: Samples,
    pub(crate) reference: Option<Reference>,
    pub(crate) target: Option<Target>,
    /// Notes that help to read it, one line each.
    pub(crate) notes: Vec<String>,
    /// Whether the worst round must meet the target, rather than the median.
    worst: bool,
    failure: Option<String>,
}

impl Figure {
    pub(crate) fn new(topic: &'static str, what: impl Into<String>, unit: Unit, ours: Samples) -> Self {
        Self {
            topic,
            what: what.into(),
            unit,
            ours,
            reference: None,
            target: None,
            notes: Vec::new(),
            worst: false,
            failure: None,
        }
    }

    /// A figure that could not be measured, and why.
    pub(crate) fn not_measured(topic: &'static str, what: &str, why: &str) -> Self {
        Self { failure: Some(why.to_owned()), ..Self::new(topic, what, Unit::Ns, Samples::default()) }
    }

    pub(crate) fn beside(mut self, what: impl Into<String>, values: Samples) -> Self {
        self.reference = Some(Reference { what: what.into(), values });
        self
    }

    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// Compares the worst round with the target, for what must never happen.
    pub(crate) fn judged_by_the_worst(mut self) -> Self {
        self.worst = true;
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Our value divided by the reference, round by round, because a disturbance of a round affects both.
    pub(crate) fn ratio(&self) -> Option<Samples> {
        let reference = &self.reference.as_ref()?.values;
        Some(Samples(self.ours.0.iter().zip(&reference.0).map(|(ours, theirs)| ours / theirs).collect()))
    }

    pub(crate) fn outcome(&self) -> Outcome {
        if let Some(why) = &self.failure {
            return Outcome::NotMeasured(why.clone());
        }
        let Some(target) = self.target else { return Outcome::Told };
        let samples = match target {
            Target::AtLeast(_) | Target::AtMost(_) => self.ours.clone(),
            Target::RatioAtLeast(_) | Target::RatioAtMost(_) => self.ratio().unwrap_or_default(),
        };
        let (value, met) = match target {
            Target::AtLeast(t) | Target::RatioAtLeast(t) => {
                let value = if self.worst { samples.least() } else { samples.median() };
                (value, value >= t)
            }
            Target::AtMost(t) | Target::RatioAtMost(t) => {
                let value = if self.worst { samples.greatest() } else { samples.median() };
                (value, value <= t)
            }
        };
        match (value.is_finite(), met) {
            (false, _) => Outcome::NotMeasured("no round gave a value".into()),
            (_, true) => Outcome::Met,
            (_, false) => Outcome::Missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        Samples(values.to_vec())
    }

    #[test]
    fn medians_and_ends() {
        let odd = samples(&[3.0, 1.0, 2.0]);
        assert_eq!((odd.median(), odd.least(), odd.greatest()), (2.0, 1.0, 3.0));
        assert_eq!(samples(&[4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert!(samples(&[]).median().is_nan());
    }

    #[test]
    fn the_ratio_is_taken_in_each_round() {
        let figure =
            Figure::new("t", "w", Unit::Ns, samples(&[1.0, 20.0, 3.0])).beside("r", samples(&[2.0, 10.0, 6.0]));
        // The ratio of the medians would also be 3/6. The ratios by round keep their extremes.
        let ratio = figure.ratio().unwrap();
        assert_eq!((ratio.median(), ratio.greatest()), (0.5, 2.0));
    }

    #[test]
    fn outcomes() {
        let figure = |target| Figure::new("t", "w", Unit::Ns, samples(&[5.0])).target(target);
        assert_eq!(figure(Target::AtLeast(5.0)).outcome(), Outcome::Met);
        assert_eq!(figure(Target::AtMost(4.9)).outcome(), Outcome::Missed);
        assert!(matches!(figure(Target::RatioAtLeast(0.9)).outcome(), Outcome::NotMeasured(_)));
        let rounds =
            Figure::new("t", "w", Unit::Percent, samples(&[100.0, 99.0, 100.0])).target(Target::AtLeast(100.0));
        assert_eq!(rounds.clone().outcome(), Outcome::Met);
        assert_eq!(rounds.judged_by_the_worst().outcome(), Outcome::Missed);
        let beside = |target| figure(target).beside("r", samples(&[10.0]));
        assert_eq!(beside(Target::RatioAtMost(0.5)).outcome(), Outcome::Met);
        assert_eq!(beside(Target::RatioAtLeast(0.9)).outcome(), Outcome::Missed);
        assert_eq!(Figure::new("t", "w", Unit::Ns, samples(&[5.0])).outcome(), Outcome::Told);
        assert!(matches!(Figure::not_measured("t", "w", "x").outcome(), Outcome::NotMeasured(_)));
    }
}
