//! Whether a result reproduces: each claim of a bundle, tested by another run of its study.

use std::fmt;

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};
use storebench_study::workload::{Claim, ClaimTest, Study};

use super::claims::derived;
use crate::answer::answer;
use crate::claims::{ClaimResult, ClaimVerdict, judge_claims, side_of};
use crate::comparability::differences as differences_of_work;
use crate::configurations::configurations_of;
use crate::exit::{FINE, INVALID, SPOILED, UNDECIDED};
use crate::human::{count, plural};
use crate::own_settings::{differing, told};
use crate::side_by_side::figures_of_answer;
use crate::stats::Estimate;
use crate::validity::Severity;
use crate::{RunResult, TrialResult};

/// The format of the output of `rerun --json`.
pub const RERUN_FORMAT: &str = "storebench-rerun/1";

/// A result and its repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reproduction {
    /// Always `storebench-rerun/1`.
    pub format: String,
    /// The answer, in one or two sentences.
    pub answer: String,
    /// The verdict.
    pub verdict: ReproductionVerdict,
    /// The title of the study.
    pub study: String,
    /// When the run of the bundle began (RFC 3339, UTC).
    pub bundle_began: String,
    /// When the run here began.
    pub here_began: String,
    /// The public key that signed the bundle. Null if it is not signed, or the build cannot check signatures.
    pub signed_by: Option<String>,
    /// Each claim of the bundle: those that were published first.
    pub claims: Vec<RepeatedClaim>,
    /// What differs between the two: machine, versions, settings.
    pub differences: Vec<Difference>,
    /// The figures of the answer, beside each other. They are no claims: other machines have others.
    pub figures: Vec<FigurePair>,
}

/// Whether a result reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReproductionVerdict {
    /// Every claim that could be tested matches.
    Reproduced,
    /// A claim differs.
    Differs,
    /// The measurement here is invalid.
    Invalid,
    /// No claim could be tested.
    Undecided,
}

/// A claim of a bundle, tested here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RepeatedClaim {
    /// The claim.
    pub says: String,
    /// Whether it was published, and the study has it. The others are what the bundle's own result says.
    pub published: bool,
    /// What the claim predicts for the figures of a run. Empty without a test.
    pub expected: String,
    /// Whether the claim repeats.
    pub verdict: Repetition,
    /// How the claim compares with the bundle's measurement. If it differs there, it repeats if it differs here in the same
    /// direction.
    pub in_bundle: ClaimVerdict,
    /// What the bundle found, as `found` of the claims of a run.
    pub bundle: Option<Estimate>,
    /// What was found here.
    pub here: Option<Estimate>,
    /// Why the verdict is what it is.
    pub why: String,
}

/// Whether a claim repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Repetition {
    /// Both runs say the same.
    Matches,
    /// The runs say the opposite.
    Differs,
    /// One of them decides nothing.
    NotTestable,
}

impl fmt::Display for Repetition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Matches => "matches in shape",
            Self::Differs => "differs",
            Self::NotTestable => "not testable",
        })
    }
}

/// Something that differs between the run of the bundle and the run here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// What.
    pub what: String,
    /// In the bundle.
    pub bundle: String,
    /// Here.
    pub here: String,
}

/// A figure of both runs, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigurePair {
    /// Phase and figure.
    pub figure: String,
    /// The configuration.
    pub configuration: String,
    /// In the bundle. Null if it has none.
    pub bundle: Option<String>,
    /// Here. Null likewise.
    pub here: Option<String>,
}

impl Reproduction {
    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        match self.verdict {
            ReproductionVerdict::Reproduced => FINE,
            ReproductionVerdict::Differs => SPOILED,
            ReproductionVerdict::Invalid => INVALID,
            ReproductionVerdict::Undecided => UNDECIDED,
        }
    }
}

