//! Limits that a phase has to meet, and the search for the highest rate at which it does.

use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Problems, no_such};
use super::phases::Speed;
use super::study::Study;
use crate::units::{PerSecond, Span};
use crate::written::written_as;

/// The maximum of a time or of a share of errors. Written `"200ms"`, `0.001` or `"0.1%"`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(untagged)]
pub enum Limit {
    /// A share, 0 to 1.
    Share(f64),
    /// A time.
    Time(Span),
    /// A share in percent.
    Percent(Percent),
}

written_as!(
    Limit,
    "a time such as \"200ms\", or a share such as 0.001 or \"0.1%\"",
    number = |share| Ok::<_, String>(Limit::Share(share)),
    text = |text: &str| {
        if text.trim_end().ends_with('%') {
            return Percent::try_from(text.to_owned()).map(Limit::Percent);
        }
        let wrong = |_| format!("invalid limit `{text}`; write a time as \"200ms\", a share as 0.001 or \"0.1%\"");
        text.parse().map(Limit::Time).map_err(wrong)
    },
);

/// A share written in percent: `"0.1%"`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Percent(#[cfg_attr(feature = "schema", schemars(with = "String"))] f64);

impl Percent {
    /// As a share of one.
    pub fn share(self) -> f64 {
        self.0
    }
}

impl TryFrom<String> for Percent {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').and_then(|digits| digits.trim().parse().ok());
        number
            .map(|percent: f64| Self(percent / 100.0))
            .ok_or(format!("invalid share `{text}`; write 0.001 or \"0.1%\""))
    }
}

impl From<Percent> for String {
    fn from(percent: Percent) -> Self {
        format!("{}%", percent.0 * 100.0)
    }
}

/// What a limit applies to, from its path `PHASE[.OP].response.p99`, `PHASE[.OP].service.max`, `PHASE[.OP].errors`.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitPath<'a> {
    /// The phase.
    pub phase: &'a str,
    /// One operation of its mix; `None` for all together.
    pub op: Option<&'a str>,
    /// What is limited.
    pub on: LimitOn,
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LimitOn {
    /// This quantile (0 to 1) of the response time, over all attempts.
    Response(f64),
    /// This quantile (0 to 1) of the service time.
    Service(f64),
    /// The share of attempts that failed or were not answered.
    Errors,
}

impl<'a> LimitPath<'a> {
    /// Parses a path; `None` if it is invalid.
    pub fn parse(path: &'a str) -> Option<Self> {
        let (place, on) = match path.strip_suffix(".errors") {
            Some(place) => (place, LimitOn::Errors),
            None => {
                let response = path.split_once(".response.").map(|(place, q)| (place, q, true));
                let (place, name, response) =
                    response.or_else(|| path.split_once(".service.").map(|(place, q)| (place, q, false)))?;
                let quantile = quantile(name)?;
                (place, if response { LimitOn::Response(quantile) } else { LimitOn::Service(quantile) })
            }
        };
        let (phase, op) = place.split_once('.').map_or((place, None), |(phase, op)| (phase, Some(op)));
        (!phase.is_empty() && op != Some("")).then_some(Self { phase, op, on })
    }
}

/// `p99.9` as 0.999, `max` as 1.
fn quantile(name: &str) -> Option<f64> {
    if name == "max" {
        return Some(1.0);
    }
    let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
    // Parse the decimal digits, because the quotient may not be the nearest quantile.
    (percent > 0.0 && percent <= 100.0).then(|| format!("{:.9}", percent / 100.0).parse().ok())?
}

impl Limit {
    /// A time in ns, a share as it is.
    pub fn value(self) -> f64 {
        match self {
            Self::Share(share) => share,
            Self::Percent(percent) => percent.0,
            Self::Time(span) => span.ns() as f64,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(span) => span.fmt(f),
            share => write!(f, "{} %", share.value() * 100.0),
        }
    }
}

/// Searches for the highest rate at which a phase meets all its limits: in each trial the phase runs at one rate after
/// another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RateSearch {
    /// The phase whose `rate` is searched.
    pub phase: String,
    /// The first rate to try, in operations per second.
    #[serde(deserialize_with = "PerSecond::read")]
    #[cfg_attr(feature = "schema", schemars(with = "PerSecond"))]
    pub from: f64,
    /// The highest rate to try.
    #[serde(deserialize_with = "PerSecond::read")]
    #[cfg_attr(feature = "schema", schemars(with = "PerSecond"))]
    pub to: f64,
    /// How close the ends of the bracket must get, as a share of the result: 0.001 to 1; default 0.05.
    #[serde(default = "default_within")]
    pub within: f64,
    /// Both ends of the bracket are tried again until a majority of `2 × confirm + 1` probes agrees; default 2, at most 100.
    #[serde(default = "default_confirm")]
    pub confirm: u32,
    /// How many times the phase may run in one trial; default 40.
    #[serde(default = "default_most_probes")]
    pub most_probes: u32,
    /// How many times as long the rate must be held at the end, in a phase that the search did not choose by; default 5. 0
    /// leaves that out.
    #[serde(default = "default_hold")]
    pub hold: u32,
    /// How long to wait between two rates for the store to become idle, at most; default 5 s.
    #[serde(default = "default_rest")]
    pub rest: Span,
}

fn default_within() -> f64 {
    0.05
}

