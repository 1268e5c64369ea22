//! What Python provides to a verb: tasks in other processes, and a place where the parts of a run meet.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyTuple};
use storebench_engine::Stop;
use storebench_engine::store::StoreError;
use storebench_lab::run::Meeting;
use storebench_transfer::{Task, TaskReport, Tasks, TransferError};

/// How often a waiting verb checks whether it must stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Tasks that a Python object runs: `at_once` and `may_repeat`, and `run(tasks, done, stopping)`, which calls
/// `done(report)` for each task that has ended, from any thread, and returns early once `stopping()` is true.
pub(crate) struct PyTasks {
    object: Py<PyAny>,
    at_once: u32,
    may_repeat: bool,
}

impl PyTasks {
    pub(crate) fn of(py: Python<'_>, object: Py<PyAny>) -> PyResult<Self> {
        let at_once = object.getattr(py, "at_once")?.extract(py)?;
        let may_repeat = object.getattr(py, "may_repeat")?.extract(py)?;
        Ok(Self { object, at_once, may_repeat })
    }
}

/// Passes the only argument of a call to a channel.
fn sender(py: Python<'_>, send: mpsc::Sender<String>) -> PyResult<Bound<'_, PyCFunction>> {
    // The closure must be `Sync`.
    let send = Mutex::new(send);
    PyCFunction::new_closure(py, None, None, move |args: &Bound<'_, PyTuple>, _| -> PyResult<()> {
        let text = args.get_item(0)?.extract()?;
        let send = send.lock().map_err(|_| PyRuntimeError::new_err("an earlier report failed"))?;
        // If nobody listens any more, the verb has failed.
        let _ = send.send(text);
        Ok(())
    })
}

/// An error of Python as one of a copy. Errors of the package have the exit code of their verb.
fn of_python(py: Python<'_>, error: &PyErr) -> TransferError {
    let text = error.value(py).to_string();
    match error.value(py).getattr("code").and_then(|code| code.extract::<u8>()) {
        Ok(2) => TransferError::BadInput(text),
        // The text names the store.
        Ok(3) => TransferError::Store { url: String::new(), error: StoreError::Unreachable(text) },
        _ => TransferError::Target(text),
    }
}

impl Tasks for PyTasks {
    fn at_once(&self) -> u32 {
        self.at_once
    }

    fn may_repeat(&self) -> bool {
        self.may_repeat
    }

    fn run(
        &self,
        tasks: Vec<Task>,
        stop: &Stop,
        take: &mut dyn FnMut(TaskReport) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let unreadable = |e: serde_json::Error| {
            let next = "install the same version of Storebench on the driver and all workers";
            TransferError::Target(format!("cannot parse a task or its report: {e}; {next}"))
        };
        let texts: Vec<String> =
            tasks.iter().map(serde_json::to_string).collect::<Result<_, _>>().map_err(unreadable)?;
        let (send, reports) = mpsc::channel::<String>();
        let stopping = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stopping);
        std::thread::scope(|scope| {
            let runner = scope.spawn(move || {
                Python::attach(|py| {
                    let ran = (|| {
                        let done = sender(py, send)?;
                        let stopping = PyCFunction::new_closure(py, None, None, move |_: &Bound<'_, PyTuple>, _| {
                            asked.load(Ordering::Relaxed)
                        })?;
                        self.object.call_method1(py, "run", (texts, done, stopping))
                    })();
                    ran.map(drop).map_err(|error| of_python(py, &error))
                })
            });
            let mut taken = Ok(());
            loop {
                // Python may keep its end of the channel, so the end of the runner decides.
                let ended = runner.is_finished();
                match reports.recv_timeout(if ended { Duration::ZERO } else { LOOK_EVERY }) {
                    Ok(text) if taken.is_ok() => {
                        taken = serde_json::from_str(&text).map_err(unreadable).and_then(&mut *take);
                    }
                    Ok(_) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) if ended => break,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if stop.asked() || taken.is_err() {
                    stopping.store(true, Ordering::Relaxed);
                }
            }
            let ran = runner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            if stop.asked() { taken } else { taken.and(ran) }
        })
    }
}

/// A meeting through a Python function, which takes the message of this part and returns those of all parts.
pub(crate) struct PyMeeting(pub(crate) Py<PyAny>);

impl fmt::Debug for PyMeeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyMeeting")
    }
}

impl Meeting for PyMeeting {
    fn exchange(&self, message: &str, stop: &Stop, _: &mut dyn FnMut(&[u32])) -> Result<Vec<String>, String> {
        if stop.asked() {
            return Err("interrupted while waiting for other parts".to_owned());
        }
        Python::attach(|py| {
            let all = self.0.call1(py, (message,)).and_then(|all| all.extract::<Vec<String>>(py));
            all.map_err(|error| error.value(py).to_string())
        })
    }
}
