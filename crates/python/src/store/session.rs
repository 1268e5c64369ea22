//! Sessions: operations as calls of methods, and what they return as replies.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyConnectionError, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCFunction, PyList, PyString, PyTuple};
use storebench_engine::store::{
    Batch, BatchBuf, BulkWrite, Completions, ErrorKind, FutureSession, Op, OpError, OpKind, OwnedReply, Reject,
    Request, Respond, Session, Token,
};
use storebench_study::workload::Body;
use tokio::sync::oneshot;

use super::lock::ThreadState;
use super::{Class, Prepared, method, said};

/// Calls the methods of one object of the class.
pub(super) struct Caller {
    pub(super) class: Arc<Class>,
    pub(super) prepared: Arc<Prepared>,
    pub(super) object: Py<PyAny>,
    /// Declared last, so that it is dropped last.
    pub(super) _state: ThreadState,
}

impl Drop for Caller {
    fn drop(&mut self) {
        let closed = Python::try_attach(|py| {
            let closed = self.class.adapter.call_method1(py, "close", (&self.object,));
            closed.map(drop).map_err(|error| said(py, &error))
        });
        if let Some(Err(why)) = closed {
            // Told when the store is closed.
            self.class.unclosed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        }
    }
}

/// How what a method returned becomes a reply.
#[derive(Debug, Clone, Copy)]
enum Meaning {
    /// Nothing: a document was written.
    Written,
    /// True, or false for this kind of error.
    Whether(ErrorKind),
    /// True or false: one or no document.
    Exists,
    /// The document, or None.
    Document { contents: bool },
    /// The document or None, of which only the existence counts.
    IsDocument,
    /// An integer.
    Counter,
    /// Nothing: this many documents were written.
    AllWritten(usize),
    /// A list: whether each was written.
    EachWritten(usize),
    /// The number of documents.
    Number,
    /// A list of key and document.
    Rows { contents: bool },
}

impl Caller {
    /// Begins the call of an operation. Returns what the method returned.
    fn call<'py>(&self, py: Python<'py>, request: &Request<'_>) -> Result<(Bound<'py, PyAny>, Meaning), OpError> {
        let kind = request.op.kind();
        let supported = self.class.capabilities.supports(kind).is_some();
        let collections = &self.prepared.collections;
        let Some((collection, body)) = collections.get(request.collection.position()).filter(|_| supported) else {
            return Err(OpError::unsupported());
        };
        if self.prepared.read_only && writes(kind) {
            return Err(OpError::new(ErrorKind::Refused, "the store was opened for reading only"));
        }
        let fits = match kind {
            OpKind::Append | OpKind::Prepend => *body == Body::Bytes,
            OpKind::Counter => *body == Body::Counter,
            OpKind::MergePatch => *body == Body::Json,
            _ => true,
        };
        if !fits {
            return Err(OpError::new(
                ErrorKind::Refused,
                format!("{kind} does not work on `{collection}`, which has another type of document"),
            ));
        }
        let (own, name) = (self.class.own.contains(&kind), method(kind));
        let object = self.object.bind(py);
        let text = |text: &str| PyString::new(py, text).into_any();
        let data = |bytes: &[u8]| PyBytes::new(py, bytes).into_any();
        let number = |n: i64| n.into_pyobject(py).map(|n| n.into_any()).unwrap_or_else(|never| match never {});
        let contents = request.contents;
        let call = |name: &str, more: Vec<Bound<'py, PyAny>>| {
            let arguments = std::iter::once(text(collection)).chain(more);
            if own || kind == OpKind::Exists {
                return PyTuple::new(py, arguments.collect::<Vec<_>>())
                    .and_then(|arguments| object.call_method1(name, arguments));
            }
            // The adapter calls another method for each document.
            let arguments = std::iter::once(object.clone()).chain(arguments);
            PyTuple::new(py, arguments.collect::<Vec<_>>())
                .and_then(|arguments| self.class.adapter.bind(py).call_method1(name, arguments))
        };
        let (result, meaning) = match request.op {
            Op::Insert { key, body } => {
                (call(&name, vec![text(key), data(body)]), Meaning::Whether(ErrorKind::Conflict))
            }
            Op::Upsert { key, body } => (call(&name, vec![text(key), data(body)]), Meaning::Written),
            Op::Replace { key, body }
            | Op::Append { key, bytes: body }
            | Op::Prepend { key, bytes: body }
            | Op::MergePatch { key, patch: body } => {
                (call(&name, vec![text(key), data(body)]), Meaning::Whether(ErrorKind::NotFound))
            }
            Op::Read { key } => (call(&name, vec![text(key)]), Meaning::Document { contents }),
            Op::Exists { key } if own => (call(&name, vec![text(key)]), Meaning::Exists),
            Op::Exists { key } => (call("read", vec![text(key)]), Meaning::IsDocument),
            Op::Delete { key } => (call(&name, vec![text(key)]), Meaning::Whether(ErrorKind::NotFound)),
            Op::Touch { key, expiry } => {
                let seconds = expiry.as_secs_f64().into_pyobject(py).map(|s| s.into_any());
                let seconds = seconds.unwrap_or_else(|never| match never {});
                (call(&name, vec![text(key), seconds]), Meaning::Whether(ErrorKind::NotFound))
            }
            Op::Counter { key, delta, initial } => {
                (call(&name, vec![text(key), number(delta), number(initial)]), Meaning::Counter)
            }
            Op::BulkWrite { kind, items } => {
                let pairs = items.iter().map(|(key, body)| (PyString::new(py, key), PyBytes::new(py, body)));
                let pairs = PyList::new(py, pairs.collect::<Vec<_>>()).map(|list| list.into_any());
                let meaning = match kind {
                    BulkWrite::Upsert => Meaning::AllWritten(items.len()),
                    BulkWrite::Insert => Meaning::EachWritten(items.len()),
                };
                (pairs.and_then(|pairs| call(&name, vec![pairs])), meaning)
            }
            Op::BulkRead { keys } => {
                (keys_of(py, keys).and_then(|keys| call(&name, vec![keys])), Meaning::Rows { contents })
            }
            Op::BulkDelete { keys } => (keys_of(py, keys).and_then(|keys| call(&name, vec![keys])), Meaning::Number),
            Op::Prefix { prefix, limit } => {
                (call(&name, vec![text(prefix), number(limit.into())]), Meaning::Rows { contents })
            }
            Op::Scan { start, end, limit } => {
                let end = end.map_or_else(|| py.None().into_bound(py), text);
                (call(&name, vec![text(start), end, number(limit.into())]), Meaning::Rows { contents })
            }
            Op::Page { .. }
            | Op::View { .. }
            | Op::Query { .. }
            | Op::CompareAndSwap { .. }
            | Op::Transaction { .. } => {
                return Err(OpError::unsupported());
            }
        };
        let result = result.map_err(|error| of_exception(py, &error, writes(kind)))?;
        if !self.class.is_async && result.hasattr("__await__").unwrap_or(false) {
            // Otherwise Python warns that nobody awaited it.
            let _ = result.call_method0("close");
            let why = format!("{name} returned an awaitable; define it with `async def`");
            return Err(OpError::new(ErrorKind::Refused, why));
        }
        Ok((result, meaning))
    }
}

