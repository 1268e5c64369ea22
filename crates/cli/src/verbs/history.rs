//! `history add`, `history show`, `history check`.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use storebench_results::history::{
    DEFAULT_RECENT, HistoryEntry, HistoryReport, HistoryRequest, add, history_annotations, history_answer,
    history_junit, history_markdown, history_report, history_text, read,
};
use storebench_results::human::plural;
use storebench_results::{exit, read_run};

use crate::args::{HistoryAction, HistoryAddArgs, HistoryArgs, HistoryCheckArgs, HistoryViewArgs, Undecided};
use crate::failure::Failure;
use crate::output::{layout, print, print_json_or};
use crate::outputs::{refuse_existing, write_text};
use crate::progress::line;

/// Variables in which CI systems name the commit, and the branch, of a job.
const COMMITS: [&str; 4] = ["GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILD_SOURCEVERSION"];
const BRANCHES: [&str; 4] = ["GITHUB_REF_NAME", "CI_COMMIT_BRANCH", "GIT_BRANCH", "BUILD_SOURCEBRANCHNAME"];

pub(crate) fn history(args: &HistoryArgs) -> Result<u8, Failure> {
    match &args.action {
        HistoryAction::Add(args) => add_runs(args),
        HistoryAction::Show(args) => {
            let report = report_of(&args.view, DEFAULT_RECENT)?;
            print_json_or(args.view.json, &report, || history_text(&report, layout()))?;
            Ok(exit::FINE)
        }
        HistoryAction::Check(args) => check(args),
    }
}

fn add_runs(args: &HistoryAddArgs) -> Result<u8, Failure> {
    let given = |value: &Option<String>, names: &[&str], ask: &[&str]| {
        let of_job = || names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        value.clone().or_else(of_job).or_else(|| of_git(ask))
    };
    let commit = given(&args.commit, &COMMITS, &["rev-parse", "HEAD"]);
    // Without a branch, git names the commit itself HEAD.
    let branch = given(&args.branch, &BRANCHES, &["rev-parse", "--abbrev-ref", "HEAD"]).filter(|name| name != "HEAD");
    // All of them are read before the first is added.
    let mut entries = Vec::new();
    for path in &args.runs {
        let run = read_run(path).map_err(Failure::bad_input)?;
        let unfinished = run.run.interrupted || run.run.ended.is_none();
        if unfinished {
            let path = path.display();
            return Err(Failure::bad_input(format!(
                "{path}: the run did not end, so its figures are partial; run it again"
            )));
        }
        entries.push(HistoryEntry::of(&run, commit.clone(), branch.clone()));
    }
    let mut out = String::new();
    for entry in &entries {
        let added = add(&args.folder.folder, entry).map_err(Failure::bad_input)?;
        let what = if added.was_there { "is there already" } else { "added" };
        out.push_str(&format!("{what}: {}\n", added.file.display()));
    }
    if commit.is_none() {
        line("note: no commit is known, so a change will be named by the time of its run: give --commit");
    }
    print(&out)?;
    Ok(exit::FINE)
}

/// What git says of the working directory. `None` without git, or outside of a repository.
fn of_git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn report_of(view: &HistoryViewArgs, recent: u32) -> Result<HistoryReport, Failure> {
    let entries = read(&view.folder.folder).map_err(Failure::bad_input)?;
    let request = HistoryRequest {
        entries: &entries,
        branch: view.branch.as_deref(),
        figures: &view.figures,
        false_alarm_every: view.false_alarm_every,
        recent,
    };
    history_report(&request).map_err(Failure::bad_input)
}

fn check(args: &HistoryCheckArgs) -> Result<u8, Failure> {
    if let Some(file) = &args.junit {
        refuse_existing(file, args.force)?;
    }
    let report = report_of(&args.view, args.recent)?;
    if let Some(file) = &args.junit {
        write_text(file, &history_junit(&report), args.force)?;
    }
    if args.github {
        if let Some(file) = std::env::var_os("GITHUB_STEP_SUMMARY") {
            append(Path::new(&file), &history_markdown(&report))?;
        }
        print(&history_annotations(&report))?;
        print(&format!("{}\n", history_answer(&report)))?;
    } else if args.markdown {
        print(&history_markdown(&report))?;
    } else {
        print_json_or(args.view.json, &report, || history_text(&report, layout()))?;
    }
    match report.exit_code() {
        exit::UNDECIDED if args.undecided == Undecided::Pass => Ok(exit::FINE),
        exit::FINE => Ok(exit::FINE),
        code @ exit::UNDECIDED => {
            let current = report.lines.iter().filter(|line| line.current);
            let message = match current.map(|line| line.runs_missing).max() {
                Some(missing) => format!("not decided: {} more needed", plural(missing.into(), "run")),
                None => "not decided: the newest run has no figure that counts".to_owned(),
            };
            Err(Failure { code, message: message + "; --undecided pass lets such a check pass" })
        }
        code => {
            let worse = report.lines.iter().filter(|line| line.alarms(args.recent).next().is_some());
            let names: Vec<String> = worse.map(|line| line.name()).collect();
            Err(Failure { code, message: format!("became worse: {}", names.join(", ")) })
        }
    }
}

fn append(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::bad_input(format!("{}: cannot be written: {e}", file.display()));
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
