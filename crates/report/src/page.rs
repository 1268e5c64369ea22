//! The page of runs: one HTML file that contains everything. Text and tables need no script; the script draws charts,
//! sorts tables and exports.

pub(crate) mod charts;
mod configurations;
mod consistency;
pub(crate) mod head;
mod intervals;
mod ran;
pub(crate) mod tables;
mod validity;

use base64::Engine as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use crate::charts::charts as all_charts;
use crate::data::Chart;
use crate::recorded::ReportError;
use crate::subject::{ConfigurationOf, Subject};

/// The script, built from `report/src`.
const SCRIPT: &str = include_str!("../../../report/dist/report.js");
/// The script of a page without charts.
const SCRIPT_OF_TABLES: &str = include_str!("../../../report/dist/index.js");
/// The section about what workers saw. It is short, and present only if it was asked for.
const CONSISTENCY: &str = "consistency";
/// The style sheet, including the one for charts.
const STYLE: &str = include_str!("../../../report/dist/report.css");

/// Text that every page contains.
pub const PAGE_MARK: &str = "name=\"generator\" content=\"Storebench ";

/// Whether the page is written once or updated during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Written at the end.
    Written,
    /// Served during the run: its script receives events from the server.
    Live,
}

/// The data of the page's script.
#[derive(serde::Serialize)]
struct Data<'a> {
    format: &'static str,
    configurations: &'a [ConfigurationOf],
    panels: &'a [String],
    /// Number of columns of panels; by default, as many as fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<usize>,
    charts: &'a [Chart],
}

/// The page of runs.
///
/// # Errors
/// A histogram log of a run is damaged.
pub fn page(subject: &Subject, life: Life) -> Result<String, ReportError> {
    let charts = all_charts(subject)?;
    Ok(document(&head::title(subject), &body(subject, &charts, life), Some(&island(subject, &charts)), life))
}

/// A complete document from a body and the data of its charts, if it has any.
pub(crate) fn document(title: &str, body: &Markup, island: Option<&str>, life: Life) -> String {
    let script = if island.is_some() { SCRIPT } else { SCRIPT_OF_TABLES };
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(policy(life, script));
                meta name="generator" content=(format!("Storebench {}", env!("CARGO_PKG_VERSION")));
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body data-life=(if life == Life::Live { "live" } else { "written" }) {
                (body)
                @if let Some(island) = island { script type="application/json" id="data" { (PreEscaped(island)) } }
                script { (PreEscaped(script)) }
            }
        }
    };
    markup.into_string()
}

/// The parts of the page that change during a run: the body without its scripts, and the charts.
///
/// # Errors
/// As [`page`].
pub(crate) fn changing(subject: &Subject) -> Result<(String, String), ReportError> {
    let charts = all_charts(subject)?;
    Ok((body(subject, &charts, Life::Live).into_string(), island(subject, &charts)))
}

/// The answer, its chart, and the checks in one line. The rest is folded, except in the page of a run in progress.
fn body(subject: &Subject, charts: &[Chart], life: Life) -> Markup {
    let sections = [
        (CONSISTENCY, "What the workers saw", consistency::section(subject)),
        ("configurations", "All figures", configurations::section(subject)),
        ("charts", "Charts", charts::section(subject, charts, "Charts")),
        ("ran", "What was run", ran::section(subject)),
    ];
    html! {
        (head::head(subject))
        main {
            (validity::section(subject))
            nav.contents aria-label="Contents" {
                @for (id, name, _) in sections.iter().filter(|(_, _, section)| !section.0.is_empty()) {
                    a href=(format!("#{id}")) { (name) }
                    @if *id == "charts" {
                        @for chart in charts { a.chart href=(format!("#{}", chart.id)) { (chart.title) } }
                    }
                }
            }
            @for (id, name, section) in sections.iter().filter(|(.., section)| !section.0.is_empty()) {
                details.part open[life == Life::Live || *id == CONSISTENCY] { summary { (name) } (section) }
            }
        }
        (head::foot(subject))
    }
}

/// The content security policy: the page loads nothing and runs only its own script, even if the text of a store or a
/// study contains HTML.
fn policy(life: Life, script: &str) -> String {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(script.as_bytes()));
    let connect = if life == Life::Live { "; connect-src 'self'" } else { "" };
    format!(
        "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; \
         form-action 'none'{connect}"
    )
}

/// The data of the charts, escaped so that it cannot close its element.
pub(crate) fn island(subject: &Subject, charts: &[Chart]) -> String {
    let Subject { configurations, panels, columns, .. } = subject;
    let data = Data { format: "storebench-report/2", configurations, panels, columns: *columns, charts };
    let text = serde_json::to_string(&data).unwrap_or_else(|_| "{}".to_owned());
    text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}
