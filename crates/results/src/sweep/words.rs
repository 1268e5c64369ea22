//! A sweep in words.

use super::{Beyond, Sweep};
use crate::human::count;

/// Factors for which twice as many should do twice as much.
const PARALLEL: [&str; 4] = [".workers", ".tasks", ".connections", ".in_flight"];

/// Whether twice as much of a factor should do twice as much.
pub(crate) fn is_parallel(factor: &str) -> bool {
    PARALLEL.iter().any(|key| factor.ends_with(key))
}

/// Whether a factor is something that users spend more or less of. No size or rate is enough: it is part of the
/// request.
pub(crate) fn is_spent(factor: &str) -> bool {
    is_parallel(factor) || [".batch", ".parallel"].iter().any(|key| factor.ends_with(key))
}

/// A value in the notation of a study.
pub(crate) fn value_in_words(value: f64) -> String {
    if value.fract() == 0.0 && value < 1e15 { count(value as u64) } else { value.to_string() }
}

impl Sweep {
    /// How much of `factor` is enough, as a clause without a full stop.
    pub fn in_words(&self, factor: &str) -> String {
        let shown = value_in_words;
        match (self.sweet_spot, self.beyond) {
            (Some(spot), Some(Beyond::Unseen)) => {
                format!("still rising at {factor} = {}, the highest value measured", shown(spot))
            }
            (Some(spot), Some(Beyond::Failed)) => {
                let failed: Vec<String> = self.failed.iter().map(|value| shown(*value)).collect();
                format!(
                    "{factor} = {} is enough among the values that completed; {} failed",
                    shown(spot),
                    failed.join(", ")
                )
            }
            (Some(spot), Some(Beyond::Flat)) => format!("more than {factor} = {} makes no difference", shown(spot)),
            (Some(spot), Some(Beyond::Worse)) => {
                let worse = self.worse_from.map_or_else(String::new, |from| format!(" from {} on", shown(from)));
                format!("{factor} = {} is enough; more is worse{worse}", shown(spot))
            }
            (Some(spot), _) => format!("{factor} = {} is enough; unclear whether more is worse", shown(spot)),
            (None, _) => match self.likely {
                Some(likely) => {
                    format!(
                        "{factor} = {} may be enough, which is not certain; run more rounds to confirm",
                        shown(likely)
                    )
                }
                None => "unclear how much is enough; run more rounds".to_owned(),
            },
        }
    }
}
