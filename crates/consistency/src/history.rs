//! Histories as files.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, BufRead, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;

use crate::operation::{ABSENT, Action, Operation, UNKNOWN, Value};
use crate::report::{BrokenKey, Report};
use crate::{Verdict, judge, staleness};

/// The operations of one key.
#[derive(Debug, Clone, Default)]
struct Register {
    initial: Value,
    operations: Vec<Operation>,
    /// The texts of values, by number; the first stands for no value.
    values: Vec<String>,
    numbers: HashMap<String, Value>,
    written: HashSet<Value>,
}

impl Register {
    fn number(&mut self, value: &Json) -> Value {
        if value.is_null() {
            return ABSENT;
        }
        let text = canonical(value).to_string();
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        if self.values.is_empty() {
            self.values.push("null".to_owned());
        }
        let number = self.values.len() as Value;
        self.values.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    fn text(&self, value: Value) -> Json {
        let text = self.values.get(value as usize).map_or("null", String::as_str);
        serde_json::from_str(text).unwrap_or_else(|_| text.into())
    }
}

/// The same value in one form: stores reorder members, and write 1.0 as 1.
fn canonical(value: &Json) -> Json {
    match value {
        Json::Object(members) => {
            let mut members: Vec<(&String, Json)> =
                members.iter().map(|(name, value)| (name, canonical(value))).collect();
            members.sort_by_key(|(name, _)| *name);
            Json::Object(members.into_iter().map(|(name, value)| (name.clone(), value)).collect())
        }
        Json::Array(values) => Json::Array(values.iter().map(canonical).collect()),
        Json::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => (float as i64).into(),
            _ => value.clone(),
        },
        other => other.clone(),
    }
}

/// What clients did to the keys of a store. As a file, a history is JSON lines.
///
/// A line is a JSON object:
///
/// ```json
/// {"client":3,"key":"users/7","op":"write","value":"v12","sent_ns":1000,"answered_ns":2500}
/// ```
///
/// - `client`: a number; a client's operations are those of one session.
/// - `op`: `read`, `write`, `delete`, or `cas` with `expected`.
/// - `value`: what was read or written, any JSON; `null` or absent for a read that found nothing. All values that are
///   written to one key must differ.
/// - `sent_ns`, `answered_ns`: in ns. `answered_ns` is `null` or absent if no answer came.
/// - `outcome`: `ok` (assumed), `failed` (certainly not done), `unknown`, or for a `cas` `differs`: the key held another
///   value.
///
/// A line `{"key":"users/7","initial":"v1"}` says what a key held before. Without one it held nothing.
#[derive(Debug, Clone, Default)]
pub struct History {
    keys: Vec<(String, Register)>,
    positions: HashMap<String, usize>,
}

/// A history that cannot be read.
#[derive(Debug)]
pub enum HistoryError {
    /// The file cannot be read.
    Io(io::Error),
    /// A line is wrong: its number, and why.
    Line(usize, String),
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::Line(number, why) => write!(f, "line {number}: {why}"),
        }
    }
}

impl std::error::Error for HistoryError {}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    // `null` is a value, too: the key held nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    initial: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    op: Option<Kind>,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    value: Json,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    expected: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sent_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answered_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Outcome::is_ok")]
    outcome: Outcome,
}

fn given<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(input).map(Some)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Read,
    Write,
    Delete,
    Cas,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    #[default]
    Ok,
    Failed,
    Unknown,
    Differs,
}

impl Outcome {
    fn is_ok(&self) -> bool {
        *self == Self::Ok
    }
}

impl History {
    /// Reads JSON lines.
    ///
    /// # Errors
    /// The file cannot be read, a line is wrong, or a value is written twice to one key.
    pub fn read(input: impl BufRead) -> Result<Self, HistoryError> {
        let mut out = Self::default();
        for (at, line) in input.lines().enumerate() {
            let line = line.map_err(HistoryError::Io)?;
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |why: String| HistoryError::Line(at + 1, why);
            let line: Line = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
            out.add(line).map_err(wrong)?;
        }
        Ok(out)
    }

