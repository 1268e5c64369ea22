//! `stolen-time`: did the host of the virtual machine take processors away?

use crate::human::percent;
use crate::own_delay::OWN;
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};

pub(super) const CHECK: Check =
    Check::new("stolen-time", "the virtual machine was short of CPU", &[Looks::Phase(look)]);

/// From this share of the processors' time, the tail may be the host's.
pub(super) const TAIL: f64 = 0.01;

/// The share of the processors' time that the host of the virtual machine took. It slows client and store.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let share = scene.phase.resources.as_ref()?.host.stolen_share;
    let severity = match share {
        _ if share > OWN => Severity::Caution,
        _ if share > TAIL => Severity::Note,
        _ => Severity::Pass,
    };
    Some(Finding::new(
        severity,
        format!("the host of this virtual machine took {} of its processors' time", percent(share)),
        format!("caution above {}, note above {}", percent(OWN), percent(TAIL)),
        "other virtual machines on the same host slow client and store: compare only what was measured in turns, or use a machine of your own",
    ).weighing(share))
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{CAUTION, NOTE, PASS, closed, severity};
    use crate::{HostResult, ResourcesResult};

    #[test]
    fn stolen_time() {
        for (stolen_share, expected) in [(0.01, PASS), (0.011, NOTE), (0.10, NOTE), (0.11, CAUTION)] {
            let result = closed(|p| {
                let host = HostResult { stolen_share, ..HostResult::default() };
                p.resources = Some(ResourcesResult { host, ..ResourcesResult::default() });
            });
            assert_eq!(severity(&result, "stolen-time"), expected, "{stolen_share}");
        }
        assert_eq!(severity(&closed(|p| p.resources = None), "stolen-time"), None);
    }
}
