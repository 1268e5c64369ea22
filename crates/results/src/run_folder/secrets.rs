//! The passwords of a run, and how they are kept out of everything that is written or shown.
//!
//! [`redact`] hides what looks like a secret. This module knows the secrets themselves: those in the URLs of the run's
//! stores, in the variables and files that these name, in `STOREBENCH_PASSWORD`, and in the variables of AWS. If a server puts its client's
//! password into an error message, it does not leak.

use serde_json::Value;
use storebench_engine::store::StoreError;
use storebench_study::workload::Study;

use super::redact::{HIDDEN, is_secret, is_secret_variable, password_of, redact};

/// Shorter secrets are not searched for: they would match everywhere and protect nothing.
const SHORTEST: usize = 3;

/// The variables that hold the default password, and the keys of AWS.
const VARIABLES: [&str; 3] = ["STOREBENCH_PASSWORD", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// Fields of results and events whose texts are Storebench's own words and names. A password that equals one of them
/// may appear there.
const OWN_WORDS: [&str; 18] = [
    "at",
    "body",
    "check",
    "collection",
    "cpu_source",
    "during",
    "event",
    "figure",
    "format",
    "kind",
    "severity",
    "name",
    "op",
    "phase",
    "scheme",
    "store",
    "threshold",
    "began",
];

/// The secrets in every spelling in which they may occur, the longest first.
#[derive(Debug, Clone, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// The secrets of a study's stores, and of the variables of its servers.
    pub fn of(study: &Study) -> Self {
        let urls = Self::of_urls(study.stores.0.values().map(String::as_str), |name| std::env::var(name).ok());
        let variables = study.servers.values().flat_map(|server| &server.env);
        let secret = variables.filter(|(name, _)| is_secret_variable(name)).map(|(_, value)| value.clone());
        Self::spelled(secret.chain(urls.0))
    }

    /// The secrets of one store.
    pub fn of_url(url: &str) -> Self {
        Self::of_urls(std::iter::once(url), |name| std::env::var(name).ok())
    }

    /// The secrets of both ends of a copy.
    pub fn of_ends(from: &str, to: &str) -> Self {
        Self::of_urls([from, to].into_iter(), |name| std::env::var(name).ok())
    }

    fn of_urls<'a>(urls: impl Iterator<Item = &'a str>, variable: impl Fn(&str) -> Option<String>) -> Self {
        let mut plain: Vec<String> = VARIABLES.into_iter().filter_map(&variable).collect();
        for url in urls {
            plain.extend(password_of(url).map(str::to_owned));
            let query = url.split_once('?').map_or("", |(_, query)| query);
            for (name, value) in query.split('&').filter_map(|option| option.split_once('=')) {
                match name {
                    "password_env" => plain.extend(variable(value)),
                    "password_file" => plain.extend(first_line(value)),
                    _ if is_secret(name) => plain.push(value.to_owned()),
                    _ => {}
                }
            }
        }
        Self::spelled(plain.into_iter())
    }

    fn spelled(plain: impl Iterator<Item = String>) -> Self {
        let mut spellings: Vec<String> = plain.flat_map(|secret| spellings(&secret)).collect();
        spellings.retain(|secret| secret.len() >= SHORTEST);
        spellings.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        spellings.dedup();
        Self(spellings)
    }

    /// A text without secrets.
    pub fn hide(&self, text: &str) -> String {
        self.0.iter().fold(redact(text), |text, secret| text.replace(secret.as_str(), HIDDEN))
    }

    /// A value without secrets.
    pub fn hide_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.hide(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_value(item)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    match field {
                        // A URL may appear anywhere: a study can call its store `name`.
                        Value::String(text) if OWN_WORDS.contains(&name.as_str()) && !text.contains("://") => {}
                        field => self.hide_value(field),
                    }
                }
            }
            _ => {}
        }
    }

    /// An error without secrets.
    pub fn hide_error(&self, error: StoreError) -> StoreError {
        error.map_text(|text| self.hide(&text))
    }
}

/// The first line, which is what drivers read.
fn first_line(file: &str) -> Option<String> {
    std::fs::read_to_string(file).ok()?.lines().next().map(str::to_owned)
}

