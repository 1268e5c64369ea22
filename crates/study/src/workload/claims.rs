//! What a published study claims, and how a run is compared with it: the `[[published]]` tables.

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::check::Problems;
use super::factors::FactorValues;
use crate::written::schema;

/// A claim of a published study.
///
/// Values in its test (`{ workers = 16 }`) name a factor by its path (`phases.load.workers`) or by an end of it that no
/// other factor has (`workers`); `store` is the store's name in the study.
///
/// ```toml
/// [[published]]
/// says    = "Larger batches load faster"
/// figures = "1,250 docs/s at 10,000"
/// test    = { ratio = "load.documents", of = { batch = 10_000 }, to = { batch = 10 }, between = [2] }
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim, in one sentence.
    pub says: String,
    /// The figures as published. They are from other hardware and versions, so they are shown, but never compared.
    pub figures: String,
    /// Where it was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How figures of a run test it. Give either this or `not_testable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<ClaimTest>,
    /// Why no run of this study can test it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_testable: Option<String>,
    /// The smallest `--scale` at which it can be tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least_scale: Option<f64>,
    /// The fewest repeats with which it can be tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least_trials: Option<u32>,
    /// Whether it applies only at the study's `data_to_memory` ratio.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_data_to_memory: bool,
}

/// The test of a claim on figures of a run, which are named `PHASE.MEASURE` or `PHASE.OP.MEASURE`. The key that names
/// the figure selects the kind of test: `ratio`, `rises`, `falls`, `share_within` or `peak`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(untagged)]
pub enum ClaimTest {
    /// How some configurations compare with others.
    Ratio(RatioTest),
    /// A figure grows with a factor.
    Rises(RisesTest),
    /// A figure shrinks with a factor.
    Falls(FallsTest),
    /// The share of operations that meet a limit.
    ShareWithin(ShareTest),
    /// The value of a factor at which a figure is best.
    Peak(PeakTest),
}

/// A figure of some configurations divided by that of others, all else equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RatioTest {
    /// The figure.
    pub ratio: String,
    /// The configurations in the numerator.
    pub of: FactorValues,
    /// The configurations in the denominator. Factors that neither names are equal in each pair.
    pub to: FactorValues,
    /// The range of the ratio if the claim is right.
    pub between: Between,
}

/// A figure grows with a factor: it is higher at the greatest value than at the smallest, and does not fall at any
/// step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RisesTest {
    /// The figure.
    pub rises: String,
    /// The factor.
    pub over: String,
    /// The highest value that the claim covers; default: the highest that was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<f64>,
    /// Which configurations; default: all.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub at: FactorValues,
    /// The range of the figure at the greatest value divided by that at the smallest; default: at least 1.05.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<Between>,
}

/// A figure shrinks with a factor: it is lower at the greatest value than at the smallest, and does not rise at any
/// step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FallsTest {
    /// The figure.
    pub falls: String,
    /// The factor.
    pub over: String,
    /// The highest value that the claim covers; default: the highest that was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<f64>,
    /// Which configurations; default: all.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub at: FactorValues,
    /// The range of the figure at the greatest value divided by that at the smallest (below 1); default: at most 1 /
    /// 1.05.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<Between>,
}

/// The share of attempts that meet a time limit in the study's `[limits]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShareTest {
    /// The limit's path: `by-user.page.response.p99`.
    pub share_within: String,
    /// Which configurations; default: all.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub at: FactorValues,
    /// The range of the share, from 0 to 1.
    pub between: Between,
}

/// The value at which a figure is best: the highest throughput, or the lowest time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PeakTest {
    /// The figure.
    pub peak: String,
    /// The factor.
    pub over: String,
    /// Which configurations; default: all.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub at: FactorValues,
    /// The range of values that contains the peak.
    pub between: Between,
}

/// A range, both ends included: `[2, 5]`; `[2]` is 2 or more, `[0, 2]` at most 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Between {
    /// The lower end.
    pub low: f64,
    /// The upper end; `None` if there is none.
    pub high: Option<f64>,
}

impl Between {
    /// Whether it contains all of `low..=high`.
    pub fn holds(&self, low: f64, high: f64) -> bool {
        low >= self.low && self.high.is_none_or(|end| high <= end)
    }

    /// Whether it contains nothing of `low..=high`.
    pub fn misses(&self, low: f64, high: f64) -> bool {
        high < self.low || self.high.is_some_and(|end| low > end)
    }
}

