//! `client-shares-host`: do client and store compete for one machine?

use crate::environment::{host_of, is_loopback};
use crate::validity::check::{Check, Finding, Looks, Severity};
use crate::{RunResult, TrialResult};

pub(super) const CHECK: Check =
    Check::new("client-shares-host", "client and server shared a machine", &[Looks::Trial(look)]);

/// Whether client and store compete for the same processors.
fn look(_: &RunResult, trial: &TrialResult) -> Option<Finding> {
    let (severity, observed) = if trial.embedded {
        (Severity::Note, "the store runs within the client's process".to_owned())
    } else {
        let host = host_of(&trial.url).unwrap_or_default();
        match trial.here {
            _ if is_loopback(&trial.url) => (Severity::Note, format!("the store is on this machine ({host})")),
            Some(true) => (Severity::Note, format!("the store is on this machine ({host} is one of its addresses)")),
            Some(false) => (Severity::Pass, format!("the store is on another host ({host})")),
            None => (Severity::Pass, format!("{host} is not known to be this machine")),
        }
    };
    Some(Finding::new(
        severity,
        observed,
        "note when client and store share a machine",
        "client and store share processors, memory and disk: do not read these figures as those of a store on its own machine",
    ))
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{NOTE, PASS, closed, separate, severity};

    #[test]
    fn client_shares_host() {
        let at = |url: &str| {
            let mut result = separate(closed(|_| ()));
            result.trials[0].url = url.into();
            severity(&result, "client-shares-host")
        };
        assert_eq!(severity(&closed(|_| ()), "client-shares-host"), NOTE);
        for here in ["a://localhost:8091/b", "a://127.0.0.1", "a://me:x@[::1]:80/b"] {
            assert_eq!(at(here), NOTE, "{here}");
        }
        for away in ["a://db.example.org:8091/localhost", "a://10.0.0.1"] {
            assert_eq!(at(away), PASS, "{away}");
        }
        let known = |here| {
            let mut result = separate(closed(|_| ()));
            (result.trials[0].url, result.trials[0].here) = ("a://db.example.org/b".into(), Some(here));
            severity(&result, "client-shares-host")
        };
        assert_eq!((known(true), known(false)), (NOTE, PASS));
    }
}
