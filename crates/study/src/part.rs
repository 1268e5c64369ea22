//! Parts of a run that is divided between several processes or machines.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One part of a run, `2/8`: the second of eight.
///
/// A part owns the workers whose number (from 0) has the remainder `number` - 1 when divided by `of`. Keys, versions,
/// scheduled starts and the numbers of new documents are functions of the worker and of the number of all workers. So
/// the parts together make exactly the operations that one process would make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// Number of the part, from 1.
    pub number: u32,
    /// How many parts there are.
    pub of: u32,
}

impl Part {
    /// The only part of a run that is not divided.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// The maximum number of parts. It equals the maximum number of workers, because each part needs at least one.
    pub const MOST: u32 = 1_024;

    /// Whether this part is the whole run.
    pub fn is_whole(self) -> bool {
        self.of == 1
    }

    /// Every part of this run, in order.
    pub fn all(self) -> impl Iterator<Item = Self> {
        (1..=self.of).map(move |number| Self { number, ..self })
    }

    /// The workers (from 0) that this part owns, out of `of_all`.
    pub fn workers(self, of_all: u32) -> impl Iterator<Item = u32> {
        (self.number - 1..of_all).step_by(self.of as usize)
    }

    /// Whether this part owns a worker (from 0).
    pub fn owns(self, worker: u64) -> bool {
        worker % u64::from(self.of) == u64::from(self.number - 1)
    }

    /// The position of a worker among the workers of this part.
    pub fn position(self, worker: u32) -> usize {
        (worker / self.of) as usize
    }
}

impl Default for Part {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parsed {
            Some((number, of)) if 1 <= number && number <= of && of <= Self::MOST => Ok(Self { number, of }),
            Some((_, of)) if of > Self::MOST => Err(format!("a run has at most {} parts", Self::MOST)),
            Some((number, of)) => Err(format!("part {number} of {of} does not exist; parts are numbered from 1")),
            None => Err(format!("`{text}` is not a part; expected its number and the number of parts, such as 2/8")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_and_written() {
        let part: Part = "2/8".parse().unwrap();
        assert_eq!((part, part.to_string()), (Part { number: 2, of: 8 }, "2/8".into()));
        assert!(Part::default().is_whole() && !part.is_whole());
        for (text, says) in [
            ("0/8", "part 0 of 8 does not exist"),
            ("9/8", "part 9 of 8 does not exist"),
            ("1/0", "part 1 of 0 does not exist"),
            ("1/1025", "at most 1024"),
            ("2", "not a part"),
            ("a/b", "not a part"),
            ("-1/8", "not a part"),
            ("", "not a part"),
        ] {
            let error = text.parse::<Part>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn every_worker_has_one_part() {
        for of in 1..=5 {
            let mut seen: Vec<u32> = Part { number: 1, of }.all().flat_map(|part| part.workers(10)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..10).collect::<Vec<_>>());
            for part in (Part { number: 1, of }).all() {
                assert!((0..10).all(|worker| part.owns(worker.into()) == part.workers(10).any(|own| own == worker)));
                assert!(part.workers(10).enumerate().all(|(at, worker)| part.position(worker) == at));
            }
        }
    }
}
