//! An index of many runs: a table to search and sort, and the figures of each study over its runs.

use std::fmt::Write as _;

use indexmap::{IndexMap, IndexSet};
use maud::{Markup, PreEscaped, html};
use storebench_results::RunResult;
use storebench_results::answer::answer;
use storebench_results::human::{digits, duration, minute, plural, rate};
use storebench_results::side_by_side::figures_of_answer;
use storebench_results::validity::Severity;

use crate::page::head::badge;
use crate::page::tables::{self, CARDS, numbered, text};
use crate::page::{Life, document};

/// Text that only an index contains. A later index may replace a file with this text.
pub const INDEX_MARK: &str = "<section id=\"runs\">";

/// A folder in an index. It keeps only what the index shows, because there may be thousands.
#[derive(Debug)]
pub struct IndexedRun {
    name: String,
    report: Option<String>,
    shown: Result<Shown, String>,
}

/// What an index shows of a run.
#[derive(Debug)]
struct Shown {
    began: String,
    study: String,
    stores: Vec<String>,
    answer: String,
    severity: Severity,
    interrupted: bool,
    /// The figures of the answer: title, whether it is a time, configuration, value.
    figures: Vec<(String, bool, String, f64)>,
}

impl IndexedRun {
    /// A run folder with this name. `report` is the address of its report, relative to the index; none if it has no report.
    /// `result` is its result, or why that cannot be read.
    pub fn new(name: String, report: Option<String>, result: Result<&RunResult, String>) -> Self {
        let shown = result.map(|of| {
            let said = answer(of);
            let stores: IndexSet<&str> = of.configurations.iter().map(|c| c.store.as_str()).collect();
            let figures = figures_of_answer(of).into_iter().flat_map(|panel| {
                let rows = panel.rows.into_iter().filter_map(|row| Some((row.name, row.figure?.value)));
                let (title, less) = (panel.title, panel.less);
                rows.map(move |(name, value)| (title.clone(), less, name, value)).collect::<Vec<_>>()
            });
            Shown {
                began: of.run.began.clone(),
                study: of.run.title.clone(),
                stores: stores.into_iter().map(str::to_owned).collect(),
                answer: said.found,
                severity: said.severity,
                interrupted: of.run.interrupted || of.run.ended.is_none(),
                figures: figures.filter(|(.., value)| value.is_finite()).collect(),
            }
        });
        Self { name, report, shown }
    }

    fn began(&self) -> &str {
        self.shown.as_ref().map_or("", |of| of.began.as_str())
    }
}

/// The index of these runs, the latest first. `made` is when (RFC 3339, UTC), and `again` the command that makes it again.
pub fn index(title: &str, mut runs: Vec<IndexedRun>, made: &str, again: &str) -> String {
    // Times are RFC 3339 in UTC, so they sort as text. Unreadable runs come last.
    runs.sort_by(|a, b| b.began().cmp(a.began()).then_with(|| a.name.cmp(&b.name)));
    let read = runs.iter().filter(|run| run.shown.is_ok()).count();
    let courses = over_time(&runs);
    let body = html! {
        header {
            p.brand { "Storebench" }
            h1 { (title) }
            p.facts {
                (plural(read as u64, "run"))
                @if read < runs.len() { ", and " (plural((runs.len() - read) as u64, "folder")) " that cannot be read" }
                ", as of " (minute(made)) " UTC. Later runs are missing; to add them: " code { (again) }
            }
            @if !courses.0.is_empty() { p { a href="#courses" { "Figures over time" } } }
        }
        main {
            section #runs {
                figure.table { div.scroll { (table(&runs)) } }
            }
            (courses)
        }
        footer {
            p {
                "Made by Storebench " (env!("CARGO_PKG_VERSION")) ". This file is self-contained: it loads no data, script or font. \
                 To compare two runs with intervals: " code { "storebench compare A B" } "."
            }
        }
    };
    document(&format!("{title} · Storebench"), &body, None, Life::Written)
}

