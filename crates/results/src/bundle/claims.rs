//! What a result says in shape, as claims that another run of its study can test. They are of the same kinds as published
//! claims, and are judged by the same judge. A claim is made only if the result itself supports it.

use serde_json::Value;
use storebench_study::workload::{
    Between, Claim, ClaimTest, FactorValues, FallsTest, PeakTest, RatioTest, RisesTest, short_name, shown_value,
};

use crate::RunResult;
use crate::claims::{ClaimVerdict, estimate, judge_claims};
use crate::configurations::varied;
use crate::human::number;
use crate::side_by_side::headline;
use crate::stats::Estimate;
use crate::sweep::PRACTICAL;
use crate::validity::Severity;

/// A ratio is the same in shape if its interval lies within that of the bundle, widened by this factor at both ends.
/// Processors and disks differ from each other by more than runs on one machine do.
const RATIO_WITHIN: f64 = 1.5;

/// The claims of a result by the figure that its configurations are compared by: their order, how far the best is ahead of
/// each other one, and how the figure changes over each numeric factor. Empty if configurations did different work.
pub(super) fn derived(result: &RunResult) -> Vec<Claim> {
    let unlike = result.checks.iter().any(|of| of.check == "work-differs" && of.severity >= Severity::Caution);
    let Some((figure, less)) = headline(result).filter(|_| !unlike) else { return Vec::new() };
    let about = About { result, figure, less };
    let stores = about.values("store");
    let mut claims = about.order("store", &stores);
    let ran = result.configurations.iter().filter(|of| !of.control && of.trials > 0);
    for path in varied(ran.map(|of| &of.values)) {
        let values = about.values(path);
        let numbers: Option<Vec<f64>> = values.iter().map(Value::as_f64).collect();
        match numbers {
            Some(mut numbers) => {
                numbers.sort_by(f64::total_cmp);
                claims.extend(stores.iter().flat_map(|store| about.curve(path, &numbers, store)));
            }
            None => claims.extend(about.order(path, &values)),
        }
    }
    claims
}

/// The result and the figure that claims are about.
struct About<'a> {
    result: &'a RunResult,
    figure: String,
    less: bool,
}

