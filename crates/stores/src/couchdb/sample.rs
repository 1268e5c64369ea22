//! Samples keys of an existing database, without reading all of it.

use std::collections::BTreeSet;

use fastrand::Rng;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use storebench_engine::store::StoreError;

use super::server::Server;
use crate::http::Method;

/// The number of keys read from each end to start the search.
const ENDS: usize = 32;
/// The approximate maximum number of jumps. If more keys are wanted, each jump reads several adjacent keys.
const JUMPS: usize = 1_000;

/// At most `at_most` keys of a database, determined by `seed`.
///
/// CouchDB cannot jump to the n-th key (`skip` reads all keys before it). So the search jumps to likely keys: it takes
/// a known key and, from where keys start to differ, replaces each character by one between the smallest and the
/// largest seen at that position. A database that is not much larger than the sample is read completely instead.
pub(super) async fn keys(
    server: &Server,
    database: &str,
    pouch: bool,
    at_most: usize,
    seed: u64,
) -> Result<Vec<String>, StoreError> {
    let documents = server.sizes(database).await?.map_or(0.0, |sizes| sizes.documents) as usize;
    let mut random = Rng::with_seed(seed);
    let mut known = Known::default();
    let page = |start: Option<&str>, backwards: bool, limit: usize| {
        let mut query = format!("_all_docs?limit={limit}");
        if backwards {
            query += "&descending=true";
        }
        let start = start.or((pouch && backwards).then_some("\u{10FFFF}\u{10FFFF}"));
        for (name, key) in [("startkey", start), ("endkey", (pouch && !backwards).then_some("\u{10FFFF}\u{10FFFF}"))] {
            if let Some(key) = key {
                query += &format!("&{name}={}", utf8_percent_encode(&json!(key).to_string(), NON_ALPHANUMERIC));
            }
        }
        Server::path(database, &query)
    };
    if documents <= at_most.saturating_mul(2).max(1_000) {
        known.take(&server.ask(Method::GET, &page(None, false, documents + 1_000), None).await?);
    } else {
        for backwards in [false, true] {
            known.take(&server.ask(Method::GET, &page(None, backwards, ENDS), None).await?);
        }
        let run = (at_most / JUMPS).clamp(1, 100);
        // Jumps that find only known keys count too, so that the search terminates.
        for _ in 0..(at_most / run) * 3 {
            if known.keys.len() >= at_most + 2 * ENDS {
                break;
            }
            let Some(start) = known.guess(&mut random) else { break };
            known.take(&server.ask(Method::GET, &page(Some(&start), false, run), None).await?);
        }
    }
    let mut keys: Vec<String> = known.keys.into_iter().collect();
    random.shuffle(&mut keys);
    keys.truncate(at_most);
    Ok(keys)
}

/// The keys found so far, and the smallest and largest character at each position.
#[derive(Default)]
struct Known {
    keys: BTreeSet<String>,
    order: Vec<String>,
    seen: Vec<(char, char)>,
}

impl Known {
    fn take(&mut self, answer: &Value) {
        let rows = answer["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        for key in rows.iter().filter_map(|row| row["id"].as_str()).filter(|key| !key.starts_with('_')) {
            if !self.keys.insert(key.to_owned()) {
                continue;
            }
            self.order.push(key.to_owned());
            for (place, character) in key.chars().enumerate() {
                match self.seen.get_mut(place) {
                    Some((least, greatest)) => {
                        (*least, *greatest) = ((*least).min(character), (*greatest).max(character));
                    }
                    None => self.seen.push((character, character)),
                }
            }
        }
    }

    /// A likely key.
    fn guess(&self, random: &mut Rng) -> Option<String> {
        let pattern = random.choice(&self.order)?;
        let from = self.seen.iter().position(|(least, greatest)| least < greatest)?;
        let mut key: String = pattern.chars().take(from).collect();
        for (least, greatest) in self.seen.iter().take(pattern.chars().count()).skip(from) {
            let between = *greatest as usize - *least as usize;
            let character = *least as usize + random.usize(..=between);
            // Surrogates are not characters.
            key.push(u32::try_from(character).ok().and_then(char::from_u32).unwrap_or(*least));
        }
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_lie_between_what_was_seen() {
        let mut known = Known::default();
        known.take(&json!({ "rows": [{ "id": "users/0001" }, { "id": "users/4999" }, { "id": "_design/x" }] }));
        assert_eq!(known.order.len(), 2);
        let mut random = Rng::with_seed(1);
        let guesses: BTreeSet<String> = (0..200).filter_map(|_| known.guess(&mut random)).collect();
        assert!(guesses.iter().all(|guess| guess.as_str() >= "users/0000" && guess.as_str() <= "users/4999"));
        for digit in '0'..='4' {
            assert!(guesses.iter().any(|guess| guess.starts_with(&format!("users/{digit}"))), "{digit}");
        }
        assert_eq!(Known::default().guess(&mut random), None);
    }
}