/// Tests the claims of a bundle's result by another run of its study.
pub fn reproduction(bundle: &RunResult, here: &RunResult, signed_by: Option<String>) -> Reproduction {
    // A study that this version cannot read has no claims that it could judge.
    let published =
        serde_json::from_value::<Study>(bundle.run.study.clone()).map_or_else(|_| Vec::new(), |of| of.published);
    let published_claims = published.len();
    let claims = [published, derived(bundle)].concat();
    let other_work = other_work(bundle, here);
    let judged = judge_claims(&claims, bundle).into_iter().zip(judge_claims(&claims, here));
    let of = |(nth, (claim, (a, b))): (usize, (&Claim, _))| {
        let repeated = repeated(a, b, claim.test.as_ref(), nth < published_claims);
        match &other_work {
            Some(why) => RepeatedClaim { verdict: Repetition::NotTestable, why: why.clone(), ..repeated },
            None => repeated,
        }
    };
    let claims: Vec<RepeatedClaim> = claims.iter().zip(judged).enumerate().map(of).collect();
    let (verdict, answer) = verdict(&claims, here);
    Reproduction {
        format: RERUN_FORMAT.to_owned(),
        answer,
        verdict,
        study: bundle.run.title.clone(),
        bundle_began: bundle.run.began.clone(),
        here_began: here.run.began.clone(),
        signed_by,
        claims,
        differences: differences(bundle, here),
        figures: figures(bundle, here),
    }
}

/// Why no claim can be tested, if the run here did other work or guaranteed something else.
fn other_work(bundle: &RunResult, here: &RunResult) -> Option<String> {
    if bundle.run.frozen != here.run.frozen {
        return Some(
            "the documents here are not those of the bundle: its input files or its version differ".to_owned(),
        );
    }
    let (a, b) = (configurations_of(&bundle.plan, &bundle.trials), configurations_of(&here.plan, &here.trials));
    a.iter().find_map(|a| {
        let b = b.iter().find(|b| b.name == a.name)?;
        let first = differences_of_work(&a.trials, &b.trials).first()?.place_and_text();
        Some(format!("{} did not do the same here as in the bundle: {first}", a.name))
    })
}

fn repeated(bundle: ClaimResult, here: ClaimResult, test: Option<&ClaimTest>, published: bool) -> RepeatedClaim {
    let decided = |of: ClaimVerdict| matches!(of, ClaimVerdict::Matches | ClaimVerdict::Differs);
    let side = |of: &ClaimResult| Some(side_of(test?, of.found.as_ref()?));
    let (verdict, why) = match (decided(bundle.verdict), decided(here.verdict)) {
        (false, _) => (Repetition::NotTestable, format!("{} in the bundle: {}", bundle.verdict, bundle.why)),
        (true, false) => (Repetition::NotTestable, here.why),
        (true, true) if bundle.verdict != here.verdict => (Repetition::Differs, here.why),
        (true, true) if side(&bundle) == side(&here) => (Repetition::Matches, here.why),
        (true, true) => (Repetition::Differs, "both runs differ from it, in other directions".to_owned()),
    };
    RepeatedClaim {
        says: here.says,
        published,
        expected: here.expected,
        verdict,
        in_bundle: bundle.verdict,
        bundle: bundle.found,
        here: here.found,
        why,
    }
}

/// The verdict and the answer.
pub(super) fn verdict(claims: &[RepeatedClaim], here: &RunResult) -> (ReproductionVerdict, String) {
    let of = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count() as u64;
    let (same, other, open) = (of(Repetition::Matches), of(Repetition::Differs), of(Repetition::NotTestable));
    let rest = match open {
        0 => String::new(),
        n => format!(" {} could not be tested.", plural(n, "more claim")),
    };
    if here.run.interrupted || here.run.ended.is_none() {
        let answer = "Whether the result reproduces is unknown: the run here did not end.".to_owned();
        return (ReproductionVerdict::Invalid, answer);
    }
    let trust = answer(here);
    if trust.severity == Severity::Invalid {
        let answer =
            format!("Whether the result reproduces is unknown: the run here is no valid measurement. {}", trust.trust);
        return (ReproductionVerdict::Invalid, answer);
    }
    let tested = same + other;
    match (same, other) {
        (0, 0) => {
            let why = if claims.is_empty() {
                "the bundle makes no claim about a shape; it takes several configurations, and several rounds"
                    .to_owned()
            } else {
                let why = match claims.iter().all(|claim| claim.why == claims[0].why) {
                    true => format!(": {}", claims[0].why),
                    false => "; more rounds may decide them".to_owned(),
                };
                format!("none of its {} could be tested{why}", plural(open, "claim"))
            };
            (ReproductionVerdict::Undecided, format!("Whether the result reproduces is undecided: {why}."))
        }
        (1, 0) => (
            ReproductionVerdict::Reproduced,
            format!("The result reproduced here: the one claim that could be tested matches in shape.{rest}"),
        ),
        (_, 0) => (
            ReproductionVerdict::Reproduced,
            format!(
                "The result reproduced here: all {} claims that could be tested match in shape.{rest}",
                count(same)
            ),
        ),
        (_, _) => (
            ReproductionVerdict::Differs,
            format!(
                "The result did not reproduce here: of {} that could be tested, {} {}.{rest}",
                plural(tested, "claim"),
                count(other),
                if other == 1 { "differs" } else { "differ" }
            ),
        ),
    }
}