    fn add(&mut self, line: Line) -> Result<(), String> {
        let register = self.register(&line.key);
        if let Some(initial) = &line.initial {
            if line.op.is_some() {
                return Err("`initial` says what a key held before all operations; give it a line of its own".into());
            }
            register.initial = register.number(initial);
            return match register.initial == ABSENT || register.written.insert(register.initial) {
                true => Ok(()),
                false => Err(format!("{initial} is written twice to `{}`; see `value`", line.key)),
            };
        }
        let kind = line.op.ok_or("`op` is missing: read, write, delete or cas")?;
        let sent_ns = line.sent_ns.ok_or("`sent_ns` is missing")?;
        let unknown = line.outcome == Outcome::Unknown;
        let answered_ns = line.answered_ns.filter(|_| !unknown);
        if answered_ns.is_some_and(|answered| answered < sent_ns) {
            return Err(format!("answered at {} ns, before it was sent at {sent_ns} ns", answered_ns.unwrap_or(0)));
        }
        if line.outcome == Outcome::Differs && answered_ns.is_none() {
            return Err("a `cas` that `differs` has an answer; without one its outcome is `unknown`".into());
        }
        let writes = matches!(kind, Kind::Write | Kind::Cas) && line.outcome != Outcome::Differs;
        if writes && line.value.is_null() {
            return Err("a write needs a `value`; to remove the key, use \"op\":\"delete\"".into());
        }
        let value = register.number(&line.value);
        if writes && line.outcome != Outcome::Failed && !register.written.insert(value) {
            return Err(format!(
                "{} is written twice to `{}`; give each write of a key its own value",
                line.value, line.key
            ));
        }
        let action = match (kind, line.outcome) {
            (_, Outcome::Failed) => return Ok(()),
            (Kind::Cas, Outcome::Differs) => Action::Differs(register.number(&line.expected)),
            (_, Outcome::Differs) => return Err("only a `cas` can end as `differs`".into()),
            (Kind::Read, _) if answered_ns.is_none() => return Ok(()),
            (Kind::Read, _) => Action::Read(value),
            (Kind::Write, _) => Action::Write(value),
            (Kind::Delete, _) => Action::Delete,
            (Kind::Cas, _) => Action::Swap(register.number(&line.expected), value),
        };
        let client = line.client.ok_or("`client` is missing: the number of its session")?;
        register.operations.push(Operation { sent_ns, answered_ns: answered_ns.unwrap_or(UNKNOWN), action, client });
        Ok(())
    }

    fn register(&mut self, key: &str) -> &mut Register {
        let at = self.positions.get(key).copied().unwrap_or_else(|| {
            self.positions.insert(key.to_owned(), self.keys.len());
            self.keys.push((key.to_owned(), Register::default()));
            self.keys.len() - 1
        });
        &mut self.keys[at].1
    }

    /// Adds an operation on a key whose values are numbers.
    pub fn push(&mut self, key: &str, operation: Operation) {
        self.register(key).operations.push(operation);
    }

    /// Adds a key with all of its operations. `values` are the texts of its values as JSON, by number: the first one
    /// stands for [`ABSENT`].
    pub fn add_key(&mut self, key: String, initial: Value, operations: Vec<Operation>, values: Vec<String>) {
        self.positions.insert(key.clone(), self.keys.len());
        self.keys.push((key, Register { initial, operations, values, ..Register::default() }));
    }

    /// Number of operations.
    pub fn operations(&self) -> u64 {
        self.keys.iter().map(|(_, register)| register.operations.len() as u64).sum()
    }

