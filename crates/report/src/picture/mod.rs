//! The first chart of a run as SVG. The page shows it without a script, and `report --picture` writes it for a README or a
//! pull request. Lines are labelled directly, without a legend.
//!
//! What it shows depends on the study: the time line of faults, a rate against its limit, the curve of a factor, stores
//! side by side, or the times of a single configuration.

mod curves;
mod dots;
mod faults;
mod rates;
pub(crate) mod scale;
pub(crate) mod sheet;
mod spans;

use indexmap::IndexSet;
use storebench_results::RunResult;
use storebench_results::answer::answer;
use storebench_results::human::cut;
use storebench_results::side_by_side::{panels, spans};

use rates::RatePanel;
use sheet::{Anchor, LETTER, Sheet, svg};

/// Width of the picture, in pixels.
const WIDTH: f64 = 760.0;
const HEAD: f64 = 30.0;
const FOOT: f64 = 26.0;
/// Height of a plot with a vertical axis.
const PLOT: f64 = 170.0;

/// Colours as in the page's style sheet, for a picture without a page. Light ones of lines and dots are attributes
/// ([`LIGHT`]): of the programs that draw a picture, only browsers know variables, and only these know a dark screen.
const STYLE: &str = ".t{fill:#1b1f23}.d{fill:#5b646d}.l{stroke:#d9dde1}.ground{fill:#fff}\
    @media(prefers-color-scheme:dark){.t{fill:#e4e8ec}.d{fill:#98a3ae}.l{stroke:#363d45}.ground{fill:#14171a}.limit{--c:#f2837b}\
    .c0{--c:#56a8e8}.c1{--c:#f08a45}.c2{--c:#3ec99b}.c3{--c:#dd8fc0}.c4{--c:#d9c14a}.c5{--c:#8fd3f7}.c6{--c:#b48fd8}.c7{--c:#b8bfc6}\
    [fill^='#']{fill:var(--c)}[stroke^='#']{stroke:var(--c)}}";
const LIGHT: [(&str, &str); 9] = [
    ("limit", "#b3261e"),
    ("c0", "#0072b2"),
    ("c1", "#d55e00"),
    ("c2", "#009e73"),
    ("c3", "#b3578f"),
    ("c4", "#8a7400"),
    ("c5", "#3f9fd6"),
    ("c6", "#7a4b9a"),
    ("c7", "#4d4d4d"),
];

/// How a picture is laid out.
#[derive(Debug, Clone, Copy)]
struct Frame {
    width: f64,
    /// Plots beside each other.
    columns: usize,
    /// Letters of a configuration's name, at most.
    letters: usize,
}

const WIDE_FRAME: Frame = Frame { width: WIDTH, columns: 3, letters: 34 };
/// For the screen of a phone: plots below each other.
const NARROW_FRAME: Frame = Frame { width: 360.0, columns: 1, letters: 18 };

/// A plot's place.
#[derive(Debug, Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
}

/// The picture of a run; none if nothing was measured that can be drawn.
pub fn picture(result: &RunResult) -> Option<String> {
    drawn(result, true, WIDE_FRAME)
}

/// The same for the page, which has the colours: for wide and for narrow screens.
pub(crate) fn for_page(result: &RunResult) -> Option<String> {
    Some(drawn(result, false, WIDE_FRAME)? + &drawn(result, false, NARROW_FRAME)?)
}

fn drawn(result: &RunResult, alone: bool, frame: Frame) -> Option<String> {
    let stores: IndexSet<&str> = result.configurations.iter().map(|c| c.store.as_str()).collect();
    let hue = |store: &str| stores.get_index_of(store).unwrap_or(0) % crate::subject::COLOURS;
    let mut sheet = Sheet::default();
    let (faults, rates, curves) = (faults::panels(result, &hue), rates::panels(result, &hue), curves::curves(result));
    let (dots, spans) = (panels(result), spans(result));
    let height = match () {
        () if !faults.is_empty() => {
            in_rows(&mut sheet, faults::WHAT, &faults, frame, 0.0, |sheet, panel, place| panel.draw(sheet, place))
        }
        () if !rates.is_empty() => {
            let what = if rates.iter().any(RatePanel::is_search) { rates::WHAT_OF_SEARCH } else { rates::WHAT };
            let extra = rates.iter().map(RatePanel::extra).fold(0.0, f64::max);
            in_rows(&mut sheet, what, &rates, frame, extra, |sheet, panel, place| panel.draw(sheet, place))
        }
        () if !curves.is_empty() => in_rows(&mut sheet, &curves[0].what, &curves, frame, 0.0, |sheet, curve, place| {
            curve.draw(sheet, place, &hue)
        }),
        () if !dots.is_empty() => dots::draw(&mut sheet, &dots, frame, &hue),
        () if !spans.is_empty() => spans::draw(&mut sheet, &spans, frame),
        () => return None,
    };
    let top = if alone { 30.0 } else { 0.0 };
    let (width, height, text) = (frame.width, height + top, answer(result).found);
    let class = if frame.columns == 1 { "picture narrow" } else { "picture" };
    let mut inner = String::new();
    if alone {
        let mut head = Sheet::default();
        head.strong(12.0, 20.0, &cut(&result.run.title, (width / LETTER) as usize));
        inner += &format!(
            "<style>{STYLE}</style><rect class=\"ground\" width=\"{width}\" height=\"{height:.0}\"/>{}",
            head.into_text()
        );
    }
    let drawing = sheet.into_text();
    let drawing = if alone { in_light(&drawing) } else { drawing };
    inner += &format!("<g transform=\"translate(0 {top})\">{drawing}</g>");
    Some(svg(class, (width, height), &text, &inner))
}