fn default_confirm() -> u32 {
    2
}

fn default_most_probes() -> u32 {
    40
}

fn default_hold() -> u32 {
    5
}

fn default_rest() -> Span {
    Span(std::time::Duration::from_secs(5))
}

/// Finds the problems of limits and search.
pub(super) fn check(study: &Study, problems: &mut Problems<'_>) {
    let phases: Vec<&str> = study.phases.iter().map(|p| p.name.as_str()).collect();
    for (path, limit) in &study.limits {
        let mut say = |message: String| problems.say(&["limits", path], message);
        let Some(of) = LimitPath::parse(path) else {
            say("write PHASE.response.p99, PHASE.OPERATION.service.p99.9, PHASE.response.max or PHASE.errors".into());
            continue;
        };
        let Some(phase) = study.phases.iter().find(|p| p.name == of.phase) else {
            say(no_such("phase", of.phase, phases.iter().copied()));
            continue;
        };
        let copy = phase.copy.map(|direction| direction.op_name());
        let traced = phase.trace.iter().flat_map(|_| ["read", "exists", "insert", "upsert", "replace", "delete"]);
        let named = phase.mix.keys().chain(&phase.load).map(String::as_str);
        let ops: Vec<&str> = named.chain(copy).chain(traced).collect();
        if let Some(op) = of.op.filter(|op| !ops.contains(op)) {
            say(no_such("operation of this phase", op, ops.iter().copied()));
        }
        let searched = study.search.as_ref().is_some_and(|search| search.phase == phase.name);
        match (of.on, limit) {
            (LimitOn::Response(_), _) if phase.trace.is_some() && phase.speed != Some(Speed::Max) => {}
            (LimitOn::Response(_), _) if phase.rate.is_none() && !searched => {
                say("a closed loop has no response time; give the phase a `rate`, or limit `service`".into());
            }
            (LimitOn::Errors, Limit::Time(_)) => say("expected a share of errors, such as 0.001 or \"0.1%\"".into()),
            (LimitOn::Errors, share) if !(0.0..=1.0).contains(&share.value()) => {
                say("use a share from 0 to 1, or 0% to 100%".into());
            }
            (LimitOn::Response(_) | LimitOn::Service(_), Limit::Share(_) | Limit::Percent(_)) => {
                say("expected a time with its unit, such as \"200ms\"".into());
            }
            _ => {}
        }
    }
    let Some(search) = &study.search else { return };
    let mut say = |key: &str, message: String| problems.say(&["search", key], message);
    match study.phases.iter().find(|p| p.name == search.phase) {
        None => say("phase", no_such("phase", &search.phase, phases.iter().copied())),
        Some(phase) if phase.loads() || phase.copy.is_some() || phase.warm_up => {
            say("phase", "a load, a copy or a warm-up has no rate to search for; name a measured phase".into());
        }
        Some(phase) if phase.rate.is_some() => {
            say("phase", format!("the search sets the rate of `{}`; remove `rate` from it", phase.name));
        }
        Some(phase) if phase.duration.is_none() => {
            say("phase", format!("`{}` needs a `duration`, for which each rate is tried", phase.name));
        }
        Some(phase) => {
            let limited = |path: &String| LimitPath::parse(path).is_some_and(|of| of.phase == phase.name);
            if !study.limits.keys().any(limited) {
                let message =
                    format!("`{0}` has no limit to meet; add [limits] \"{0}.response.p99\" = \"200ms\"", phase.name);
                say("phase", message);
            }
        }
    }
    if !(search.from.is_finite() && search.from > 0.0) {
        say("from", format!("a rate of {} never sends anything; use more than 0", search.from));
    }
    if !(search.to.is_finite() && search.to >= search.from) {
        say("to", format!("{} is below `from`; use a higher rate", search.to));
    }
    if !(0.001..=1.0).contains(&search.within) {
        say("within", format!("invalid share {} of the rate; use 0.001 to 1, such as 0.05", search.within));
    }
    if search.confirm > 100 {
        say("confirm", format!("{} confirming probes; use 0 to 100, such as 2", search.confirm));
    }
    if search.hold > 1_000 {
        say("hold", format!("{} times as long; use 0 to 1,000, such as 5", search.hold));
    }
    if search.most_probes == 0 {
        say("most_probes", "0 probes find nothing; use 20 or more".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        let path = LimitPath::parse("by-user.page.response.p99.9").unwrap();
        assert_eq!(path, LimitPath { phase: "by-user", op: Some("page"), on: LimitOn::Response(0.999) });
        assert_eq!(LimitPath::parse("a.service.max").unwrap().on, LimitOn::Service(1.0));
        assert_eq!(LimitPath::parse("a.errors").unwrap(), LimitPath { phase: "a", op: None, on: LimitOn::Errors });
        for wrong in ["a", "a.p99", "a.response", "a.response.99", "a.response.p0", "a.response.p101", ".errors", ""] {
            assert_eq!(LimitPath::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn limits_are_times_or_shares() {
        let read = |text: &str| serde_json::from_str::<Limit>(text).map(Limit::value);
        assert_eq!(read("\"200ms\"").unwrap().round(), 2e8);
        assert_eq!(read("0.001").unwrap(), 0.001);
        assert!((read("\"0.1%\"").unwrap() - 0.001).abs() < 1e-12);
        assert!(read("\"soon\"").is_err());
    }
}