    /// Judges all keys, on so many threads. `budget` is as for [`judge`].
    pub fn report(&self, budget: usize, threads: usize) -> Report {
        let next = AtomicUsize::new(0);
        let all = Mutex::new(Report::default());
        std::thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| {
                    let mut part = Report::default();
                    while let Some((key, register)) = self.keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                        register.judged(key, budget, &mut part);
                    }
                    all.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(part);
                });
            }
        });
        let mut out = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        out.format = "storebench-check/1".to_owned();
        out.sort();
        out
    }

    /// Writes the history as JSON lines.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        for (key, register) in &self.keys {
            if register.initial != ABSENT {
                let line = serde_json::json!({ "key": key, "initial": register.shown(register.initial) });
                writeln!(out, "{line}")?;
            }
            for of in &register.operations {
                serde_json::to_writer(&mut out, &register.line(key, of))?;
                out.write_all(b"\n")?;
            }
        }
        Ok(())
    }

    /// Writes the history as Jepsen's tools read it (Knossos): a line of EDN for each send and each answer, in the order
    /// of time, with values `[key value]`. Values are numbers, the same for the same value of a key, and 0 for none: a
    /// register whose `nil` would mean an unknown value. What a key held at first is its first write. Jepsen's processes
    /// do one thing at a time, and none after one whose outcome is unknown, so a client may be several processes.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_jepsen(&self, mut out: impl Write) -> io::Result<()> {
        let mut index = 0u64;
        let mut line = |kind: &str, f: &str, process: u64, time: u64, key: &str, value: String| {
            let key = Json::from(key);
            let end = format!(":process {process}, :time {time}, :value [{key} {value}]}}");
            index += 1;
            writeln!(out, "{{:index {}, :type {kind}, :f {f}, {end}", index - 1)
        };
        for (key, register) in self.keys.iter().filter(|(_, register)| register.initial != ABSENT) {
            for kind in [":invoke", ":ok"] {
                line(kind, ":write", 0, 0, key, register.initial.to_string())?;
            }
        }
        let mut events: Vec<(u64, bool, &str, &Operation, usize)> = Vec::new();
        for (key, of) in
            self.keys.iter().flat_map(|(key, register)| register.operations.iter().map(move |of| (key, of)))
        {
            let number = events.len();
            events.push((of.sent_ns, false, key, of, number));
            events.push((of.answered_ns, true, key, of, number));
        }
        events.sort_by_key(|(at, answered, .., number)| (*at, *answered, *number));
        // Processes of each client that are free, and the one of each operation.
        let mut free: HashMap<u32, Vec<u64>> = HashMap::new();
        let mut process_of: HashMap<usize, u64> = HashMap::new();
        let mut processes = 1;
        for (at, answered, key, of, number) in events {
            let (f, value) = match of.action {
                Action::Read(value) => (":read", if answered { value.to_string() } else { "nil".to_owned() }),
                Action::Write(value) => (":write", value.to_string()),
                Action::Delete => (":write", ABSENT.to_string()),
                Action::Swap(from, to) => (":cas", format!("[{from} {to}]")),
                // Never written: it fails.
                Action::Differs(from) => (":cas", format!("[{from} {}]", Value::MAX)),
            };
            if !answered {
                let process = free.entry(of.client).or_default().pop().unwrap_or_else(|| {
                    processes += 1;
                    processes - 1
                });
                process_of.insert(number, process);
                line(":invoke", f, process, at, key, value)?;
                continue;
            }
            let process = process_of.remove(&number).unwrap_or_default();
            match of.action {
                _ if of.answered_ns == UNKNOWN => line(":info", f, process, of.sent_ns, key, value)?,
                Action::Differs(_) => line(":fail", f, process, at, key, value)?,
                _ => line(":ok", f, process, at, key, value)?,
            }
            if of.answered_ns != UNKNOWN {
                free.entry(of.client).or_default().push(process);
            }
        }
        Ok(())
    }
}

impl Register {
    fn line(&self, key: &str, of: &Operation) -> Line {
        let (op, value, expected, outcome) = match of.action {
            Action::Read(value) => (Kind::Read, self.shown(value), Json::Null, Outcome::Ok),
            Action::Write(value) => (Kind::Write, self.shown(value), Json::Null, Outcome::Ok),
            Action::Delete => (Kind::Delete, Json::Null, Json::Null, Outcome::Ok),
            Action::Swap(from, to) => (Kind::Cas, self.shown(to), self.shown(from), Outcome::Ok),
            Action::Differs(from) => (Kind::Cas, Json::Null, self.shown(from), Outcome::Differs),
        };
        let unknown = of.answered_ns == UNKNOWN;
        Line {
            key: key.to_owned(),
            initial: None,
            client: Some(of.client),
            op: Some(op),
            value,
            expected,
            sent_ns: Some(of.sent_ns),
            answered_ns: (!unknown).then_some(of.answered_ns),
            outcome: if unknown { Outcome::Unknown } else { outcome },
        }
    }

    /// A value as it was read from a file, or its number.
    fn shown(&self, value: Value) -> Json {
        if value == ABSENT || (value as usize) < self.values.len() { self.text(value) } else { value.into() }
    }

    fn judged(&self, key: &str, budget: usize, out: &mut Report) {
        out.keys += 1;
        out.operations += self.operations.len() as u64;
        out.unknown += self.operations.iter().filter(|of| of.answered_ns == UNKNOWN).count() as u64;
        out.staleness.add(&staleness(&self.operations, self.initial));
        match judge(&self.operations, self.initial, budget) {
            Verdict::Linearizable => out.linearizable += 1,
            Verdict::Undecided => out.undecided.push(key.to_owned()),
            Verdict::Broken(positions) => out.broken.push(BrokenKey {
                key: key.to_owned(),
                initial: self.shown(self.initial),
                sequence: positions
                    .into_iter()
                    .map(|at| serde_json::to_value(self.line(key, &self.operations[at])).unwrap_or_default())
                    .collect(),
            }),
        }
    }
}
