//! A gallery: a table of bundles to search and sort, each with its question, its answer and how to repeat it.

use maud::{Markup, html};
use storebench_results::RunResult;
use storebench_results::answer::answer;
use storebench_results::cost::money;
use storebench_results::human::{cut, minute, plural};
use storebench_results::validity::Severity;

use crate::page::head::{badge, machine};
use crate::page::tables::{self, CARDS, text};
use crate::page::{Life, document};

/// Text that only a gallery contains. A later gallery may replace a file with this text.
pub const GALLERY_MARK: &str = "<section id=\"bundles\">";

/// The most characters of a public key that are shown; its title has all of them.
const SHOWN: usize = 12;

/// A bundle in a gallery.
#[derive(Debug)]
pub struct GalleryRow {
    file: String,
    report: Option<String>,
    shown: Result<Shown, String>,
}

/// What a gallery shows of a bundle.
#[derive(Debug)]
struct Shown {
    question: String,
    answer: String,
    severity: Severity,
    trust: String,
    cost: Option<String>,
    machine: String,
    began: String,
    signed_by: Option<String>,
    command: String,
}

impl GalleryRow {
    /// A bundle in this file. `report` is the address of its report, relative to the gallery. `found` is its result, and
    /// the public key that signed it, or why it cannot be shown.
    pub fn new(file: String, report: Option<String>, found: Result<(&RunResult, Option<String>), String>) -> Self {
        let shown = found.map(|(of, signed_by)| {
            let said = answer(of);
            Shown {
                question: of.run.question.clone().unwrap_or_else(|| of.run.title.clone()),
                answer: first_sentence(&said.found).to_owned(),
                severity: said.severity,
                trust: said.trust,
                cost: cost(of),
                machine: machine(&of.environment),
                began: minute(&of.run.began),
                signed_by,
                command: command(&file, of),
            }
        });
        Self { file, report, shown }
    }
}

/// The first sentence of a text. A point within a number ends none.
fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

/// The cheapest configuration, and what a million operations or documents cost on it.
fn cost(of: &RunResult) -> Option<String> {
    let cost = of.cost.as_ref()?;
    let cheapest = cost.configurations.iter().find(|one| Some(&one.configuration) == cost.cheapest.as_ref())?;
    let price = cheapest.at(cost.compared_at)?.per_million.without_clients.value;
    Some(format!("{} {} for a million {} on {}", cost.sheet.currency, money(price), cost.work, cheapest.configuration))
}

/// The command that repeats a bundle. Servers are those of the reader.
fn command(file: &str, of: &RunResult) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    let quoted = |text: &str| match text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    };
    let mut command = format!("storebench rerun {}", quoted(file));
    let mut named: Vec<&str> = Vec::new();
    for trial in of.trials.iter().filter(|trial| !trial.embedded) {
        if !named.contains(&trial.store.as_str()) {
            named.push(&trial.store);
            command += &format!(" --store {}", quoted(&format!("{}=URL", trial.store)));
        }
    }
    command
}

/// The page that lists these bundles, in the given order.
pub fn gallery(rows: Vec<GalleryRow>) -> String {
    let unread = rows.iter().filter(|row| row.shown.is_err()).count();
    let body = html! {
        header {
            p.brand { "Storebench" }
            h1 { "Measurements that you can repeat" }
            p.facts {
                (plural(rows.len() as u64, "bundle"))
                @if unread > 0 { ", of which " (unread) " cannot be shown" }
                ". Each is one file with a study, its results and where they come from. Its command repeats the study on your \
                 machine, and says whether the result reproduces there."
            }
        }
        main {
            section #bundles {
                figure.table { div.scroll { (table(&rows)) } }
            }
        }
        footer {
            p {
                "Made by Storebench " (env!("CARGO_PKG_VERSION")) ". This file is self-contained: it loads no data, script or font."
            }
        }
    };
    document("Measurements · Storebench", &body, None, Life::Written)
}

fn table(rows: &[GalleryRow]) -> Markup {
    let titles =
        ["question", "answer", "validity", "cost", "machine", "date (UTC)", "to repeat it"].map(|name| (name, false));
    let row = |row: &GalleryRow| match &row.shown {
        Ok(of) => vec![
            text(html! {
                @match &row.report {
                    Some(address) => a href=(address) { (of.question) },
                    None => (of.question),
                }
            }),
            text(html! { div.wide { (of.answer) } }),
            text(html! { div.wrapped { (badge(of.severity)) " " (of.trust) } }),
            text(html! { @if let Some(cost) = &of.cost { div.wrapped { (cost) } } }),
            text(html! { div.wrapped { (of.machine) } }),
            text(html! { span.whole { (of.began) } }),
            text(html! {
                div.wrapped {
                    code { (of.command) }
                    br;
                    @match &of.signed_by {
                        Some(key) => span.dim title=(key) { "signed by " (cut(key, SHOWN)) },
                        None => span.dim { "not signed" },
                    }
                }
            }),
        ],
        Err(why) => {
            let why = text(html! { div.wide { (row.file) " cannot be shown: " (why) } });
            vec![text(html! { (row.file) }), why, text(""), text(""), text(""), text(""), text("")]
        }
    };
    tables::table(&format!("sortable searchable {CARDS}"), titles, rows.iter().map(row))
}

#[cfg(test)]
mod tests {
    use storebench_results::TrialResult;

    use super::*;

    #[test]
    fn a_sentence_ends_at_its_point_and_not_within_a_number() {
        assert_eq!(first_sentence("a is 2.5 times as fast. b is slower."), "a is 2.5 times as fast.");
        assert_eq!(first_sentence("a is 2.5 times as fast."), "a is 2.5 times as fast.");
    }

    #[test]
    fn the_command_names_the_servers_and_quotes_what_a_shell_would_read() {
        let trial = |store: &str, embedded| TrialResult { store: store.into(), embedded, ..TrialResult::default() };
        let trials =
            vec![trial("sqlite", true), trial("redis", false), trial("my store", false), trial("redis", false)];
        let run = RunResult { trials, ..RunResult::default() };
        assert_eq!(
            command("it's $x.sbz", &run),
            "storebench rerun 'it'\\''s $x.sbz' --store 'redis=URL' --store 'my store=URL'"
        );
        assert_eq!(command("a.sbz", &RunResult::default()), "storebench rerun a.sbz");
    }

    #[test]
    fn a_page_escapes_what_a_bundle_says_and_shows_what_cannot_be_read() {
        let mut run = RunResult::default();
        run.run.question = Some("<script>alert(1)</script>".into());
        let row = GalleryRow::new("a.sbz".into(), Some("./report/a.html".into()), Ok((&run, Some("KEY".into()))));
        let page = gallery(vec![row, GalleryRow::new("b.sbz".into(), None, Err("it is cut short".into()))]);
        assert!(page.contains(GALLERY_MARK) && page.contains(crate::PAGE_MARK), "{page}");
        assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
        assert!(page.contains("href=\"./report/a.html\"") && page.contains("signed by KEY"));
        assert!(page.contains("b.sbz cannot be shown: it is cut short") && page.contains("of which 1 cannot be shown"));
    }
}
