//! `trace LOG…`: makes a trace from the logs of a store.

use storebench_results::human::{count, plural};
use storebench_traffic::{Form, Hashing, Options, Trace, read};

use crate::args::TraceArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::outputs::{refuse_existing, write_bytes};
use crate::progress::line;

/// How many reasons are shown.
const REASONS: usize = 10;

pub(crate) fn trace(args: &TraceArgs) -> Result<u8, Failure> {
    let form = form(args)?;
    if let Some(file) = &args.output {
        refuse_existing(file, args.force)?;
    }
    let hashing = hashing(args)?;
    let options = Options {
        within: args.within.clone(),
        key: args.key.clone(),
        bodies: args.bodies,
        by_key: args.by_key,
        private: args.hash_keys,
    };
    let trace = read(args.from.into(), &args.logs, &options).map_err(|error| Failure::bad_input(error.to_string()))?;
    let mut text = Vec::new();
    trace.write(form, hashing.as_ref(), &mut text).map_err(Failure::bad_input)?;
    tell(&trace);
    match &args.output {
        Some(file) => {
            write_bytes(file, &text, args.force)?;
            print(&format!("{}\n", file.display()))?;
            let shown = file.display();
            line(&format!("next: trace = \"{shown}\" in a collection and in a phase of a study"));
        }
        None => print(&String::from_utf8_lossy(&text))?,
    }
    Ok(0)
}

fn form(args: &TraceArgs) -> Result<Form, Failure> {
    let Some(file) = &args.output else { return Ok(Form::JsonLines) };
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("jsonl" | "ndjson") => Ok(Form::JsonLines),
        Some("csv") => Ok(Form::Csv),
        _ => Err(Failure::bad_input(format!(
            "{}: a trace is .jsonl or .csv; give the file one of these endings (for Parquet, then: storebench copy FILE.jsonl FILE.parquet --key {{key}})",
            file.display()
        ))),
    }
}

fn hashing(args: &TraceArgs) -> Result<Option<Hashing>, Failure> {
    if !args.hash_keys {
        return Ok(None);
    }
    if let Some(file) = &args.salt_file {
        let salt = std::fs::read(file)
            .map_err(|e| Failure::bad_input(format!("--salt-file {}: cannot be read: {e}", file.display())))?;
        if salt.trim_ascii().len() < 16 {
            let why = format!("--salt-file {}: a salt needs at least 16 bytes that nobody can guess", file.display());
            return Err(Failure::bad_input(why));
        }
        return Ok(Some(Hashing::with(salt.trim_ascii())));
    }
    let mut salt = [0; 32];
    let drawn =
        std::fs::File::open("/dev/urandom").and_then(|mut from| std::io::Read::read_exact(&mut from, &mut salt));
    drawn.map_err(|e| Failure::spoiled(format!("/dev/urandom: cannot be read: {e}")))?;
    Ok(Some(Hashing::with(&salt)))
}

/// Says what the trace has, and what of the log it has not.
fn tell(trace: &Trace) {
    let say = |text: String| line(&text);
    let mut ops: Vec<(&str, u64)> = Vec::new();
    for operation in &trace.operations {
        match ops.iter_mut().find(|(op, _)| *op == operation.op) {
            Some((_, n)) => *n += 1,
            None => ops.push((operation.op, 1)),
        }
    }
    ops.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let shown: Vec<String> = ops.iter().map(|(op, n)| format!("{op} {}", count(*n))).collect();
    let within = trace.within.as_deref().filter(|within| !within.is_empty());
    let within = within.map(|within| format!(" of {within}")).unwrap_or_default();
    say(format!(
        "{}{within} by {}: {}",
        plural(trace.operations.len() as u64, "operation"),
        plural(trace.clients.into(), "client"),
        shown.join(", ")
    ));
    if trace.spread {
        say("the log has whole seconds only: the operations of each second are spread over it".to_owned());
    }
    let mut reasons: Vec<_> = trace.left_out.iter().collect();
    reasons.sort_by_key(|(_, left)| std::cmp::Reverse(left.count));
    for (why, left) in reasons.iter().take(REASONS) {
        let first = if left.first.is_empty() { String::new() } else { format!(", first at {}", left.first) };
        say(format!("not in the trace: {why}, {}{first}", plural(left.count, "time")));
    }
    if let Some(more) = reasons.len().checked_sub(REASONS).filter(|more| *more > 0) {
        let times: u64 = reasons.iter().skip(REASONS).map(|(_, left)| left.count).sum();
        say(format!("not in the trace: {}, {}", plural(more as u64, "other reason"), plural(times, "time")));
    }
}