/// A secret as it was typed, decoded, encoded for URLs, and quoted for JSON.
fn spellings(secret: &str) -> Vec<String> {
    let mut all = vec![secret.to_owned()];
    all.extend(percent_decoded(secret));
    for plain in all.clone() {
        let quoted = Value::from(plain.as_str()).to_string();
        all.push(quoted[1..quoted.len() - 1].to_owned());
        for upper in [true, false] {
            all.push(percent_encoded(&plain, upper));
        }
    }
    all
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
        out.push((high * 16 + low) as u8);
    }
    String::from_utf8(out).ok()
}

fn percent_encoded(text: &str, upper: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b if b.is_ascii_alphanumeric() || b"-._~".contains(&b) => out.push(char::from(b)),
            b if upper => out += &format!("%{b:02X}"),
            b => out += &format!("%{b:02x}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(urls: &[&str]) -> Secrets {
        Secrets::of_urls(urls.iter().copied(), |name| match name {
            "STOREBENCH_PASSWORD" => Some("from-the-environment".to_owned()),
            "MINE" => Some("from-a-variable".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("the-key".to_owned()),
            "AWS_SESSION_TOKEN" => Some("the-session".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn a_secret_is_hidden_in_every_spelling_and_place() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "from-a-file\nsecond line\n").unwrap();
        let by_file = format!("redis://me@host?password_file={}", file.display());
        let known = secrets(&[
            "mongodb://me:p%40ss%22w%C3%B6rd@one:1,two:2/db?tls=true",
            "redis://:only@host:6379",
            "couchdb://me@host?password_env=MINE",
            &by_file,
            "x://host?token=to-ken",
        ]);
        for (text, shown) in [
            ("refused p@ss\"wörd", "refused ***"),
            ("refused p%40ss%22w%C3%B6rd", "refused ***"),
            ("refused p%40ss%22w%c3%b6rd", "refused ***"),
            ("{\"said\":\"p@ss\\\"wörd\"}", "{\"said\":\"***\"}"),
            ("the only one", "the *** one"),
            ("from-the-environment, from-a-variable, from-a-file, to-ken", "***, ***, ***, ***"),
            ("the-key, the-session", "***, ***"),
            ("second line", "second line"),
            ("other://you:hidden@host", "other://you:***@host"),
        ] {
            assert_eq!(known.hide(text), shown);
        }
    }

    #[test]
    fn words_of_our_own_stay_even_where_a_password_is_one_of_them() {
        let known = secrets(&["redis://:pass@host", "redis://:no@host"]);
        let mut value = serde_json::json!({
            "severity": "pass", "observed": "no pass", "phases": [{ "name": "pass", "messages": ["pass"] }]
        });
        known.hide_value(&mut value);
        let expected = serde_json::json!({
            "severity": "pass", "observed": "no ***", "phases": [{ "name": "pass", "messages": ["***"] }]
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn a_url_under_a_word_of_ours_has_no_password() {
        let known = secrets(&["redis://:hush-hush@host"]);
        let mut value = serde_json::json!({ "stores": { "store": "redis://:hush-hush@host", "name": "x" } });
        known.hide_value(&mut value);
        assert_eq!(value, serde_json::json!({ "stores": { "store": "redis://:***@host", "name": "x" } }));
    }

    #[test]
    fn variables_of_servers_whose_names_say_secret_are_hidden() {
        let text = "title = \"T\"\nstores = [\"redis://h\"]\n[collections.a]\ncount = 1\n[[phases]]\nname = \"load\"\n\
                    load = [\"a\"]\n[servers.redis]\nrun = \"redis-server\"\n[servers.redis.env]\n\
                    REDIS_PASSWORD = \"hush-hush\"\nAPI_KEY = \"k3y-k3y\"\nON = \"ssh bench@host\"\nMODE = \"fast\"\n";
        let study = Study::parse(text, std::path::Path::new("t.toml"), &[]).unwrap();
        let known = Secrets::of(&study);
        assert_eq!(known.hide("hush-hush k3y-k3y"), "*** ***");
        // Others say how the server is set up.
        assert_eq!(known.hide("ON = ssh bench@host, MODE = fast"), "ON = ssh bench@host, MODE = fast");
    }

    #[test]
    fn errors_keep_their_kind() {
        let known = secrets(&["redis://:hush-hush@host"]);
        let error = known.hide_error(StoreError::Unreachable("hush-hush is wrong".into()));
        assert!(matches!(error, StoreError::Unreachable(text) if text == "*** is wrong"));
    }
}
