//! Every command in the documentation works: README, `docs/`, the Python README, and the comments of the studies.
//!
//! Each command runs in the order of its page, in the shell, with servers of the tests in place of the hosts that the
//! page names, and with less work. [`pages`] lists what a command needs beforehand, and the few that are planned,
//! refused or left out. A command that no page lists runs as it is.

mod extract;
mod pages;
mod stand_ins;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use self::extract::{Printed, Shown, calls, in_blocks, in_comments, in_text, not_printed, printed};
use self::pages::{Case, How, PAGES, Page};
use self::stand_ins::{Stage, WITH_FAULTS, shortened};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text_of(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The files of the documentation that may show commands.
fn files() -> Vec<String> {
    let mut files = vec!["README.md".to_owned(), "crates/python/README.md".to_owned()];
    for (folder, ending) in [("docs", "md"), ("studies", "toml"), ("studies/examples", "toml")] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let names = entries.filter(|path| path.extension().is_some_and(|found| found == ending));
        files.extend(names.map(|path| format!("{folder}/{}", path.file_name().unwrap().to_string_lossy())));
    }
    files.sort();
    files
}

/// The commands that a file shows in blocks or, if it is a study, in comments.
fn shown(file: &str) -> Vec<Shown> {
    let text = text_of(file);
    if file.ends_with(".toml") {
        return in_comments(&text);
    }
    in_blocks(&text).unwrap_or_else(|e| panic!("{file}, {e}"))
}

/// What a page shows as printed.
fn outputs(file: &str) -> Vec<Printed> {
    if file.ends_with(".md") { printed(&text_of(file)) } else { Vec::new() }
}

/// How a command of a page is to be run.
fn case_of<'a>(cases: &'a [Case], command: &Shown) -> Option<&'a Case> {
    cases.iter().find(|case| command.text.starts_with(case.begins))
}

/// Whether the parser of the command line takes these words. Text may leave out arguments that a call needs.
fn parsed(words: &[String], may_lack_arguments: bool) -> Result<(), String> {
    match storebench_cli::command().try_get_matches_from(words) {
        Ok(_) => Ok(()),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp => Ok(()),
            ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                if may_lack_arguments =>
            {
                Ok(())
            }
            _ => Err(error.to_string()),
        },
    }
}

/// The exit codes of a command that worked. A busy machine may make a measurement invalid, and gates and histories have
/// outcomes of their own.
fn is_fine(text: &str, code: i32) -> bool {
    match code {
        0 => true,
        1 => ["storebench compare ", "storebench check ", "storebench history check", "storebench rerun "]
            .iter()
            .any(|call| text.contains(call)),
        4 => [" run ", " bench ", "storebench compare ", "storebench merge ", "storebench rerun "]
            .iter()
            .any(|call| text.contains(call)),
        5 => ["storebench compare ", "storebench history check", "storebench rerun "]
            .iter()
            .any(|call| text.contains(call)),
        _ => false,
    }
}

/// Runs a command that must print these lines. Says what it did, or why it does not work.
fn work(stage: &Stage, command: &Shown, prints: &[String], case: Option<&Case>) -> Result<&'static str, String> {
    for words in calls(&command.text) {
        parsed(&words, false)?;
    }
    let usual = Case::of("");
    let case = case.unwrap_or(&usual);
    let mut text = command.text.clone();
    for (from, to) in case.edits {
        if !text.contains(from) {
            return Err(format!("the list in pages.rs replaces `{from}`, which the command does not contain"));
        }
        text = text.replace(from, &to.replace("WITH_FAULTS", &WITH_FAULTS.replace('\n', " ")));
    }
    if !case.before.is_empty() {
        let done = stage.shell(&stage.in_place(&shortened(case.before)));
        if !is_fine(case.before, done.code) {
            return Err(format!("`{}`, before it: {done:?}", case.before));
        }
    }
    let text = match case.how {
        How::Runs | How::Refused(..) => shortened(&text),
        How::Planned => text.replace("storebench run ", "storebench plan "),
        How::Serves(socket) => {
            return stage.serves(&text, socket).map(|()| "ran until it was interrupted");
        }
        How::TestedBy(_) => return Ok("tested elsewhere"),
        How::SameAs(_) => return Ok("run by another page"),
        How::LeftOut(_) => return Ok("left out"),
    };
    let done = stage.shell(&stage.in_place(&text));
    match case.how {
        How::Refused(code, says) => {
            let is_so = done.code == code && done.err.contains(says);
            is_so.then_some("refused").ok_or_else(|| format!("expected exit {code} and `{says}` of `{text}`: {done:?}"))
        }
        How::Planned if done.code == 0 => Ok("planned"),
        How::Runs if is_fine(&text, done.code) => {
            let output = done.out + &done.err;
            match not_printed(prints, &output)[..] {
                [] => Ok("ran"),
                ref lines => {
                    Err(format!("the page shows lines with other words than it prints:\n{lines:#?}\n{output}"))
                }
            }
        }
        _ => Err(format!("exit {} of `{text}`\n{}{}", done.code, done.out, done.err)),
    }
}