impl<'de> Deserialize<'de> for Between {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // An infinite end in TOML becomes null when it passes through JSON.
        let ends = Vec::<Option<f64>>::deserialize(deserializer)?;
        let (low, high) = match ends[..] {
            [Some(low)] => (low, None),
            [Some(low), high] => (low, high.filter(|high| *high != f64::INFINITY)),
            _ => return Err(de::Error::custom("write a range as [2, 5], or [2] for 2 or more")),
        };
        if !low.is_finite() || high.is_some_and(|high| high.is_nan() || high < low) {
            return Err(de::Error::custom("a range goes from a number up to a greater one: [2, 5]"));
        }
        Ok(Self { low, high })
    }
}

impl Serialize for Between {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.high {
            Some(high) => [self.low, high].serialize(serializer),
            None => [self.low].serialize(serializer),
        }
    }
}

schema!(Between, "Between", |_| {
    schemars::json_schema!({
        "description": "A range, both ends included: [2, 5]; [2] is 2 or more.",
        "type": "array", "items": { "type": "number" }, "minItems": 1, "maxItems": 2
    })
});

impl<'de> Deserialize<'de> for ClaimTest {
    /// Selects the kind by the key that names the figure, so that errors are about that kind of test.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const KINDS: [&str; 5] = ["ratio", "rises", "falls", "share_within", "peak"];
        fn read<T: de::DeserializeOwned, E: de::Error>(table: serde_json::Value) -> Result<T, E> {
            T::deserialize(table).map_err(E::custom)
        }
        let table = serde_json::Map::deserialize(deserializer)?;
        let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| table.contains_key(*kind)).collect();
        let table = serde_json::Value::Object(table);
        match kinds[..] {
            ["ratio"] => read(table).map(Self::Ratio),
            ["rises"] => read(table).map(Self::Rises),
            ["falls"] => read(table).map(Self::Falls),
            ["share_within"] => read(table).map(Self::ShareWithin),
            ["peak"] => read(table).map(Self::Peak),
            [] => Err(de::Error::custom(format!("a test names its figure with one of {}", KINDS.join(", ")))),
            _ => Err(de::Error::custom(format!("a test has one kind, not {}; write two claims", kinds.join(" and ")))),
        }
    }
}

impl ClaimTest {
    /// The values by which a test selects configurations, with their keys.
    pub fn values(&self) -> Vec<(&'static str, &FactorValues)> {
        match self {
            Self::Ratio(test) => vec![("of", &test.of), ("to", &test.to)],
            Self::Rises(test) => vec![("at", &test.at)],
            Self::Falls(test) => vec![("at", &test.at)],
            Self::ShareWithin(test) => vec![("at", &test.at)],
            Self::Peak(test) => vec![("at", &test.at)],
        }
    }

    /// The factor over which a test compares, if it has one.
    pub fn over(&self) -> Option<&str> {
        match self {
            Self::Rises(test) => Some(&test.over),
            Self::Falls(test) => Some(&test.over),
            Self::Peak(test) => Some(&test.over),
            Self::Ratio(_) | Self::ShareWithin(_) => None,
        }
    }
}