fn table(runs: &[IndexedRun]) -> Markup {
    let titles = ["run", "began (UTC)", "validity", "answer", "study", "stores"].map(|name| (name, false));
    let row = |run: &IndexedRun| {
        let name = html! {
            @match &run.report {
                Some(address) => a href=(address) { (run.name) },
                None => (run.name),
            }
        };
        match &run.shown {
            Ok(of) => vec![
                text(name),
                text(html! { span.whole { (minute(&of.began)) } }),
                text(badge(of.severity)),
                text(html! { div.wide { (of.answer) } }),
                text(html! { div.wide { (of.study) } }),
                text(html! { @if !of.stores.is_empty() { div.wrapped { (of.stores.join(", ")) } } }),
            ],
            Err(why) => {
                let why = text(html! { div.wide { "cannot be read: " (why) } });
                vec![text(name), text(""), text(""), why, text(""), text("")]
            }
        }
    };
    tables::table(&format!("sortable searchable {CARDS}"), titles, runs.iter().map(row))
}

/// One figure of one configuration, run after run.
struct Course {
    less: bool,
    points: Vec<Point>,
}

struct Point {
    began: String,
    value: f64,
    /// Whether the run is invalid or was interrupted.
    doubtful: bool,
}

/// The most points that a line marks. A longer one is a line alone.
const MOST_MARKED: usize = 100;

/// A line for each figure of the answers, by study, if there are two runs of it.
fn over_time(runs: &[IndexedRun]) -> Markup {
    let mut studies: IndexMap<&str, IndexMap<(String, String), Course>> = IndexMap::new();
    // The oldest first.
    for of in runs.iter().rev().filter_map(|run| run.shown.as_ref().ok()) {
        let courses = studies.entry(&of.study).or_default();
        let doubtful = of.severity == Severity::Invalid || of.interrupted;
        for (title, less, name, value) in &of.figures {
            let course = courses
                .entry((title.clone(), name.clone()))
                .or_insert_with(|| Course { less: *less, points: Vec::new() });
            course.points.push(Point { began: minute(&of.began), value: *value, doubtful });
        }
    }
    studies.retain(|_, courses| {
        courses.retain(|_, course| course.points.len() > 1);
        !courses.is_empty()
    });
    let titles = [
        ("figure", false),
        ("configuration", false),
        ("runs", true),
        ("over time", false),
        ("first", true),
        ("last", true),
        ("last run with it", false),
        ("last / first", true),
    ];
    let row = |((figure, name), course): (&(String, String), &Course)| {
        let shown = |value: f64| if course.less { duration(value) } else { rate(value) };
        let value = |point: Option<&Point>| point.map_or(0.0, |point| point.value);
        let (first, last) = (value(course.points.first()), value(course.points.last()));
        let when = course.points.last().map_or("", |point| point.began.as_str());
        vec![
            text(figure),
            text(name),
            numbered(Some(course.points.len() as f64), course.points.len().to_string()),
            text(PreEscaped(line(course))),
            numbered(Some(first), shown(first)),
            numbered(Some(last), shown(last)),
            text(when),
            numbered(Some(last / first), format!("×{}", digits(last / first))),
        ]
    };
    html! {
        @if !studies.is_empty() {
            section #courses {
                h2 { "Figures over time" }
                p.about {
                    "Each point is one run of the same study; an open one is invalid or was interrupted. Machines, versions and \
                     settings may differ between runs."
                }
                @for (study, courses) in &studies {
                    figure.table {
                        figcaption { b { (study) } }
                        div.scroll { (tables::table(&format!("sortable {CARDS}"), titles, courses.iter().map(row))) }
                    }
                }
            }
        }
    }
}

/// A small line from zero, with a point for each run.
fn line(course: &Course) -> String {
    let (width, height) = (160.0, 30.0);
    let most = course.points.iter().map(|point| point.value).fold(0.0, f64::max);
    let step = (width - 8.0) / (course.points.len() - 1).max(1) as f64;
    let mut points = String::new();
    let mut dots = String::new();
    for (nth, Point { began, value, doubtful }) in course.points.iter().enumerate() {
        let (x, y) = (4.0 + nth as f64 * step, height - 4.0 - value / most.max(f64::MIN_POSITIVE) * (height - 8.0));
        let _ = write!(points, "{x:.1},{y:.1} ");
        if course.points.len() > MOST_MARKED {
            continue;
        }
        let shown = if course.less { duration(*value) } else { rate(*value) };
        let paint = if *doubtful { " style=\"fill:var(--ground)\" stroke=\"var(--c0)\"" } else { "" };
        let _ = write!(
            dots,
            "<circle class=\"c0\"{paint} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"><title>{began}: {shown}</title></circle>"
        );
    }
    format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{} runs\">\
         <polyline points=\"{}\" style=\"fill:none\" stroke=\"var(--c0)\" stroke-width=\"1.5\"/>{dots}</svg>",
        course.points.len(),
        points.trim_end()
    )
}
