//! `history add`, `history show`, `history check`.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use storebench_report::history_page;
use storebench_results::history::{
    Added, DEFAULT_RECENT, HistoryEntry, HistoryLine, HistoryReport, HistoryRequest, add, history_annotations,
    history_answer, history_junit, history_markdown, history_report, history_text, read,
};
use storebench_results::human::plural;
use storebench_results::{exit, read_run};

use crate::args::{HistoryAction, HistoryAddArgs, HistoryArgs, HistoryCheckArgs, HistoryViewArgs, Undecided};
use crate::failure::Failure;
use crate::output::{layout, print, print_json_or};
use crate::outputs::{refuse_existing, refuse_page, write_text};
use crate::progress::line;

/// Variables in which CI systems name the commit, and the branch, of a job.
const COMMITS: [&str; 4] = ["GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILD_SOURCEVERSION"];
/// For so long after a run, what is checked out is taken for what was measured.
const FRESH: Duration = Duration::from_secs(24 * 3_600);
const BRANCHES: [&str; 4] = ["GITHUB_REF_NAME", "CI_COMMIT_BRANCH", "GIT_BRANCH", "BUILD_SOURCEBRANCHNAME"];

pub(crate) fn history(args: &HistoryArgs) -> Result<u8, Failure> {
    match &args.action {
        HistoryAction::Add(args) => add_runs(args),
        HistoryAction::Show(view) => {
            refuse_files(view, None)?;
            let report = report_of(view, DEFAULT_RECENT)?;
            write_page(view, &report)?;
            print_json_or(view.json, &report, || history_text(&report, layout()))?;
            Ok(exit::FINE)
        }
        HistoryAction::Check(args) => check(args),
    }
}

fn add_runs(args: &HistoryAddArgs) -> Result<u8, Failure> {
    // All of them are read before the first is added.
    let runs =
        args.runs.iter().map(|path| read_run(path)).collect::<Result<Vec<_>, _>>().map_err(Failure::bad_input)?;
    // What is checked out now was not measured by runs of other days.
    let fresh = matches!(&runs[..], [run] if run.run.ended_within(FRESH));
    let commit = args.commit.clone().or_else(|| known(&COMMITS, &["rev-parse", "HEAD"]).filter(|_| fresh));
    let branch = args.branch.clone().or_else(|| known_branch().filter(|_| fresh));
    let mut entries = Vec::new();
    for (path, run) in args.runs.iter().zip(&runs) {
        if run.run.unfinished().is_some() {
            let path = path.display();
            return Err(Failure::bad_input(format!(
                "{path}: the run did not end, so its figures are partial; run it again"
            )));
        }
        entries.push(HistoryEntry::of(run, commit.clone(), branch.clone()));
    }
    let mut out = String::new();
    let mut some_new = false;
    for entry in &entries {
        let added = add(&args.folder.folder, entry).map_err(Failure::bad_input)?;
        some_new |= added.there.is_none();
        out.push_str(&format!("{}: {}\n", in_words(&added, entry), added.file.display()));
    }
    let unknown = [
        (&commit, "commit", "a change will be named by the time of its run"),
        (&branch, "branch", "`--branch` and `history:BRANCH` do not find it"),
    ];
    let unknown: Vec<_> = unknown.into_iter().filter(|(known, ..)| known.is_none()).collect();
    if some_new && !unknown.is_empty() {
        let told = unknown.iter().map(|(_, what, so)| format!("no {what} is known, so {so}")).collect::<Vec<_>>();
        let flags = unknown.iter().map(|(_, what, _)| format!("--{what}")).collect::<Vec<_>>();
        line(&format!(
            "note: {}: give {} (looked up only for one run that ended within a day)",
            told.join("; "),
            flags.join(" and ")
        ));
    }
    print(&out)?;
    Ok(exit::FINE)
}

/// What became of an entry. The one that was there keeps its commit and its branch.
fn in_words(added: &Added, entry: &HistoryEntry) -> String {
    let Some(there) = &added.there else { return "added".to_owned() };
    let kept = [("commit", &there.commit, &entry.commit), ("branch", &there.branch, &entry.branch)];
    let kept = kept.into_iter().filter(|(_, kept, known)| known.is_some() && kept != known);
    let kept: Vec<String> = kept
        .map(|(what, kept, _)| match kept {
            Some(kept) => format!("with {what} {kept}"),
            None => format!("without a {what}"),
        })
        .collect();
    match kept.is_empty() {
        true => "is there already".to_owned(),
        false => format!("is there already, {} (remove the file to add it again)", kept.join(" and ")),
    }
}

/// What the CI job says, or else git.
fn known(names: &[&str], ask: &[&str]) -> Option<String> {
    let of_job = names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    of_job.or_else(|| of_git(ask))
}

/// The branch of the CI job, or of the working directory. Without one, git names the commit itself HEAD.
fn known_branch() -> Option<String> {
    known(&BRANCHES, &["rev-parse", "--abbrev-ref", "HEAD"]).filter(|name| name != "HEAD")
}

/// What git says of the working directory. `None` without git, or outside of a repository.
fn of_git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn report_of(view: &HistoryViewArgs, recent: u32) -> Result<HistoryReport, Failure> {
    let entries = read(&view.folder.folder).map_err(Failure::bad_input)?;
    let here = || known_branch().filter(|name| entries.iter().any(|entry| entry.branch.as_ref() == Some(name)));
    let branch = view.branch.clone().or_else(here);
    let request = HistoryRequest {
        entries: &entries,
        branch: branch.as_deref(),
        figures: &view.figures,
        false_alarm_every: view.false_alarm_every,
        recent,
    };
    history_report(&request).map_err(Failure::bad_input)
}

/// Refuses files that exist, before anything is read.
fn refuse_files(view: &HistoryViewArgs, junit: Option<&Path>) -> Result<(), Failure> {
    view.output.as_deref().map_or(Ok(()), |file| refuse_page(file, view.force))?;
    junit.map_or(Ok(()), |file| refuse_existing(file, view.force))
}

fn write_page(view: &HistoryViewArgs, report: &HistoryReport) -> Result<(), Failure> {
    view.output.as_deref().map_or(Ok(()), |file| write_text(file, &history_page(report), view.force))
}

fn check(args: &HistoryCheckArgs) -> Result<u8, Failure> {
    refuse_files(&args.view, args.junit.as_deref())?;
    let report = report_of(&args.view, args.recent)?;
    write_page(&args.view, &report)?;
    if let Some(file) = &args.junit {
        write_text(file, &history_junit(&report), args.view.force)?;
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
            let message = match report.runs_missing() {
                0 => "not decided: some figure has no value that counts in its newest run".to_owned(),
                missing => format!("not decided: {} more needed", plural(missing.into(), "run")),
            };
            Err(Failure { code, message: message + "; --undecided pass lets such a check pass" })
        }
        code => {
            let names = |of: &dyn Fn(&&HistoryLine) -> bool| {
                report.lines.iter().filter(of).map(HistoryLine::name).collect::<Vec<_>>().join(", ")
            };
            let lost = names(&|line| line.is_lost());
            let worse = names(&|line| line.alarms(args.recent).next().is_some());
            let told = [("without a value", lost), ("became worse", worse)];
            let told = told.into_iter().filter(|(_, names)| !names.is_empty());
            let told: Vec<String> = told.map(|(what, names)| format!("{what}: {names}")).collect();
            Err(Failure { code, message: told.join("; ") })
        }
    }
}

fn append(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::bad_input(format!("{}: cannot be written: {e}", file.display()));
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