impl Claim {
    /// Finds its problems beyond its types. The caller checks that its factors, figures and limits exist.
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        let mut say = |keys: &[&str], message: &str| problems.say(keys, message);
        if self.says.trim().is_empty() {
            say(&["says"], "it is empty; write the claim in one sentence");
        }
        if self.figures.trim().is_empty() {
            say(&["figures"], "write the figures as they were published");
        }
        match (&self.test, &self.not_testable) {
            (None, None) => say(&[], "it needs `test`, or `not_testable` with the reason"),
            (Some(_), Some(_)) => say(&["not_testable"], "it has a `test`; remove one of the two"),
            _ => {}
        }
        if self.at_least_scale.is_some_and(|scale| !(scale.is_finite() && scale > 0.0)) {
            say(&["at_least_scale"], "a scale is above 0, such as 0.1");
        }
        if self.at_least_trials == Some(0) {
            say(&["at_least_trials"], "0 repeats test nothing; use 2 or more");
        }
        match &self.test {
            Some(ClaimTest::Ratio(test)) => {
                for (key, values) in [("of", &test.of), ("to", &test.to)] {
                    if values.is_empty() {
                        say(&["test", key], "name at least one value, such as { workers = 16 }");
                    }
                }
                if test.of == test.to {
                    say(&["test", "to"], "`of` and `to` name the same configurations; their ratio is always 1");
                }
            }
            Some(ClaimTest::ShareWithin(ShareTest { between, .. }))
                if between.low < 0.0 || between.high.is_some_and(|high| high > 1.0) =>
            {
                say(&["test", "between"], "use a share from 0 to 1, such as [0.9, 1]");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::check::problems_of;

    #[derive(Debug, Deserialize)]
    struct File {
        published: Vec<Claim>,
    }

    fn read(test: &str) -> Result<Claim, String> {
        let text = format!("[[published]]\nsays = \"s\"\nfigures = \"f\"\n{test}\n");
        toml_edit::de::from_str::<File>(&text)
            .map(|mut file| file.published.remove(0))
            .map_err(|e| e.message().to_owned())
    }

    #[test]
    fn each_kind_of_test_is_read_and_written() {
        for test in [
            r#"test = { ratio = "load.documents", of = { batch = 10_000 }, to = { batch = 10 }, between = [2] }"#,
            r#"test = { rises = "load.documents", over = "tasks", between = [2, 5.5] }"#,
            r#"test = { falls = "load.documents", over = "phases.load.tasks", at = { store = "a" } }"#,
            r#"test = { share_within = "by-user.page.response.p99", between = [0.9, 1] }"#,
            r#"test = { peak = "load.documents", over = "tasks", between = [16, 64] }"#,
            r#"not_testable = "needs 50 nodes""#,
        ] {
            let claim = read(test).unwrap();
            assert_eq!(problems_of(|problems| claim.check(problems)), [], "{test}");
            let json = serde_json::to_value(&claim).unwrap();
            assert_eq!(serde_json::from_value::<Claim>(json.clone()).unwrap(), claim);
            #[cfg(feature = "schema")]
            {
                let schema = schemars::schema_for!(Claim).to_value();
                assert_eq!(storebench_schema::faults(&schema, &json), Vec::<String>::new());
            }
        }
    }

    #[test]
    fn a_range_may_be_open() {
        let between = |text: &str| {
            let claim = read(&format!("test = {{ peak = \"p.throughput\", over = \"w\", between = {text} }}"))?;
            match claim.test {
                Some(ClaimTest::Peak(test)) => Ok(test.between),
                _ => Err("no peak".to_owned()),
            }
        };
        assert_eq!(between("[2]"), Ok(Between { low: 2.0, high: None }));
        assert_eq!(between("[2, inf]"), Ok(Between { low: 2.0, high: None }));
        assert!(between("[5, 2]").unwrap_err().contains("up to a greater one"));
        assert!(between("[]").unwrap_err().contains("write a range as"));
        let open = Between { low: 2.0, high: None };
        assert!(open.holds(2.0, 1e9) && open.misses(1.0, 1.9) && !open.holds(1.9, 3.0) && !open.misses(1.9, 3.0));
        let closed = Between { low: 2.0, high: Some(3.0) };
        assert!(closed.misses(3.1, 4.0) && closed.holds(2.0, 3.0));
    }

    #[test]
    fn a_wrong_test_is_told_what_it_lacks() {
        let wrong = |test: &str| read(test).unwrap_err();
        assert!(wrong("test = { over = \"w\" }").contains("one of ratio, rises, falls, share_within, peak"));
        assert!(wrong("test = { rises = \"a\", falls = \"b\", over = \"w\" }").contains("rises and falls"));
        assert!(wrong("test = { peak = \"a\", between = [1] }").contains("missing field `over`"));
        assert!(wrong("test = { peak = \"a\", over = \"w\", betwen = [1] }").contains("unknown field `betwen`"));
        assert!(wrong("tests = 1").contains("unknown field `tests`"));
    }

    #[test]
    fn a_claim_that_cannot_be_judged_says_why() {
        let said = |text: &str| {
            let problems = problems_of(|problems| read(text).unwrap().check(problems));
            problems.iter().map(|p| format!("{}: {}", p.path.join("."), p.message)).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(said(""), ": it needs `test`, or `not_testable` with the reason");
        let ratio = r#"test = { ratio = "a.throughput", of = { w = 1 }, to = { w = 1 }, between = [2] }"#;
        assert!(said(ratio).contains("test.to: `of` and `to` name the same configurations"));
        assert!(said(&ratio.replace("to = { w = 1 }", "to = {}")).contains("test.to: name at least one value"));
        assert!(said(&format!("{ratio}\nnot_testable = \"x\"")).contains("remove one of the two"));
        assert!(said("not_testable = \"x\"\nat_least_scale = 0.0").contains("above 0"));
        assert!(said("not_testable = \"x\"\nat_least_trials = 0").contains("2 or more"));
        assert!(said("test = { share_within = \"a\", between = [90, 100] }").contains("from 0 to 1"));
    }
}
