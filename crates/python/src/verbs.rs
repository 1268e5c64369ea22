//! Verbs of the command line, called in this process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use storebench_cli::{CallEvent, Interrupter, Provided};

use crate::provided::{PyMeeting, PyTasks};

/// How often Python looks whether Ctrl-C was pressed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs the command line with these arguments, of which the first is the program's name and file. Returns the exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    if let Some(program) = args.first() {
        storebench_cli::is_started_by(PathBuf::from(program));
    }
    let code = py.detach(|| storebench_cli::main_of(args));
    // The type has no accessor.
    (0..=u8::MAX).find(|code_of| ExitCode::from(*code_of) == code).unwrap_or(1)
}

/// The long options of all verbs, and whether each is a flag.
#[pyfunction]
pub(crate) fn options() -> BTreeMap<String, bool> {
    let command = storebench_cli::command();
    let all = command.get_subcommands().flat_map(|verb| verb.get_arguments());
    all.filter_map(|option| Some((option.get_long()?.to_owned(), !option.get_action().takes_values()))).collect()
}

/// Performs a verb with these arguments. Returns its exit code, its stdout, the message of its error, and whether Ctrl-C
/// interrupted it. Calls `tell(message)` or `tell((what, share, text))` meanwhile. The first Ctrl-C asks the verb to stop,
/// and what it has is returned. The second one abandons it. Other threads of Python run meanwhile.
///
/// `tasks` runs the tasks of a copy, see [`PyTasks`]; `task` is one to perform; `meet` is how the parts of a run exchange messages; `input` is a
/// file that takes the place of standard input.
#[pyfunction]
#[pyo3(signature = (args, tell, program, tasks=None, task=None, meet=None, input=None))]
#[allow(clippy::too_many_arguments, reason = "only the package calls it")]
pub(crate) fn call(
    py: Python<'_>,
    args: Vec<String>,
    mut tell: Option<Py<PyAny>>,
    program: Option<PathBuf>,
    tasks: Option<Py<PyAny>>,
    task: Option<String>,
    meet: Option<Py<PyAny>>,
    input: Option<PathBuf>,
) -> PyResult<(u8, String, Option<String>, bool)> {
    let provided = Provided {
        tasks: tasks.map(|tasks| PyTasks::of(py, tasks)).transpose()?.map(|tasks| Arc::new(tasks) as _),
        task,
        meeting: meet.map(|meet| Arc::new(PyMeeting(meet)) as _),
        input: input.map(File::open).transpose()?.map(|input| Box::new(input) as _),
    };
    if let Some(program) = program {
        storebench_cli::is_started_by(program);
    }
    let (send, told) = mpsc::channel();
    let told = Mutex::new(told);
    let interrupter = Interrupter::default();
    let for_thread = interrupter.clone();
    let verb = std::thread::Builder::new()
        .name("storebench".into())
        .spawn(move || {
            storebench_cli::call(&args, &for_thread, provided, move |told| {
                // If nobody listens any more, the verb was abandoned.
                let _ = send.send(told);
            })
        })
        .map_err(|e| PyRuntimeError::new_err(format!("cannot start a thread: {e}")))?;
    let mut interrupted = false;
    loop {
        let heard = py.detach(|| told.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK_EVERY));
        let shown = match (heard, &tell) {
            (Err(RecvTimeoutError::Disconnected), _) => break,
            (Ok(CallEvent::Message(text)), Some(tell)) => tell.call1(py, (text,)).map(drop),
            (Ok(CallEvent::Progress { what, share, text }), Some(tell)) => {
                tell.call1(py, ((what, share, text),)).map(drop)
            }
            _ => Ok(()),
        };
        // Ctrl-C raises an exception here, or while `tell` runs.
        let Err(error) = shown.and_then(|()| py.check_signals()) else { continue };
        if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
            // A result is worth more than a line that shows its progress.
            tell = None;
        } else if interrupted {
            return Err(error);
        } else {
            interrupted = true;
            interrupter.interrupt();
        }
    }
    let done = py.detach(|| verb.join()).map_err(|_| PyRuntimeError::new_err("the verb panicked; please report it"))?;
    Ok((done.code, done.out, done.message, interrupted))
}