/// A drawing with the light colour of each class in place of the variable.
fn in_light(drawing: &str) -> String {
    let light = |element: &str| {
        let class = element.split_once("class=\"")?.1.split('"').next()?;
        let (_, colour) = LIGHT.iter().find(|(name, _)| *name == class)?;
        Some(element.replace("var(--c)", colour))
    };
    drawing.split_inclusive('>').map(|element| light(element).unwrap_or_else(|| element.to_owned())).collect()
}

/// Draws plots in rows, below a line that says what all of them show. Each has `extra` more height. Returns the height.
fn in_rows<T>(
    sheet: &mut Sheet,
    what: &str,
    all: &[T],
    frame: Frame,
    extra: f64,
    mut draw: impl FnMut(&mut Sheet, &T, Place),
) -> f64 {
    let (line, height) = (22.0, HEAD + PLOT + FOOT + extra);
    let columns = all.len().clamp(1, frame.columns);
    let width = (frame.width - 12.0) / columns as f64;
    sheet.text("d", Anchor::Right, (12.0, 14.0), &cut(what, (frame.width / LETTER) as usize));
    for (nth, one) in all.iter().enumerate() {
        let (x, y) = (12.0 + (nth % columns) as f64 * width, line + (nth / columns) as f64 * height);
        draw(sheet, one, Place { x, y, width });
    }
    line + all.len().div_ceil(columns) as f64 * height
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use storebench_results::{
        FaultResult, FigureOverTrials, LimitResult, ProbeResult, RateResult, SearchResult, read_run,
    };
    use storebench_study::workload::FaultKind;

    use super::*;

    fn run() -> RunResult {
        read_run(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/run.json")).unwrap()
    }

    #[track_caller]
    fn drawn_with(run: &RunResult, parts: &[&str]) {
        for svg in [picture(run).unwrap(), for_page(run).unwrap()] {
            for part in parts {
                assert!(svg.contains(part), "{part} is not in {svg}");
            }
            assert!(!svg.contains("NaN") && !svg.contains("\"inf"), "{svg}");
        }
    }

    /// Office programs and most converters know no variables, and would draw black lines.
    #[test]
    fn a_picture_alone_needs_no_variables_on_a_light_screen() {
        let alone = picture(&run()).unwrap();
        let (style, drawing) = alone.split_once("</style>").unwrap();
        assert!(!drawing.contains("var(") && drawing.contains("=\"#0072b2\""), "{drawing}");
        let light = style.split("@media").next().unwrap();
        assert!(!light.contains("--c"), "{light}");
        for (class, _) in LIGHT {
            assert!(style.contains(&format!(".{class}{{--c:#")), "{class} has no dark colour");
        }
        assert!(for_page(&run()).unwrap().contains("var(--c)"), "the page has colours of its own");
    }

    #[test]
    fn faults_are_a_time_line() {
        let mut run = run();
        for trial in &mut run.trials {
            let phase = trial.phases.last_mut().unwrap();
            phase.course_per_s = vec![100.0, 0.0, 90.0];
            phase.elapsed_ns = 3_000_000_000;
            let kill = FaultResult {
                what: FaultKind::Kill,
                began_ns: Some(1_000_000_000),
                mended_ns: Some(1_500_000_000),
                unavailable_ns: 700_000_000,
                ..FaultResult::default()
            };
            let full = FaultResult { what: FaultKind::DiskFull, began_ns: Some(1_100_000_000), ..kill.clone() };
            let cut = |began_ns| FaultResult { what: FaultKind::PowerCut, began_ns: Some(began_ns), ..kill.clone() };
            let cuts = [cut(1_800_000_000), cut(2_900_000_000)];
            let [first, second] = cuts;
            phase.faults =
                vec![kill, full, first, second, FaultResult { what: FaultKind::Pause, ..FaultResult::default() }];
        }
        drawn_with(&run, &["answers per second", ">kill<", ">disk-full<", "power-cut 2<", "<polyline", "fill-opacity"]);
        assert!(!picture(&run).unwrap().contains(">pause<"), "this fault was not injected");
        run.trials.truncate(1);
        drawn_with(&run, &["not back in 700 ms"]);
        let faults = &mut run.trials[0].phases.last_mut().unwrap().faults;
        faults.iter_mut().for_each(|fault| fault.first_answer_ns = Some(700_000_000));
        drawn_with(&run, &["no answer for 700 ms<"]);
    }

    /// One curve for each phase that the answer is about, such as import and export.
    #[test]
    fn each_phase_that_a_factor_varies_has_a_curve() {
        let mut run = run();
        let mut load = run.sweeps[0].clone();
        let last = load.sweep.curve[1].clone();
        load.sweep.curve.push(storebench_results::sweep::SweptValue { value: 100.0, ..last });
        let mut mixed = load.clone();
        (mixed.factor, mixed.figure) = ("phases.mixed.workers".into(), "mixed.throughput".into());
        mixed.others.insert("phases.load.batch".into(), 1.into());
        // What the batches of the load change in `mixed` is not asked about.
        let beside = storebench_results::FactorSweep { figure: "mixed.throughput".into(), ..load.clone() };
        run.sweeps = vec![load, beside, mixed];
        for trial in &mut run.trials {
            trial.values.insert("phases.mixed.workers".into(), 2.into());
            trial.searches.clear();
            trial.phases.iter_mut().for_each(|phase| phase.limits.clear());
        }
        drawn_with(
            &run,
            &[
                "documents or operations per second",
                ">load by batch: documents per second<",
                ">mixed by workers: operations per second<",
            ],
        );
        assert!(!picture(&run).unwrap().contains("mixed by batch"));
        run.sweeps.truncate(1);
        drawn_with(&run, &["load: documents per second", ">by batch<"]);
    }

    #[test]
    fn limits_are_drawn_against_rates() {
        let mut run = run();
        let rate = |per_s: f64| RateResult {
            scheduled: 100,
            scheduled_per_s: per_s,
            achieved_per_s: per_s,
            sustained_share: 1.0,
            planned: per_s.into(),
        };
        for (nth, trial) in run.trials.iter_mut().enumerate() {
            trial.searches.clear();
            let phase = trial.phases.last_mut().unwrap();
            phase.rate = Some(rate(if nth % 2 == 0 { 100.0 } else { 2_000.0 }));
            phase.limits = vec![LimitResult {
                path: "steady.response.p99".to_owned(),
                limit: 200e6,
                // The last one is infinite.
                found: (nth > 0).then_some(1e6),
                share_within: Some(1.0),
                attempts: 100,
                met: nth > 0,
            }];
        }
        drawn_with(&run, &["steady.response.p99", "limit 200 ms", ">100/s<", ">2,000/s<", ">∞<"]);
        assert!(!picture(&run).unwrap().contains('▾'), "no search, no answer");
    }

    /// Every try of a search is a dot, and what it found is marked.
    #[test]
    fn the_answer_of_a_search_is_marked() {
        let mut run = run();
        for trial in &mut run.trials {
            let limit = |found: f64| LimitResult {
                path: "steady.response.p99".to_owned(),
                limit: 200e6,
                found: Some(found),
                share_within: Some(1.0),
                attempts: 100,
                met: found < 200e6,
            };
            let probe =
                |rate: f64, found: f64| ProbeResult { rate, limits: vec![limit(found)], ..ProbeResult::default() };
            let probes = vec![probe(100.0, 1e6), probe(1_000.0, 3e6), probe(8_000.0, 900e6)];
            trial.searches =
                vec![SearchResult { phase: "steady".into(), rate: Some(1_000.0), probes, ..SearchResult::default() }];
        }
        let trials = run.trials.len();
        let known = run.configurations[0].figures.values().next().unwrap().clone();
        let figure = FigureOverTrials { figure: scale::alone(1_000.0), none_in: Vec::new(), at_least: false, ..known };
        run.configurations[0].figures.insert("steady.rate-within-limits".into(), figure);
        let name = run.configurations[0].configuration.clone();
        drawn_with(&run, &["limit 200 ms", &format!("{name} 1,000/s"), ">5,000/s<"]);
        let svg = picture(&run).unwrap();
        assert!(svg.contains('▾'), "{svg}");
        assert_eq!(svg.matches("<circle").count(), trials * 3);
        assert!(!svg.contains("<polyline"), "tries near the answer are repeated, so a line through them means nothing");
    }
}