/// Whether an operation changes something.
fn writes(kind: OpKind) -> bool {
    use OpKind::{BulkRead, Exists, Page, Prefix, Read, Scan, View};
    !matches!(kind, Read | Exists | BulkRead | Page | Prefix | Scan | View)
}

fn keys_of<'py>(py: Python<'py>, keys: Batch<'_>) -> PyResult<Bound<'py, PyAny>> {
    let keys = keys.iter().map(|(key, _)| PyString::new(py, key)).collect::<Vec<_>>();
    PyList::new(py, keys).map(|list| list.into_any())
}

/// An exception of a method. Only its class can say that nothing was done; of other writes the outcome is unknown.
fn of_exception(py: Python<'_>, error: &PyErr, writes: bool) -> OpError {
    let told = error.value(py).getattr("store_error").and_then(|kind| kind.extract::<String>());
    let kind = match told.as_deref() {
        Ok("refused") => ErrorKind::Refused,
        Ok("temporary") => ErrorKind::Temporary,
        Ok("failed") => ErrorKind::Failed,
        _ if writes => ErrorKind::OutcomeUnknown,
        _ if error.is_instance_of::<PyTimeoutError>(py) || error.is_instance_of::<PyConnectionError>(py) => {
            ErrorKind::Temporary
        }
        _ => ErrorKind::Failed,
    };
    OpError::new(kind, said(py, error))
}

/// A document that a method returned.
pub(super) fn bytes_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match value.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes().to_vec()),
        Err(_) => match value.cast::<PyString>() {
            Ok(text) => text.extract::<String>().map(String::into_bytes),
            // Such as bytearray and memoryview.
            Err(_) => value.extract::<Vec<u8>>(),
        },
    }
}