/// Runs the commands of a page in their order, and names all that do not work.
fn run_page(page: &Page) {
    let stage = Stage::new();
    (page.set_up)(&stage);
    let cases = (page.cases)();
    let mut broken = Vec::new();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let prints = outputs(page.file);
    for command in shown(page.file) {
        let began = std::time::Instant::now();
        let prints = prints.iter().find(|of| of.by == Some(command.line) && !of.is_example);
        match work(&stage, &command, prints.map_or(&[], |of| &of.text[..]), case_of(&cases, &command)) {
            Ok(did) => {
                *counts.entry(did).or_default() += 1;
                let first = command.text.lines().next().unwrap_or_default();
                println!("{}:{}: {did} in {:.1?}: {first}", page.file, command.line, began.elapsed());
            }
            Err(why) => broken.push(format!("{}:{}: {}\n{why}", page.file, command.line, command.text)),
        }
    }
    println!("{}: {counts:?}", page.file);
    assert!(broken.is_empty(), "{} commands do not work:\n\n{}", broken.len(), broken.join("\n\n"));
}

/// One test for each page, so that they run at the same time.
macro_rules! pages_run {
    ($($test:ident: $file:literal;)*) => {
        $(
            #[test]
            fn $test() {
                run_page(PAGES.iter().find(|page| page.file == $file).unwrap());
            }
        )*
        const RUN: &[&str] = &[$($file),*];
    };
}

pages_run! {
    // The longest one first.
    commands_about_stores: "docs/stores.md";
    commands_of_the_readme: "README.md";
    commands_of_choosing_a_store: "docs/choosing-a-store.md";
    commands_of_bundles: "docs/bundles.md";
    commands_of_the_command_line: "docs/cli.md";
    commands_of_servers: "docs/servers.md";
    commands_of_several_machines: "docs/clusters.md";
    commands_of_comparisons: "docs/compare.md";
    commands_of_consistency: "docs/consistency.md";
    commands_of_efficiency: "docs/efficiency.md";
    commands_of_history: "docs/history.md";
    commands_of_infer: "docs/infer.md";
    commands_of_metrics: "docs/metrics.md";
    commands_of_moving_data: "docs/moving-data.md";
    commands_of_the_report: "docs/report.md";
    commands_of_the_studies: "docs/studies.md";
    commands_of_the_study_file: "docs/study-file.md";
    commands_of_traces: "docs/traces.md";
    commands_of_bulk_insert: "studies/bulk-insert.toml";
    commands_of_first_look: "studies/first-look.toml";
    commands_of_million_writes: "studies/million-writes.toml";
    commands_of_one_setting: "studies/one-setting.toml";
    commands_of_parallel_transfer: "studies/parallel-transfer.toml";
    commands_of_reading_list: "studies/reading-list.toml";
    commands_of_what_if_it_dies: "studies/what-if-it-dies.toml";
    commands_of_every_store: "studies/examples/every-store.toml";
    commands_of_insert_batches: "studies/examples/insert-batches.toml";
    commands_of_key_value: "studies/examples/key-value.toml";
    commands_of_open_loop: "studies/examples/open-loop.toml";
    commands_of_own_documents: "studies/examples/own-documents.toml";
}

/// No command of the documentation is without a test, and each that is left out is listed with its reason.
#[test]
fn every_command_is_accounted_for() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files() {
        let commands = shown(&file);
        let page = PAGES.iter().find(|page| page.file == file);
        assert!(commands.is_empty() || page.is_some(), "{file} shows commands that no test runs; add it to PAGES");
        let Some(page) = page else { continue };
        let cases = (page.cases)();
        for case in &cases {
            let is_used =
                commands.iter().any(|command| case_of(&cases, command).is_some_and(|of| of.begins == case.begins));
            assert!(is_used, "{file} has no command that begins with `{}`", case.begins);
        }
        for command in &commands {
            let how = case_of(&cases, command).map_or(How::Runs, |case| case.how);
            if let How::LeftOut(why) = how {
                println!("left out: {file}:{}: {why}: {}", command.line, command.text);
            }
            if let How::TestedBy(test) = how {
                let (file, test) = test.split_once("::").unwrap();
                let code = text_of(&format!("crates/cli/tests/cli/{file}.rs"));
                assert!(code.contains(&format!("fn {test}()")), "{file}.rs has no test {test}");
            }
            if let How::SameAs(other) = how {
                let is_run = |of: &Shown| calls(&of.text) == calls(&command.text);
                assert!(shown(other).iter().any(is_run), "{other} does not run {}", command.text);
            }
            let kind = match how {
                How::Runs | How::Serves(_) => "run",
                How::Planned => "planned",
                How::Refused(..) => "refused as expected",
                How::TestedBy(_) => "tested elsewhere",
                How::SameAs(_) => "run by another page",
                How::LeftOut(_) => "left out",
            };
            *counts.entry(kind).or_default() += 1;
        }
    }
    println!("commands of the documentation: {counts:?}");
    assert_eq!(counts.get("left out").copied().unwrap_or(0), pages::LEFT_OUT, "{counts:?}");
    for page in PAGES {
        assert!(RUN.contains(&page.file), "{} has no test", page.file);
    }
}

