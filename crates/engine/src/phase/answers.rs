//! What a store answered to each operation of a trace, in a form that can be compared between stores.

use serde_json::{Number, Value};
use storebench_documents::trace::{Trace, TraceOp};
use xxhash_rust::xxh3::xxh3_64;

use super::clock::Clock;
use super::slots::Operations;
use crate::measure::Answer;
use crate::store::{ErrorKind, Reply};

/// Which answers of a trace can be compared, and with what in mind.
#[derive(Debug, Clone)]
pub struct ComparedAnswers {
    /// By number of the key.
    keys: Vec<bool>,
    /// Members that the store adds to its documents.
    own: &'static [&'static str],
}

impl ComparedAnswers {
    /// With one operation in flight in all, every answer is determined by the trace. Otherwise those on keys that only one
    /// client uses, or that nobody writes.
    pub(super) fn of(trace: &Trace, one_at_a_time: bool, own: &'static [&'static str]) -> Self {
        const NOBODY: u32 = u32::MAX;
        let mut keys = vec![true; trace.keys() as usize];
        if !one_at_a_time {
            let mut clients = vec![NOBODY; keys.len()];
            let mut shared = vec![false; keys.len()];
            let mut written = vec![false; keys.len()];
            for op in trace.ops() {
                let key = op.key as usize;
                shared[key] |= !matches!(clients[key], NOBODY) && clients[key] != op.client;
                clients[key] = op.client;
                written[key] |= op.kind().writes();
            }
            keys = shared.iter().zip(written).map(|(shared, written)| !(*shared && written)).collect();
        }
        Self { keys, own }
    }

    /// Whether the answer to an operation can be compared.
    pub fn includes(&self, op: &TraceOp) -> bool {
        self.keys[op.key as usize]
    }
}

impl<C: Clock> Operations<C> {
    /// Records what the operation of a slot was answered, if answers are compared.
    #[inline]
    pub(super) fn note_answer(&mut self, slot: usize, found: bool, reply: &Reply<'_>) {
        if self.plan.answers.is_some() {
            let answer = if found { self.read_answer(slot, reply) } else { Answer::Missed };
            self.answers.push((self.slots[slot].task.recorded, answer));
        }
    }

    /// The same for one that found no document, or failed.
    #[inline]
    pub(super) fn note_no_answer(&mut self, slot: usize, failed: Option<ErrorKind>) {
        if self.plan.answers.is_some() {
            let answer = failed.map_or(Answer::Missed, Answer::Failed);
            self.answers.push((self.slots[slot].task.recorded, answer));
        }
    }

    fn read_answer(&mut self, slot: usize, reply: &Reply<'_>) -> Answer {
        let task = self.slots[slot].task;
        let (Some(compared), Some(body)) = (&self.plan.answers, reply.body) else { return Answer::Done };
        let documents = self.catalog.get(self.plan.recipes[task.recipe].label.collection);
        match documents.check(task.index, body, &mut self.scratch) {
            Ok(0) => Answer::AsLoaded,
            // Versions of a trace are numbered like its operations.
            Ok(version) if version > self.plan.versions_above => Answer::Written(version - self.plan.versions_above),
            _ => Answer::Other(xxh3_64(canonical(body, compared.own, true).as_bytes())),
        }
    }
}

/// A document or row as text that is the same on every store: members sorted, members of the store (`own`) left out,
/// numbers to twelve digits (integers as they are, if `exact`), and JSON that a store returns as text as JSON.
pub fn canonical(row: &[u8], own: &[&str], exact: bool) -> String {
    let Ok(mut value) = serde_json::from_slice::<Value>(row) else { return String::from_utf8_lossy(row).into_owned() };
    unfold(&mut value);
    if let Value::Object(members) = &mut value {
        members.retain(|name, _| !name.starts_with(['_', '@', '$']) && !own.contains(&name.as_str()));
        members.values_mut().for_each(unfold);
    }
    let mut out = String::new();
    write_canonical(&value, exact, &mut out);
    out
}

/// Replaces text that is a JSON object or list by that.
fn unfold(value: &mut Value) {
    if let Value::String(text) = value
        && text.starts_with(['{', '['])
        && let Ok(inside) = serde_json::from_str(text)
    {
        *value = inside;
    }
}

/// Integers of up to fifteen digits are exact in every store. Other numbers are rounded to twelve digits, because stores
/// add fractions in different orders.
fn write_number(number: &Number, exact: bool, out: &mut String) {
    const EXACT: f64 = 1e15;
    if exact && !number.is_f64() {
        return out.push_str(&number.to_string());
    }
    let Some(real) = number.as_f64() else { return out.push_str(&number.to_string()) };
    let rounded: f64 = format!("{real:.11e}").parse().unwrap_or(real);
    let whole = if real.fract() == 0.0 { real } else { rounded };
    if whole.fract() == 0.0 && whole.abs() < EXACT {
        out.push_str(&format!("{}", whole as i64));
    } else {
        out.push_str(&format!("{rounded:e}"));
    }
}

fn write_canonical(value: &Value, exact: bool, out: &mut String) {
    match value {
        Value::Number(number) => write_number(number, exact, out),
        Value::Array(all) => {
            out.push('[');
            for (position, one) in all.iter().enumerate() {
                out.push_str(if position == 0 { "" } else { "," });
                write_canonical(one, exact, out);
            }
            out.push(']');
        }
        Value::Object(all) => {
            let mut names: Vec<&String> = all.keys().collect();
            names.sort_unstable();
            out.push('{');
            for (position, name) in names.into_iter().enumerate() {
                out.push_str(if position == 0 { "" } else { "," });
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write_canonical(&all[name], exact, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}
