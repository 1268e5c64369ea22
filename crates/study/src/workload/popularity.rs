//! Which keys are requested more often than others.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::written::{schema, written_as};

/// The distribution of operations over keys. Written as one text: `uniform`, `zipf:0.99`,
/// `hotspot:10%:90%`, `latest:0.99`, `sequential`, `working-set:20%:80%`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Popularity {
    /// Every key equally often.
    #[default]
    Uniform,
    /// Zipf's law with this exponent (0 to 2), with ranks scattered over the key space by a seeded permutation.
    Zipf(f64),
    /// The first `keys` share of the key space (contiguous) gets the `operations` share of the operations, uniformly.
    Hotspot {
        /// Share of the keys (0 to 1).
        keys: f64,
        /// Share of the operations (0 to 1).
        operations: f64,
    },
    /// Zipf by age: the newest key is the most popular.
    Latest(f64),
    /// One key after the other, from the worker's first to its last, then again.
    Sequential,
    /// A scattered `keys` share of the key space gets the `operations` share of the operations.
    WorkingSet {
        /// Share of the keys (0 to 1).
        keys: f64,
        /// Share of the operations (0 to 1).
        operations: f64,
    },
}

const REMEDY: &str = "use uniform, zipf:0.99, hotspot:10%:90%, latest:0.99, sequential or working-set:20%:80%";

/// Reads `20%` or `0.2`.
fn share(text: &str) -> Option<f64> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (0.0..=1.0).contains(&value).then_some(value)
}

impl FromStr for Popularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let args: Vec<&str> = parts.collect();
        let exponent = |default: f64| match args[..] {
            [] => Ok(default),
            [one] => one
                .parse::<f64>()
                .ok()
                .filter(|s| (0.0..=2.0).contains(s))
                .ok_or_else(|| format!("the exponent `{one}` of `{name}` is not within 0 to 2")),
            _ => Err(format!("`{name}` takes one exponent; {REMEDY}")),
        };
        let shares = |default: (f64, f64)| match args[..] {
            [] => Ok(default),
            [keys, operations] => match (share(keys), share(operations)) {
                (Some(k), Some(o)) if k > 0.0 => Ok((k, o)),
                _ => Err(format!("`{text}`: shares are above 0 % and at most 100 %, such as {name}:20%:80%")),
            },
            _ => Err(format!("`{name}` takes two shares, of keys and of operations, such as {name}:20%:80%")),
        };
        match name {
            "uniform" | "sequential" if !args.is_empty() => Err(format!("`{name}` takes no value; {REMEDY}")),
            "uniform" => Ok(Self::Uniform),
            "sequential" => Ok(Self::Sequential),
            "zipf" => exponent(0.99).map(Self::Zipf),
            "latest" => exponent(0.99).map(Self::Latest),
            "hotspot" => shares((0.1, 0.9)).map(|(keys, operations)| Self::Hotspot { keys, operations }),
            "working-set" => shares((0.2, 0.8)).map(|(keys, operations)| Self::WorkingSet { keys, operations }),
            other => Err(format!("invalid popularity `{other}`; {REMEDY}")),
        }
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{}%", (share * 1e8).round() / 1e6);
        match self {
            Self::Uniform => write!(f, "uniform"),
            Self::Sequential => write!(f, "sequential"),
            Self::Zipf(s) => write!(f, "zipf:{s}"),
            Self::Latest(s) => write!(f, "latest:{s}"),
            Self::Hotspot { keys, operations } => write!(f, "hotspot:{}:{}", percent(*keys), percent(*operations)),
            Self::WorkingSet { keys, operations } => {
                write!(f, "working-set:{}:{}", percent(*keys), percent(*operations))
            }
        }
    }
}

written_as!(Popularity, "a popularity such as \"zipf:0.99\"", text = str::parse::<Popularity>);

impl Serialize for Popularity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

schema!(Popularity, "Popularity", |_| {
    schemars::json_schema!({
        "type": "string",
        "pattern": "^(uniform|sequential|(zipf|latest)(:[0-9.]+)?|(hotspot|working-set)(:[0-9.]+%?:[0-9.]+%?)?)$",
        "description": REMEDY
    })
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_reads_and_prints() {
        for text in ["uniform", "zipf:0.99", "hotspot:10%:90%", "latest:1", "sequential", "working-set:20%:80%"] {
            assert_eq!(text.parse::<Popularity>().unwrap().to_string(), text);
        }
        for wrong in ["zipf:3", "zipfian", "hotspot:0%:50%", "working-set:20%"] {
            assert!(wrong.parse::<Popularity>().is_err(), "{wrong}");
        }
    }
}
