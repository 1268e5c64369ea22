//! `verify URL STUDY`: reads everything back.

use storebench_lab::verify::{VerifyReport, VerifyRequest, documents_to_verify, verify as read_back};
use storebench_results::Secrets;
use storebench_results::exit::{INTERRUPTED, SPOILED};
use storebench_results::human::{count, percent};

use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::output::print_json_or;
use crate::progress::Progress;
use crate::signals::stop_on_interrupt;
use crate::{processors, stores, studies};

/// More threads than this rarely read faster.
const JOBS_AT_MOST: u32 = 8;

pub(crate) fn verify(args: &VerifyArgs) -> Result<u8, Failure> {
    let store = stores::open_to_read(&args.url)?;
    let opened = studies::open(&args.study, &[])?;
    let documents = opened.documents()?;
    let stop = stop_on_interrupt()?;
    let jobs = args.jobs.unwrap_or_else(|| processors().min(JOBS_AT_MOST));
    let request = VerifyRequest { study: &opened.study, catalog: &documents.catalog, store: &*store, jobs };
    let mut progress = Progress::new(args.quiet);
    progress.begin_count("verify", documents_to_verify(&opened.study, &documents.catalog));
    let report = read_back(&request, &stop, &mut |done| progress.count(done))
        .map_err(|error| Failure::of_store(&args.url, &error));
    progress.end_count();
    let mut report = report?;
    // A server's messages may repeat the secrets that it received.
    let secrets = Secrets::of_url(&args.url);
    for text in report.faults.iter_mut().map(|fault| &mut fault.what).chain(&mut report.notes) {
        *text = secrets.hide(text);
    }
    print_json_or(args.json, &report, || text(&report))?;
    Ok(match () {
        // Wrong documents count, even if the verb was interrupted.
        () if report.collections.iter().any(|c| c.missing + c.wrong + c.unreadable > 0) => SPOILED,
        () if report.interrupted => INTERRUPTED,
        () if report.is_whole() => 0,
        () => SPOILED,
    })
}

fn text(report: &VerifyReport) -> String {
    let mut out = format!("{} · {}\n{}\n", report.url, report.version, report.title);
    for c in &report.collections {
        out += &format!("  {}: {} of {} documents are correct", c.collection, count(c.right), count(c.expected));
        for (n, what) in [
            (c.updated, "updated since the load"),
            (c.missing, "missing"),
            (c.wrong, "wrong"),
            (c.unreadable, "unreadable"),
        ] {
            if n > 0 {
                out += &format!(", {} {what}", count(n));
            }
        }
        out += "\n";
    }
    for fault in &report.faults {
        out += &format!("  {} {}: {}\n", fault.collection, fault.key, fault.what);
    }
    for note in &report.notes {
        out += &format!("note: {note}\n");
    }
    let (expected, bad) = report
        .collections
        .iter()
        .fold((0u64, 0u64), |(all, bad), c| (all + c.expected, bad + c.missing + c.wrong + c.unreadable));
    out += &match (bad, report.interrupted) {
        (0, true) => "interrupted: the documents read so far are correct, the rest are unknown\n".to_owned(),
        (0, false) => "every document is correct\n".to_owned(),
        (bad, _) => format!(
            "{} of {} documents ({}) are missing, wrong or unreadable\n",
            count(bad),
            count(expected),
            percent(bad as f64 / expected.max(1) as f64)
        ),
    };
    out
}
