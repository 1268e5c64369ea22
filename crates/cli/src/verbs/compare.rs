//! `compare RUN…`: compares runs.

use storebench_results::compare::{
    CompareRequest, Gate, Keep, Source, compare as compare_runs, markdown, save_baseline, text,
};

use storebench_report::{Recorded, compare_page};
use storebench_results::history::HistoryBaseline;
use storebench_results::human::plural;

use crate::args::{CompareArgs, CompareFormat, Undecided};
use crate::failure::Failure;
use crate::output::{layout, print, print_json};
use crate::outputs::{refuse_page, write_text};

pub(crate) fn compare(args: &CompareArgs) -> Result<u8, Failure> {
    let named = args.runs.iter().map(|run| Source::open(run));
    if let Some(name) = &args.save_baseline {
        return save(args, name);
    }
    if let Some(file) = &args.output {
        refuse_page(file, args.force)?;
    }
    let gates =
        args.fail_on.iter().map(|gate| gate.parse()).collect::<Result<Vec<Gate>, _>>().map_err(Failure::bad_input)?;
    let branch = args.baseline.as_deref().and_then(|name| name.strip_prefix("history:"));
    let history = branch.map(|branch| HistoryBaseline::open(&args.history, branch, args.last.into()));
    let history = history.transpose().map_err(Failure::bad_input)?;
    let baseline = args.baseline.iter().filter(|_| history.is_none());
    let baseline = baseline.map(|name| Source::baseline(&args.baselines, name));
    let sides = baseline.chain(named).collect::<Result<Vec<_>, _>>().map_err(Failure::bad_input)?;
    let CompareArgs { threshold, must_detect, anyway, .. } = *args;
    let undecided_passes = args.undecided == Undecided::Pass;
    let request = CompareRequest {
        sides: &sides,
        history: history.as_ref(),
        threshold,
        gates: &gates,
        must_detect,
        undecided_passes,
        anyway,
    };
    let result = compare_runs(&request).map_err(Failure::bad_input)?;
    if let Some(file) = &args.output {
        let mut recorded = Vec::new();
        for run in sides.iter().flat_map(|side| &side.runs) {
            recorded.push((run.name.clone(), Recorded::open(&run.file).map_err(Failure::bad_input)?));
        }
        let page = compare_page(&result, recorded).map_err(Failure::bad_input)?;
        write_text(file, &page, args.force)?;
    }
    match args.format {
        _ if args.json => print_json(&result)?,
        CompareFormat::Json => print_json(&result)?,
        CompareFormat::Markdown => print(&markdown(&result, args.all))?,
        CompareFormat::Text => print(&text(&result, args.all, layout()))?,
    }
    match result.trouble() {
        Some(message) => Err(Failure { code: result.exit_code(), message }),
        None => Ok(0),
    }
}

fn save(args: &CompareArgs, name: &str) -> Result<u8, Failure> {
    let [run] = args.runs.as_slice() else {
        return Err(Failure::bad_input("--save-baseline saves one run; name one"));
    };
    let run = Source::open(run).map_err(Failure::bad_input)?;
    let keep = match (args.keep_newest, args.force) {
        (Some(runs), _) => Keep::Newest(runs.into()),
        (None, true) => Keep::None,
        (None, false) => Keep::All,
    };
    let saved = save_baseline(&run, &args.baselines, name, keep).map_err(Failure::bad_input)?;
    let names = saved.removed.iter().filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()));
    let names: Vec<String> = names.collect();
    let removed = match names.len() as u64 {
        0 => String::new(),
        n => format!("; removed {}: {}", plural(n, "other run"), names.join(", ")),
    };
    let runs = plural(saved.runs as u64, "run");
    print(&format!("saved in {}; baseline {name} has {runs}{removed}\n", saved.path.display()))?;
    Ok(0)
}
