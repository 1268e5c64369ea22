//! Stores given on the command line or by a study.

use std::sync::Arc;

use storebench_engine::store::AnyStore;
use storebench_results::redact_url;
use storebench_study::workload::{Stores, Study};

use crate::failure::Failure;

/// Stores by name, in order.
pub(crate) type Named = Vec<(String, Arc<dyn AnyStore>)>;

/// Chooses the stores from the command line, or else those of the study. Stores from the command line replace the
/// study's, so that the result names what ran.
pub(crate) fn choose(study: &mut Study, typed: &[String]) -> Result<(), Failure> {
    if !typed.is_empty() {
        study.replaced_stores = study.stores.0.len();
        study.stores = typed_stores(typed)?;
        // The study may have settings for a store name that is not among these.
        study.clone().validate("with the stores of --store")?;
    }
    if study.stores.is_empty() {
        return Err(Failure::bad_input(
            "the study names no store; give one with --store sqlite:bench.db, or add stores = [\"sqlite:bench.db\"] to \
             the study",
        ));
    }
    study.check_hosts().map_err(Failure::bad_input)
}

/// The stores of the command line, each a URL or `NAME=URL`.
pub(crate) fn typed_stores(typed: &[String]) -> Result<Stores, Failure> {
    Stores::from_entries(typed).map_err(|why| Failure::bad_input(format!("--store: {why}")))
}

/// Creates the drivers for the stores of a study, without accessing the stores.
pub(crate) fn open_all(study: &Study) -> Result<Named, Failure> {
    study.stores.0.iter().map(|(name, url)| Ok((name.clone(), open(url)?))).collect()
}

/// Adds options to a URL. Each replaces an option with the same name.
pub(crate) fn with_options<'a>(url: &str, options: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let mut all: Vec<(&str, &str)> =
        query.split('&').filter(|o| !o.is_empty()).map(|o| o.split_once('=').unwrap_or((o, ""))).collect();
    for (name, value) in options {
        match all.iter_mut().find(|(other, _)| *other == name) {
            Some(option) => option.1 = value,
            None => all.push((name, value)),
        }
    }
    let told: Vec<String> =
        all.iter().map(|(n, v)| if v.is_empty() { (*n).to_owned() } else { format!("{n}={v}") }).collect();
    if told.is_empty() { place.to_owned() } else { format!("{place}?{}", told.join("&")) }
}

/// Creates the driver for a URL, without accessing the store.
pub(crate) fn open(url: &str) -> Result<Arc<dyn AnyStore>, Failure> {
    storebench_stores::open(url).map_err(|error| Failure::of_store(url, &error))
}

/// Creates the driver of a store that is read.
pub(crate) fn open_to_read(url: &str) -> Result<Arc<dyn AnyStore>, Failure> {
    to_read(url, open(url)?)
}

/// Refuses to read an embedded store that does not exist, instead of showing an empty one.
pub(crate) fn to_read(url: &str, store: Arc<dyn AnyStore>) -> Result<Arc<dyn AnyStore>, Failure> {
    match store.paths().first().map(|path| (path, path.try_exists())) {
        Some((path, Ok(false))) => Err(Failure::bad_input(format!(
            "{}: there is no such file or folder: {}; check the path",
            redact_url(url),
            path.display()
        ))),
        _ => Ok(store),
    }
}

#[cfg(test)]
mod tests {
    use storebench_results::environment::{is_encrypted, port_of};
    use storebench_stores::{is_scheme, schemes};

    use super::*;

    /// Comparisons need to know whether connections are encrypted, and a measurement which port is the server's.
    #[test]
    fn results_know_every_scheme() {
        let of_servers = schemes().iter().filter(|scheme| scheme.example.contains("://"));
        for name in
            of_servers.clone().flat_map(|scheme| [scheme.name].into_iter().chain(scheme.aliases.iter().copied()))
        {
            let url = format!("{name}://h");
            let tls = name.ends_with("+tls") || name.ends_with("+srv") || name.strip_suffix('s').is_some_and(is_scheme);
            assert_eq!(is_encrypted(&url), tls, "{name}: whether it is over TLS");
            // The ports of `+srv` are in the DNS.
            assert_eq!(port_of(&url).is_some(), !name.ends_with("+srv"), "{name}: its port");
        }
        for example in of_servers.map(|scheme| scheme.example) {
            let scheme = example.split_once("://").unwrap().0;
            assert_eq!(port_of(example), port_of(&format!("{scheme}://h")), "{example}");
        }
    }

    #[test]
    fn options_take_the_place_of_those_of_the_same_name() {
        let with = |url: &str| with_options(url, [("cache", "1MiB"), ("x", "y")].into_iter());
        assert_eq!(with("sqlite:a.db"), "sqlite:a.db?cache=1MiB&x=y");
        assert_eq!(with("sqlite:a.db?wal&cache=2MiB"), "sqlite:a.db?wal&cache=1MiB&x=y");
        assert_eq!(with_options("sqlite:a.db?wal", std::iter::empty()), "sqlite:a.db?wal");
    }
}
