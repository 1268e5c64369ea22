//! The summary of a copy as text.

use storebench_results::human::{count, duration, plural, rate};
use storebench_transfer::{Changed, CopyReport, RecordOp, RejectReason, StoreCounts};

use super::plan::Plan;
use crate::args::CopyArgs;
use crate::endpoints::Endpoint;

/// The maximum number of damaged parts, and of reasons for rejects, that are listed.
const NAMED: usize = 10;

pub(super) fn text(report: &CopyReport, plan: &Plan) -> String {
    let CopyReport { counts, before, .. } = report;
    let args = &plan.args;
    let verified = report.verified.as_ref();
    let seconds = report.seconds.max(1e-9);
    let parts = [
        Some(format!("read {}", count(counts.read))),
        Some(format!("written {}", count(counts.written))),
        Some(format!("rejected {}", count(counts.rejected))),
        Some(format!("skipped {}", count(counts.skipped))),
        verified
            .filter(|verified| verified.equal && verified.written > verified.expired)
            .map(|verified| format!("verified {}", count(verified.found))),
        some(counts.there_already).map(|there| format!("already there {there}")),
        some(counts.retries).map(|retries| format!("retries {retries}")),
        Some(format!("{:.1} MB/s", (counts.bytes - before.bytes) as f64 / seconds / 1e6)),
        Some(format!("{} docs/s", rate((counts.written - before.written) as f64 / seconds))),
        Some(duration(report.seconds * 1e9)),
    ];
    let mut lines =
        vec![format!("{} → {}", report.from, report.to), parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")];
    if counts.read == 0 && !report.interrupted {
        lines.push("nothing was read: the source is empty".to_owned());
    }
    if before.read > 0 {
        lines.push(format!("{} of them were written before this copy was resumed", count(before.written)));
    }
    lines.extend(verification(report, args));
    lines.extend(report.counted.iter().flat_map(counted));
    for damage in report.damaged.iter().take(NAMED) {
        lines.push(format!("INCOMPLETE: {}; copied before it: {}", damage.what, plural(damage.records, "record")));
    }
    lines.extend(
        some_of(report.damaged.len().saturating_sub(NAMED) as u64, "more part")
            .map(|more| format!("INCOMPLETE: {more}")),
    );
    lines.extend(some_of(counts.keys_made_text, "record").map(|records| {
        format!("keys of {records} are not text in the source (such as numbers); they were written as text")
    }));
    lines.extend(repeated(report, args, matches!(plan.to, Endpoint::Store(..))));
    lines.extend(
        some_of(counts.dropped_attachments, "document")
            .map(|documents| format!("attachments of {documents} were not copied")),
    );
    lines.extend(
        some_of(counts.without_own_members, "document").map(|documents| {
            format!("members reserved by the target were left out of {documents} (--own-members drop)")
        }),
    );
    lines.extend(
        some_of(counts.dropped_expiry, "document").map(|documents| format!("expiry of {documents} was not copied")),
    );
    if !report.snapshot {
        lines.push(format!("no snapshot: {}", report.snapshot_why));
    }
    lines.extend(reasons(report));
    lines.extend(report.first_reject.as_ref().map(|first| format!("first rejected record: {first}")));
    lines.extend(report.rejects.as_ref().map(|rejects| format!("all rejected records, with reasons: {rejects}")));
    lines.extend((report.splits_to_repeat > 0).then(|| {
        let (parts, s) = (plural(report.splits_to_repeat, "part"), if report.splits_to_repeat == 1 { "s" } else { "" });
        format!("{parts} differ{s}; use --resume to copy them again, or --restart to start over")
    }));
    if report.interrupted {
        let (done, all) = (count(report.splits_done), count(report.splits));
        lines.push(format!("interrupted: {done} of {all} parts are done; use --resume to continue"));
    }
    advice(args, &(lines.join("\n") + "\n"))
}

/// A text with advice that works: a copy from or to a standard stream cannot be resumed.
pub(super) fn advice(args: &CopyArgs, text: &str) -> String {
    if args.from != "-" && args.to != "-" {
        return text.to_owned();
    }
    const INSTEAD: [(&str, &str); 5] = [
        ("use --resume to continue or --restart to start over", "use --restart to start over"),
        ("use --resume to copy them again, or --restart to start over", "use --restart to start over"),
        ("ontinue with --resume", "opy again with --restart"),
        ("use --resume to continue", "use --restart to start over"),
        ("use --resume", "use --restart"),
    ];
    INSTEAD.iter().fold(text.to_owned(), |text, (resume, instead)| text.replace(resume, instead))
}

/// Why records were rejected, if there are several reasons. A single one is that of the first rejected record.
fn reasons(report: &CopyReport) -> Vec<String> {
    let reasons = &report.rejects_by_reason;
    if reasons.len() < 2 {
        return Vec::new();
    }
    let (named, more) = reasons.split_at(reasons.len().min(NAMED));
    let line = |reason: &RejectReason| format!("  {} {}", count(reason.records), reason.why);
    let mut lines = vec!["rejected, by reason:".to_owned()];
    lines.extend(named.iter().map(line));
    let rest = more.iter().map(|reason| reason.records).sum();
    lines.extend(some(rest).map(|rest| format!("  {rest} for {} more reasons", more.len())));
    lines
}

/// What source and target count themselves, where it differs from what was copied.
fn counted(counted: &StoreCounts) -> Vec<String> {
    let mut lines: Vec<String> = losses(counted).into_iter().map(|loss| format!("NOT COMPLETE: {loss}")).collect();
    let beside = counted.left_out.iter().map(|left_out| format!("{} {}", count(left_out.count), left_out.what));
    let beside = beside.collect::<Vec<_>>().join(", ");
    lines.extend(some_of(counted.disconnects, "connection").map(|lost| {
        format!(
            "PERHAPS NOT COMPLETE: {lost} to the target broke, and it acknowledges documents before they are on its disk. If \
             it was restarted, some are missing; copy with --verify to find out"
        )
    }));
    lines.extend((!beside.is_empty()).then(|| format!("not copied: {beside}")));
    lines
}

/// Which documents are missing, by what source and target count themselves.
pub(crate) fn losses(counted: &StoreCounts) -> Vec<String> {
    let mut losses = Vec::new();
    losses.extend(some_of(counted.evicted, "document").map(|evicted| {
        format!(
            "the target removed {evicted} during the copy, because its memory was full; raise its limit or set a \
             policy without eviction, and copy again"
        )
    }));
    losses.extend(some_of(counted.missing, "document").map(|missing| {
        format!("the target has {missing} less than were written under different keys; use --verify to find out which")
    }));
    losses.extend(some_of(counted.unread, "document").map(|unread| {
        format!(
            "the source has {unread} more than it returned; copy again, and check for a proxy or a cache in \
             between"
        )
    }));
    losses
}

/// Formats a number above 0.
fn some(number: u64) -> Option<String> {
    (number > 0).then(|| count(number))
}

/// The same with what it counts: `1 document`, `2 documents`.
fn some_of(number: u64, one: &str) -> Option<String> {
    (number > 0).then(|| plural(number, one))
}

fn verification(report: &CopyReport, args: &CopyArgs) -> Vec<String> {
    let Some(verified) = &report.verified else { return Vec::new() };
    let mut lines = vec![match (verified.equal, verified.written_twice) {
        (true, _) if verified.written == 0 => "nothing was written, so there is nothing to verify".to_owned(),
        (true, _) if verified.written == verified.expired => {
            "all records may have expired before they were looked for, so there is nothing to verify".to_owned()
        }
        (true, _) if args.op == RecordOp::Delete => "verified: the target holds none of these keys".to_owned(),
        (true, _) if verified.expired > 0 => {
            "verified: the target holds what was written and has not expired".to_owned()
        }
        (true, 0) => "verified: the target holds what was written".to_owned(),
        (true, twice) => format!(
            "verified: the target holds what was written; of {} written more than once, it holds {} document each",
            plural(twice, "key"),
            if report.repeated_keys.is_some_and(|repeated| repeated.in_order) { "the last" } else { "one" }
        ),
        (false, _) => format!(
            "NOT VERIFIED: {} of 4,096 buckets of keys differ; {} of {} written records were found",
            count(verified.unequal_buckets),
            count(verified.found),
            count(verified.written)
        ),
    }];
    lines
        .extend(some(verified.expired).filter(|_| verified.equal && verified.expired < verified.written).map(|expired| {
        let all = count(verified.written);
        format!(
            "{expired} of {all} written records may have expired before they were looked for, so they were not verified"
        )
    }));
    lines.extend(some(verified.reread).map(|reread| {
        let all = count(report.splits);
        format!(
            "{reread} of {all} parts were written without --verify; their records were read again from the source as \
             it is now"
        )
    }));
    if !verified.changed.is_empty() {
        lines.push(changed(&verified.changed));
    }
    lines.extend(verified.differing.iter().map(|differing| format!("  {} {}", differing.key, differing.what)));
    lines
}

/// Values that the target writes differently, although they are equal as JSON.
fn changed(changed: &[Changed]) -> String {
    let all: u64 = changed.iter().map(|of_kind| of_kind.values).sum();
    let each: Vec<String> = changed.iter().map(|of| format!("{} {}", count(of.values), of.what)).collect();
    let values = if all == 1 { "value is" } else { "values are" };
    format!("the target changed how {} {values} written: {}", count(all), each.join(", "))
}

/// What is said of repeated keys if parts were copied at once, or by several processes.
const ANY_PART: &str = ". Not all parts were copied one after the other: of records in different parts, any may have come \
                        last. To keep the order of the source, copy everything again with --workers 1";

/// Records that repeat a key.
fn repeated(report: &CopyReport, args: &CopyArgs, into_store: bool) -> Option<String> {
    let repeated = report.repeated_keys.filter(|repeated| repeated.records > 0)?;
    let how = match (repeated.exact, repeated.at_least) {
        (false, _) => "about ",
        (true, true) => "at least ",
        (true, false) => "",
    };
    let records = count(repeated.records);
    let repeat = if repeated.records == 1 { "record repeats" } else { "records repeat" };
    let repeat = format!("{how}{records} {repeat} an earlier key");
    let any_order = matches!(args.op, RecordOp::Delete | RecordOp::Counter) && args.records.op_field.is_none();
    let order = if !into_store || any_order || repeated.in_order { "" } else { ANY_PART };
    let upserts = args.op == RecordOp::Upsert && args.records.op_field.is_none();
    match into_store {
        true if upserts => {
            Some(format!("{repeat}: the target holds {how}{records} fewer documents than were written{order}"))
        }
        true if order.is_empty() => None,
        _ => Some(format!("{repeat}{order}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Verb as CliVerb};

    #[test]
    fn a_copy_of_a_standard_stream_is_not_told_to_resume() {
        let args = |from, to| match Args::parse_from(["storebench", "copy", from, to]).verb {
            CliVerb::Copy(args) => args,
            _ => unreachable!(),
        };
        for text in [
            "found an unfinished copy in x; use --resume to continue or --restart to start over",
            "interrupted: 1 of 2 parts are done; use --resume to continue",
            "gave up after 9 attempts; copied records stay; continue with --resume",
            "is another program writing it? Continue with --resume",
            "interrupted during verification; use --resume to verify again",
        ] {
            for (from, to) in [("a.jsonl", "-"), ("-", "a.jsonl")] {
                let advice = advice(&args(from, to), text);
                assert!(advice.contains("--restart") && !advice.contains("--resume"), "{advice}");
            }
            assert_eq!(advice(&args("a.jsonl", "b.jsonl"), text), text);
        }
    }
}