/// What differs between two runs of a study that may explain other figures.
fn differences<'a>(bundle: &'a RunResult, here: &'a RunResult) -> Vec<Difference> {
    let facts = |run: &RunResult| {
        let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let disks: IndexSet<String> = run.environment.disks.iter().map(|disk| or(&disk.filesystem)).collect();
        let mut facts: IndexMap<String, String> =
            run.environment.facts().into_iter().map(|(what, value)| (what.to_owned(), value)).collect();
        facts.insert("architecture".to_owned(), run.environment.architecture.clone());
        facts.insert("operating system".to_owned(), or(&run.environment.os));
        let disks: Vec<String> = disks.into_iter().collect();
        facts.insert("file systems".to_owned(), if disks.is_empty() { "none".to_owned() } else { disks.join(", ") });
        facts.insert("Storebench".to_owned(), run.run.storebench_version.clone());
        facts.insert("processes that sent".to_owned(), count(run.run.parts.as_ref().map_or(1, |of| u64::from(of.of))));
        for trial in &run.trials {
            facts.entry(format!("version of {}", trial.store)).or_insert_with(|| trial.version.clone());
        }
        facts
    };
    let (of_bundle, of_here) = (facts(bundle), facts(here));
    let mut all: Vec<Difference> = Vec::new();
    for (what, a) in &of_bundle {
        let b = of_here.get(what).map_or("not measured", String::as_str);
        if a != b {
            all.push(Difference { what: what.clone(), bundle: a.clone(), here: b.to_owned() });
        }
    }
    let stores: IndexSet<&str> = bundle.trials.iter().map(|trial| trial.store.as_str()).collect();
    for store in stores {
        let of_store = |run: &'a RunResult| {
            run.trials.iter().filter(|trial| trial.store == store).collect::<Vec<&'a TrialResult>>()
        };
        let (Some((a, x)), Some((b, y))) = (told(&of_store(bundle)), told(&of_store(here))) else { continue };
        if a.scheme != b.scheme {
            let what = format!("kind of {store}");
            all.push(Difference { what, bundle: a.scheme.clone(), here: b.scheme.clone() });
            continue;
        }
        let value = |of: &crate::SettingsResult, name: &str| {
            of.all.get(name).map_or_else(|| "not set".to_owned(), |setting| setting.value.clone())
        };
        all.extend(differing(x, y).into_iter().map(|name| {
            let what = format!("setting of {store}: {name}");
            Difference { what, bundle: value(x, name), here: value(y, name) }
        }));
    }
    all
}

fn figures(bundle: &RunResult, here: &RunResult) -> Vec<FigurePair> {
    let rows = |run: &RunResult| -> IndexMap<(String, String), String> {
        let of_panel = |panel: crate::side_by_side::Panel| {
            panel.rows.into_iter().map(move |row| ((panel.title.clone(), row.name), row.text)).collect::<Vec<_>>()
        };
        figures_of_answer(run).into_iter().flat_map(of_panel).collect()
    };
    let (mut a, mut b) = (rows(bundle), rows(here));
    let keys: IndexSet<(String, String)> = a.keys().chain(b.keys()).cloned().collect();
    let pair = |key: (String, String)| FigurePair {
        bundle: a.shift_remove(&key),
        here: b.shift_remove(&key),
        figure: key.0,
        configuration: key.1,
    };
    keys.into_iter().map(pair).collect()
}
