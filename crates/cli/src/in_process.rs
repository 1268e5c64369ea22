//! Runs verbs for a caller in the same process, such as Python, instead of for a shell.
//!
//! A call takes command-line arguments and returns what the program would print. So every option, check and message is
//! defined only once.

use std::cell::RefCell;
use std::fmt;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser as _;
use storebench_engine::Stop;
use storebench_lab::run::Meeting;
use storebench_results::redact;
use storebench_transfer::Tasks;

use crate::args::Args;
use crate::failure::Failure;
use crate::verbs;

/// A message or the progress of a running call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEvent {
    /// A message for the user.
    Message(String),
    /// The progress of the current step.
    Progress {
        /// The current step: the name of a phase, `copy` or `verify`.
        what: String,
        /// The fraction done, from 0 to 1, if known.
        share: Option<f64>,
        /// Rates and the remaining time.
        text: String,
    },
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The exit code that the program would return.
    pub code: u8,
    /// The text that the program would print to stdout.
    pub out: String,
    /// The error message, if the call failed.
    pub message: Option<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.as_deref().unwrap_or(&self.out))
    }
}

impl std::error::Error for Outcome {}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code, out: String::new(), message: Some(redact(failure.message.trim_end())) }
    }
}

/// Interrupts a call from another thread, as Ctrl-C does in a shell.
#[derive(Debug, Clone, Default)]
pub struct Interrupter(Arc<Mutex<Interrupts>>);

#[derive(Debug, Default)]
struct Interrupts {
    asked: bool,
    stops: Vec<Arc<Stop>>,
}

impl Interrupter {
    /// Asks the call to stop. It keeps the results so far.
    pub fn interrupt(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.asked = true;
        all.stops.iter().for_each(|stop| stop.ask());
    }

    fn add(&self, stop: &Arc<Stop>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.asked {
            stop.ask();
        }
        all.stops.push(Arc::clone(stop));
    }
}

/// What a caller provides to a call, besides the arguments.
#[derive(Default)]
pub struct Provided {
    /// Copies and verifies the parts of a copy in other processes.
    pub tasks: Option<Arc<dyn Tasks>>,
    /// A task to perform instead of the whole copy, as JSON: one that [`Tasks::run`] got in another process. The call
    /// prints its report.
    pub task: Option<String>,
    /// Exchanges messages between the parts of a run.
    pub meeting: Option<Arc<dyn Meeting>>,
    /// Takes the place of standard input.
    pub input: Option<Box<dyn Read + Send>>,
}

/// The call that a thread runs.
struct Call {
    out: String,
    interrupter: Interrupter,
    provided: Provided,
    tell: Box<dyn Fn(CallEvent)>,
}

thread_local! {
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// Runs a verb on this thread. `args` are the command-line arguments without the program name. Calls `tell` on this
/// thread.
pub fn call(
    args: &[String],
    interrupter: &Interrupter,
    provided: Provided,
    tell: impl Fn(CallEvent) + 'static,
) -> Outcome {
    let parsed = match Args::try_parse_from(std::iter::once("storebench").chain(args.iter().map(String::as_str))) {
        Ok(parsed) => parsed,
        Err(error) => {
            let (code, text) = (u8::try_from(error.exit_code()).unwrap_or(2), error.to_string());
            return match code {
                0 => Outcome { code, out: text, message: None },
                _ => Outcome { code, out: String::new(), message: Some(redact(of_clap(&text))) },
            };
        }
    };
    let call = Call { out: String::new(), interrupter: interrupter.clone(), provided, tell: Box::new(tell) };
    CALL.with(|current| *current.borrow_mut() = Some(call));
    let done = verbs::perform(&parsed.verb);
    let out = CALL.with(|current| current.borrow_mut().take()).map_or_else(String::new, |call| call.out);
    match done {
        Ok(code) => Outcome { code, out, message: None },
        Err(failure) => Outcome { out, ..failure.into() },
    }
}

/// Removes the prefix `error: `, the usage and the hint at `--help` from an error of clap. They are useful only in a
/// shell.
pub(crate) fn of_clap(text: &str) -> &str {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let end = |text: &'_ str, from: &str| text.find(from).unwrap_or(text.len());
    text[..end(text, "\n\nUsage:").min(end(text, "\n\nFor more information"))].trim_end()
}

/// Whether this thread runs a verb for a caller.
pub(crate) fn is_called() -> bool {
    CALL.with(|call| call.borrow().is_some())
}

/// Takes something that the caller provided to this thread's call.
pub(crate) fn provided<T>(take: impl FnOnce(&mut Provided) -> Option<T>) -> Option<T> {
    CALL.with(|call| call.borrow_mut().as_mut().and_then(|call| take(&mut call.provided)))
}

/// Captures printed text if this thread runs a verb for a caller. Returns whether it does.
pub(crate) fn print(text: &str) -> bool {
    CALL.with(|call| call.borrow_mut().as_mut().map(|call| call.out.push_str(text)).is_some())
}

/// Reports a message or progress to the caller. Returns whether there is a caller.
pub(crate) fn tell(told: impl FnOnce() -> CallEvent) -> bool {
    CALL.with(|call| call.borrow().as_ref().map(|call| (call.tell)(told())).is_some())
}

/// Lets the caller interrupt a verb. Returns whether there is a caller.
pub(crate) fn interrupts(stop: &Arc<Stop>) -> bool {
    CALL.with(|call| call.borrow().as_ref().map(|call| call.interrupter.add(stop)).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_call_returns_what_would_be_printed() {
        let done = call(&words("studies --json"), &Interrupter::default(), Provided::default(), |_| ());
        assert!(done.code == 0 && done.out.starts_with('{') && done.message.is_none(), "{done:?}");
        let done = call(&words("--version"), &Interrupter::default(), Provided::default(), |_| ());
        assert!(done.code == 0 && done.out.starts_with("storebench "), "{done:?}");
    }

    #[test]
    fn errors_are_those_of_the_command_line() {
        let done = call(&words("bench null: --no-such-option 3"), &Interrupter::default(), Provided::default(), |_| ());
        let message = done.message.unwrap();
        assert!(done.code == 2 && message.starts_with("unexpected argument '--no-such-option'"), "{message}");
        assert!(!message.contains("Usage"), "{message}");
        let done = call(&words("plan no-such-study.toml"), &Interrupter::default(), Provided::default(), |_| ());
        assert!(done.code == 2 && done.message.unwrap().contains("no-such-study.toml: cannot be read"));
    }

    #[test]
    fn a_call_can_be_interrupted_and_tells_its_progress() {
        let dir = tempfile::tempdir().unwrap();
        let interrupter = Interrupter::default();
        let (inner, out) = (interrupter.clone(), dir.path().display());
        let args = words(&format!("bench null: --docs 1000 --warm-up 0s --duration 60s --json --out {out}"));
        let (send, told) = std::sync::mpsc::channel();
        let done = call(&args, &interrupter, Provided::default(), move |told| {
            if matches!(&told, CallEvent::Progress { what, .. } if what == "bench" || what == "measure") {
                inner.interrupt();
            }
            let _ = send.send(told);
        });
        assert_eq!(done.code, 130, "{done:?}");
        let result: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!(result["run"]["interrupted"], true);
        let shares: Vec<f64> = told
            .iter()
            .filter_map(|told| match told {
                CallEvent::Progress { share, .. } => share,
                CallEvent::Message(_) => None,
            })
            .collect();
        assert!(!shares.is_empty() && shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
    }
}