/// What a method returned, as a reply.
fn reply(value: &Bound<'_, PyAny>, meaning: Meaning, writes: bool) -> Result<OwnedReply, OpError> {
    // What a write has done is then unknown.
    let kind = if writes { ErrorKind::OutcomeUnknown } else { ErrorKind::Failed };
    let wrong = |e: PyErr| {
        let why = said(value.py(), &e);
        OpError::new(kind, format!("the method returned the wrong type ({why}); see docs/python-stores.md"))
    };
    Ok(match meaning {
        Meaning::Written => OwnedReply::documents(1),
        Meaning::Whether(_) | Meaning::Exists if value.is_none() => {
            return Err(OpError::new(
                kind,
                "the method returned None, expected True or False; see docs/python-stores.md",
            ));
        }
        Meaning::Whether(kind) => match value.is_truthy().map_err(wrong)? {
            true => OwnedReply::documents(1),
            false if kind == ErrorKind::Conflict => return Err(OpError::conflict("the key exists")),
            false => return Err(OpError::not_found()),
        },
        Meaning::Exists => OwnedReply::documents(u32::from(value.is_truthy().map_err(wrong)?)),
        Meaning::IsDocument => OwnedReply::documents(u32::from(!value.is_none())),
        Meaning::Document { .. } if value.is_none() => return Err(OpError::not_found()),
        Meaning::Document { contents } => {
            let body = bytes_of(value).map_err(wrong)?;
            let reply = OwnedReply::documents(1);
            if contents { reply.body(body) } else { reply.bytes(body.len() as u64) }
        }
        Meaning::Counter => OwnedReply::documents(1).counter(value.extract().map_err(wrong)?),
        Meaning::AllWritten(items) => OwnedReply::documents(u32::try_from(items).unwrap_or(u32::MAX)),
        Meaning::EachWritten(items) => {
            let each = value.try_iter().map_err(wrong)?;
            let each: Vec<bool> =
                each.map(|one| one.and_then(|one| one.is_truthy())).collect::<Result<_, _>>().map_err(wrong)?;
            if each.len() != items {
                let said = format!(
                    "bulk_insert returned {} results, expected {items}: one True or False for each",
                    each.len()
                );
                return Err(OpError::new(ErrorKind::OutcomeUnknown, said));
            }
            let rejected = each.iter().enumerate().filter(|(_, written)| !**written);
            let rejects: Vec<Reject> =
                rejected.map(|(item, _)| Reject { item, error: OpError::conflict("the key exists") }).collect();
            OwnedReply::documents(u32::try_from(items - rejects.len()).unwrap_or(u32::MAX)).rejects(rejects)
        }
        Meaning::Number => OwnedReply::documents(value.extract().map_err(wrong)?),
        Meaning::Rows { contents } => {
            let mut rows = BatchBuf::new();
            for row in value.try_iter().map_err(wrong)? {
                let (key, body): (String, Bound<'_, PyAny>) = row.and_then(|row| row.extract()).map_err(wrong)?;
                rows.push(&key, &bytes_of(&body).map_err(wrong)?);
            }
            if contents {
                OwnedReply::default().rows(rows)
            } else {
                let bytes = rows.as_batch().iter().map(|(_, body)| body.len() as u64).sum();
                OwnedReply::documents(u32::try_from(rows.len()).unwrap_or(u32::MAX)).bytes(bytes)
            }
        }
    })
}

/// One session: an object of the class.
pub(super) enum PythonSession {
    /// Its methods return when they are done.
    Sync(Caller),
    /// Its methods are coroutines.
    Async(Box<FutureSession<Caller>>),
}

impl Session for PythonSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        match self {
            Self::Async(session) => session.submit(request, token, out),
            Self::Sync(caller) => {
                // Other threads run Python as soon as this one has its answer.
                let done = Python::attach(|py| {
                    let (value, meaning) = caller.call(py, request)?;
                    reply(&value, meaning, writes(request.op.kind()))
                });
                match done {
                    Ok(reply) => out.complete(token, Ok(reply.as_reply())),
                    Err(error) => out.complete(token, Err(error)),
                }
            }
        }
    }

    fn poll(&mut self, cx: &mut std::task::Context<'_>, out: &mut dyn Completions) -> std::task::Poll<()> {
        match self {
            Self::Async(session) => session.poll(cx, out),
            Self::Sync(_) => std::task::Poll::Ready(()),
        }
    }

    fn abandon(&mut self, token: Token) {
        if let Self::Async(session) = self {
            session.abandon(token);
        }
    }
}

type Answer = Result<OwnedReply, OpError>;

/// A coroutine that was begun. It is cancelled when nobody waits for it any more.
struct Begun(Py<PyAny>);

impl Drop for Begun {
    fn drop(&mut self) {
        // Does nothing to one that has ended.
        let _ = Python::try_attach(|py| self.0.call_method0(py, "cancel").map(drop));
    }
}

impl Respond for Caller {
    type Future = std::pin::Pin<Box<dyn Future<Output = Answer>>>;

    fn respond(&mut self, request: &Request<'_>) -> Self::Future {
        let writes = writes(request.op.kind());
        let begun = Python::attach(|py| {
            let (coroutine, meaning) = self.call(py, request)?;
            let (send, answer) = oneshot::channel();
            let send = Mutex::new(RefCell::new(Some(send)));
            let ended = move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, pyo3::types::PyDict>>| {
                let py = arguments.py();
                let result = arguments
                    .get_item(0)
                    .and_then(|future| future.call_method0("result"))
                    .map_err(|error| of_exception(py, &error, writes))
                    .and_then(|value| reply(&value, meaning, writes));
                let send = send.lock().unwrap_or_else(PoisonError::into_inner).take();
                // Nobody waits for an abandoned operation.
                if let Some(send) = send {
                    drop(send.send(result));
                }
            };
            let begin = || {
                let ended = PyCFunction::new_closure(py, None, None, ended)?;
                self.class.adapter.call_method1(py, "begin", (&self.object, coroutine, ended))
            };
            begin().map(|future| (answer, Begun(future))).map_err(|error| of_exception(py, &error, writes))
        });
        Box::pin(async move {
            let lost = |_| OpError::new(ErrorKind::OutcomeUnknown, "the event loop has ended");
            let (answer, _begun) = begun?;
            answer.await.map_err(lost).and_then(|answer| answer)
        })
    }
}