/// What the documentation shows as printed is compared with what is printed, or is called an example of a day.
#[test]
fn every_output_is_accounted_for() {
    let (mut compared, mut examples, mut neither) = (0, 0, Vec::new());
    for file in files() {
        let cases = PAGES.iter().find(|page| page.file == file).map_or(Vec::new(), |page| (page.cases)());
        let commands = shown(&file);
        for of in outputs(&file) {
            let by = commands.iter().find(|command| of.by == Some(command.line));
            let how = by.map(|command| case_of(&cases, command).map_or(How::Runs, |case| case.how));
            match how {
                _ if of.is_example => examples += 1,
                Some(How::Runs) => compared += 1,
                _ => neither.push(format!("{file}:{}: {}", of.line, of.text[0])),
            }
        }
    }
    println!("outputs: {compared} compared, {examples} examples");
    assert!(
        neither.is_empty(),
        "neither printed by a command of the page nor an example of a day:\n{}",
        neither.join("\n")
    );
    assert!(compared > 4 && examples > 4, "{compared} {examples}");
}

/// The members that `--json` prints are those that the pages list.
#[test]
fn every_member_of_json_is_listed() {
    for (file, before, command) in [
        ("docs/consistency.md", "`storebench-check/1`:", "storebench check history.jsonl --json"),
        ("docs/infer.md", "the same as one JSON document:", "storebench infer orders.jsonl --check --json"),
        ("docs/cli.md", "`--json` prints one document:\n", "storebench conform sqlite:check.db --json"),
    ] {
        let stage = Stage::new();
        (PAGES.iter().find(|page| page.file == file).unwrap().set_up)(&stage);
        let text = text_of(file);
        let list = text.split_once(before).unwrap().1.trim_start().split("\n\n").next().unwrap();
        // In a table, the first column; in a sentence, what is not in parentheses.
        let names: String = if list.starts_with('|') {
            list.lines().skip(2).filter_map(|row| row.split('|').nth(1)).collect()
        } else {
            list.split('(').map(|part| part.split_once(')').map_or(part, |(_, after)| after)).collect()
        };
        let listed = names.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches("[]").to_owned());
        let listed: BTreeSet<String> = listed.chain(["format".to_owned()]).collect();
        let done = stage.shell(command);
        let printed: serde_json::Value = serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}: {done:?}"));
        assert_eq!(printed.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>(), listed, "{file}");
    }
}

/// What text names in passing is at least a command that exists, with flags that it has.
#[test]
fn every_command_in_text_is_parsed() {
    let mut count = 0;
    for file in files() {
        for command in in_text(&text_of(&file)) {
            // The form of all commands.
            if command.text.starts_with("storebench VERB") || command.text == "storebench help VERB" {
                continue;
            }
            for words in calls(&command.text) {
                count += 1;
                parsed(&words, true).unwrap_or_else(|why| panic!("{file}:{}: {}\n{why}", command.line, command.text));
            }
        }
    }
    println!("{count} commands in text are parsed");
    assert!(count > 30, "{count}");
}

/// A command that does not exist, a flag that it lacks, and a value that it does not take are found.
#[test]
fn what_does_not_work_is_found() {
    let stage = Stage::new();
    let broken = |text: &str, case: Option<&Case>| {
        work(&stage, &Shown { line: 1, text: text.to_owned() }, &[], case).unwrap_err()
    };
    assert!(broken("storebench rum x.toml", None).contains("unrecognized subcommand"));
    assert!(broken("storebench plan x.toml --presets laptop", None).contains("unexpected argument"));
    assert!(broken("storebench plan bulk-insert --preset lapto", None).contains("did you mean"));
    let left_out = Case::of("").how(How::LeftOut("a reason"));
    assert!(broken("storebench bench null: --rates 5", Some(&left_out)).contains("unexpected argument"));
    let refused = Case::of("").how(How::Refused(2, "another reason"));
    assert!(broken("storebench run no-such-study", Some(&refused)).contains("another reason"));
    let studies = Shown { line: 1, text: "storebench studies".to_owned() };
    let error = work(&stage, &studies, &["no such word".to_owned()], None).unwrap_err();
    assert!(error.contains("other words") && error.contains("no such word"), "{error}");
}
