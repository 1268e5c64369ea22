//! Hosts that stores take turns on, so that differences between the machines cancel.

use super::check::Problems;
use super::study::Study;

/// The placeholder for the host in a store's URL.
const HOST: &str = "{host}";

/// Whether the URL of a store leaves its host open.
pub fn leaves_host_open(url: &str) -> bool {
    url.contains(HOST)
}

/// The URL with this host.
pub fn at_host(url: &str, host: &str) -> String {
    url.replace(HOST, host)
}

impl Study {
    /// The host of a store in a round, from 1. The nth store is on the (n + round)th host; after the last host comes
    /// the first. `None` for a store whose URL names its host.
    pub fn host_in(&self, store: &str, round: u32) -> Option<&str> {
        let (nth, _, url) = self.stores.0.get_full(store)?;
        if self.hosts.is_empty() || !leaves_host_open(url) {
            return None;
        }
        let turn = nth + (round as usize).saturating_sub(1);
        self.hosts.get(turn % self.hosts.len()).map(String::as_str)
    }

    /// Checks hosts against the URLs of stores, which may have been given later than the study.
    ///
    /// # Errors
    /// If there are hosts but no URL that leaves its host open, or such a URL but no hosts.
    pub fn check_hosts(&self) -> Result<(), String> {
        let open: Vec<&str> =
            self.stores.0.iter().filter(|(_, url)| leaves_host_open(url)).map(|(name, _)| name.as_str()).collect();
        match (open.first(), self.hosts.is_empty()) {
            (Some(store), true) => Err(format!(
                "the URL of the store `{store}` contains {HOST}, but the study has no `hosts`; write the host into the URL, \
                 or add hosts = [\"10.0.0.1\", \"10.0.0.2\"] to the study"
            )),
            (None, false) if !self.stores.is_empty() => Err(format!(
                "no store uses these hosts; write {HOST} into their URLs, such as postgres://bench@{HOST}:5432/bench"
            )),
            _ => Ok(()),
        }
    }
}

pub(super) fn check(study: &Study, problems: &mut Problems<'_>) {
    let mut say = |message: String| problems.say(&["hosts"], message);
    let n = study.hosts.len();
    if n == 1 {
        say("stores cannot take turns on one host; name two or more, or write the host into the stores' URLs"
            .to_owned());
    }
    if let Some(twice) = (1..n).find(|at| study.hosts[..*at].contains(&study.hosts[*at])) {
        say(format!("`{}` is listed twice; remove one of them", study.hosts[twice]));
    }
    let repeats = study.repeats.most();
    if n > 1 && !repeats.is_multiple_of(n as u32) {
        let more = repeats.div_ceil(n as u32) * n as u32;
        say(format!(
            "{repeats} repeats put a store on some of the {n} hosts more often than on others; use {} = {more}",
            if study.repeats.until().is_some() { "at_most" } else { "repeats" }
        ));
    }
    if let Err(message) = study.check_hosts() {
        say(message);
    }
}
