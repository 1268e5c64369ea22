//! `conform URL`: the conformance suite on any store.

use serde::Serialize;
use storebench_conformance::{self as conformance, Report, Stop};
use storebench_engine::store::{CollectionLayout, Description, Layout, Namespace, Prepare, StoreError};
use storebench_results::Secrets;
use storebench_results::exit::SPOILED;
use storebench_study::workload::Body;

use crate::args::ConformArgs;
use crate::failure::Failure;
use crate::output::print_json_or;
use crate::progress::Progress;
use crate::stores;

/// What `conform --json` prints.
#[derive(Debug, Serialize)]
struct Printed<'a> {
    format: &'static str,
    url: &'a str,
    scheme: &'static str,
    version: &'a str,
    passed: usize,
    failed: usize,
    not_supported: usize,
    checks: Vec<Checked<'a>>,
}

/// One check.
#[derive(Debug, Serialize)]
struct Checked<'a> {
    check: &'static str,
    outcome: &'static str,
    /// What was seen instead, or what is not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

pub(crate) fn conform(args: &ConformArgs) -> Result<u8, Failure> {
    let store = stores::open(&args.url)?;
    let mut progress = Progress::new(args.quiet);
    let found = store.inspect().map_err(|error| Failure::of_store(&args.url, &error))?;
    let described = store.describe();
    let url = &described.url;
    match found {
        Namespace::Absent => progress.note(&format!("{url} is created for the checks and removed afterwards")),
        Namespace::Ours => progress
            .note(&format!("data of earlier studies at {url} is deleted; the checks remove their own data afterwards")),
        Namespace::Copied(_) if args.discard_existing => {
            progress.note(&format!("data that `storebench copy` wrote at {url} is deleted for the checks"));
        }
        Namespace::Copied(what) => {
            return Err(Failure::bad_input(format!(
                "{url} holds {what}, but the checks need an empty place; nothing was changed. Use another place, or \
                 --discard-existing to delete this data"
            )));
        }
        Namespace::Foreign(what) => {
            return Err(Failure::bad_input(format!(
                "{url} holds {what}, which Storebench did not create, but the checks need an empty place; nothing was \
                 changed. Use another place"
            )));
        }
    }
    let how = if args.discard_existing { Prepare::Discard } else { Prepare::Fresh };
    // An error that prevents all checks is reported once, not by each check.
    if let Err(error) = store.prepare(&one_collection(), how)
        && !matches!(error, StoreError::NotSupported(_) | StoreError::Failed(_))
    {
        return Err(Failure::of_store(&args.url, &error));
    }
    progress.begin_count("conform", conformance::suite().len() as u64);
    let mut report = conformance::run_telling(&*store, &mut |step| progress.step(step.done, step.check));
    progress.end_count();
    // A server's messages may repeat the secrets that it received.
    let secrets = Secrets::of_url(&args.url);
    for row in &mut report.rows {
        if let Err(Stop::Failed(text) | Stop::NotSupported(text)) = &mut row.outcome {
            *text = secrets.hide(text);
        }
    }
    // Closed before the result is printed: the writes that a driver still has to flush are part of the guarantee.
    let closed = store.close();
    // Described again: the version of a server is known only after a connection.
    let described = store.describe();
    print_json_or(args.json, &printed(&described, &report), || text(&described, &report))?;
    closed.map_err(|error| Failure::of_store(&args.url, &error))?;
    Ok(if report.passed() { 0 } else { SPOILED })
}

fn one_collection() -> Layout {
    let documents = CollectionLayout {
        name: "documents".into(),
        body: Body::Json,
        indexes: Vec::new(),
        existing: None,
        uses: storebench_engine::store::Uses::ALL,
    };
    Layout { collections: vec![documents] }
}

fn text(described: &Description, report: &Report) -> String {
    let table = report.to_string();
    // The report's first line names the URL only.
    let rows = table.split_once('\n').map_or(table.as_str(), |(_, rows)| rows);
    format!("conformance of {} · {}\n{rows}\n", described.url, described.version)
}

fn printed<'a>(described: &'a Description, report: &'a Report) -> Printed<'a> {
    let (passed, failed, not_supported) = report.counts();
    let checks = report.rows.iter().map(|row| {
        let (outcome, why) = match &row.outcome {
            Ok(()) => ("pass", None),
            Err(Stop::Failed(text)) => ("fail", Some(text.as_str())),
            Err(Stop::NotSupported(text)) => ("not-supported", Some(text.as_str())),
        };
        Checked { check: row.check, outcome, why }
    });
    Printed {
        format: "storebench-conform/1",
        url: &described.url,
        scheme: described.scheme,
        version: &described.version,
        passed,
        failed,
        not_supported,
        checks: checks.collect(),
    }
}