impl About<'_> {
    /// The values of a factor, or the stores, that completed a trial, in the order of the study.
    fn values(&self, key: &str) -> Vec<Value> {
        let mut values = Vec::new();
        for of in self.result.configurations.iter().filter(|of| !of.control && of.trials > 0) {
            let value = if key == "store" { Some(Value::from(of.store.as_str())) } else { of.values.get(key).cloned() };
            values.extend(value.filter(|value| !values.contains(value)));
        }
        values
    }

    /// What is found for a claim, if the result supports it; the claim then states it.
    fn supported(&self, says: String, test: ClaimTest) -> Option<Claim> {
        let claim = Claim { says, test: Some(test), ..Claim::default() };
        let judged = judge_claims(std::slice::from_ref(&claim), self.result).pop()?;
        let found = judged.found.filter(|_| judged.verdict == ClaimVerdict::Matches)?;
        Some(Claim { figures: estimate(&found), ..claim })
    }

    fn found(&self, test: ClaimTest) -> Option<Estimate> {
        let claim = Claim { test: Some(test), ..Claim::default() };
        judge_claims(&[claim], self.result).pop()?.found
    }

    fn ratio(&self, of: FactorValues, to: FactorValues, low: f64, high: Option<f64>) -> ClaimTest {
        ClaimTest::Ratio(RatioTest { ratio: self.figure.clone(), of, to, between: Between { low, high } })
    }

    /// That a ratio is about as large as it was found.
    fn about_as_large(&self, says: &str, of: FactorValues, to: FactorValues) -> Option<Claim> {
        let found = self.found(self.ratio(of.clone(), to.clone(), 0.0, None))?;
        let (low, high) = (found.low? / RATIO_WITHIN, found.high? * RATIO_WITHIN);
        self.supported(format!("{says} {}", number(found.value)), self.ratio(of, to, low, Some(high)))
    }

    /// The order of the values by the figure, the highest first, and how far the best is from each other one.
    fn order(&self, key: &str, values: &[Value]) -> Vec<Claim> {
        let at = |value: &Value| FactorValues::from([(key.to_owned(), value.clone())]);
        let Some((first, others)) = values.split_first().filter(|(_, others)| !others.is_empty()) else {
            return Vec::new();
        };
        let mut ranked = vec![(1.0, first)];
        for other in others {
            let found = self.found(self.ratio(at(other), at(first), 0.0, None));
            ranked.extend(found.map(|found| (found.value, other)));
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let name = |value: &Value| format!("{} {}", short_name(key), shown_value(value));
        let mut claims: Vec<Claim> = ranked
            .windows(2)
            .filter_map(|pair| {
                let (higher, lower) = (pair[0].1, pair[1].1);
                let says = format!("{} is higher with {} than with {}", self.figure, name(higher), name(lower));
                self.supported(says, self.ratio(at(higher), at(lower), 1.0, None))
            })
            .collect();
        if self.less {
            ranked.reverse();
        }
        let best = ranked[0].1;
        claims.extend(ranked[1..].iter().filter_map(|(_, other)| {
            let says = format!("{} with {} over that with {} is about", self.figure, name(other), name(best));
            self.about_as_large(&says, at(other), at(best))
        }));
        claims
    }

    /// How the figure changes over ascending values of a factor on one store.
    fn curve(&self, path: &str, values: &[f64], store: &Value) -> Vec<Claim> {
        let [first, .., last] = values else { return Vec::new() };
        let at = FactorValues::from([("store".to_owned(), store.clone())]);
        let with = |value: f64| {
            let mut with = at.clone();
            with.insert(path.to_owned(), Value::from(value));
            with
        };
        let (figure, over, none) = (&self.figure, path.to_owned(), None);
        let (name, on) = (short_name(path), format!("on {}", shown_value(store)));
        let rises = |up_to: Option<f64>| {
            ClaimTest::Rises(RisesTest {
                rises: figure.clone(),
                over: over.clone(),
                up_to,
                at: at.clone(),
                between: None,
            })
        };
        let falls = FallsTest { falls: figure.clone(), over: over.clone(), up_to: none, at: at.clone(), between: None };
        let growth = |claim: Claim| {
            let says = format!("{figure} at {name} {} over that at {} {on} is about", number(*last), number(*first));
            [Some(claim), self.about_as_large(&says, with(*last), with(*first))].into_iter().flatten().collect()
        };
        let trend = self
            .supported(format!("{figure} rises with {name} {on}"), rises(none))
            .or_else(|| self.supported(format!("{figure} falls with {name} {on}"), ClaimTest::Falls(falls)));
        let mut claims: Vec<Claim> = match trend.map(growth) {
            Some(claims) => claims,
            None => {
                let flat = self.ratio(with(*last), with(*first), 1.0 / (1.0 + PRACTICAL), Some(1.0 + PRACTICAL));
                let says = format!("{figure} at {name} {} is that at {} {on}", number(*last), number(*first));
                self.best(path, values, &at, &on).or_else(|| self.supported(says, flat)).into_iter().collect()
            }
        };
        if let Some(spot) = self.sweet_spot(path, store).filter(|spot| spot < last) {
            let says = format!("more {name} than {} does not raise {figure} {on}", number(spot));
            claims.extend(self.supported(says, self.ratio(with(*last), with(spot), 0.0, Some(1.0 + PRACTICAL))));
            let says = format!("{figure} rises with {name} up to {} {on}", number(spot));
            claims.extend(self.supported(says, rises(Some(spot))).filter(|_| spot > *first));
        }
        claims
    }

    /// The value at which the figure is best: those that may be it, and their neighbours.
    fn best(&self, path: &str, values: &[f64], at: &FactorValues, on: &str) -> Option<Claim> {
        let test = |between| {
            let (peak, over) = (self.figure.clone(), path.to_owned());
            ClaimTest::Peak(PeakTest { peak, over, at: at.clone(), between })
        };
        // Any range that some values are in, and some are not, finds them.
        let found = self.found(test(Between { low: *values.first()?, high: values.first().copied() }))?;
        let place = |end: Option<f64>| values.iter().position(|value| Some(*value) == end);
        let (from, to) = (place(found.low)?.saturating_sub(1), (place(found.high)? + 1).min(values.len() - 1));
        let (low, high) = (values[from], values[to]);
        let says = format!("{} is best at {} {} to {} {on}", self.figure, short_name(path), number(low), number(high));
        self.supported(says, test(Between { low, high: Some(high) }))
    }

    /// The sweet spot of a factor on a store, if it is the same at all values of the other factors.
    fn sweet_spot(&self, path: &str, store: &Value) -> Option<f64> {
        let ours =
            |of: &&crate::FactorSweep| of.factor == path && *store == of.store.as_str() && of.figure == self.figure;
        let mut sweeps = self.result.sweeps.iter().filter(ours);
        let spot = sweeps.next()?.sweep.sweet_spot?;
        sweeps.all(|of| of.sweep.sweet_spot == Some(spot)).then_some(spot)
    }
}
