//! Reads run folders of format 1, which used other names for the same things.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The format before [`FORMAT`](super::FORMAT).
pub(super) const FORMAT_1: &str = "storebench-run/1";

/// Fields of `run.json`: the old name and the new one. `level` is missing because it became two fields.
const FIELDS: [(&str, &str); 17] = [
    ("arm", "configuration"),
    ("arms", "configurations"),
    ("block", "round"),
    ("censored", "unfinished"),
    ("due", "scheduled"),
    ("due_per_s", "scheduled_per_s"),
    ("held", "met"),
    ("held_share", "sustained_share"),
    ("levels", "values"),
    ("needs_regime", "needs_data_to_memory"),
    ("saw", "observed"),
    ("slip_ns", "send_delay_ns"),
    ("slip_p99_ns", "send_delay_p99_ns"),
    ("slot_wait_ns", "client_queueing_ns"),
    ("slots", "in_flight_limit"),
    ("slots_busy_share", "in_flight_share"),
    ("verdicts", "checks"),
];

/// Checks, and reasons for probing a rate: the old name and the new one.
const WORDS: [(&str, &str); 9] = [
    ("between held and failed", "between met and failed"),
    ("does it fail again?", "confirm that they fail"),
    ("does it hold again?", "confirm that they are met"),
    ("it held below", "limits met below"),
    ("limit-not-held", "limit-not-met"),
    ("noisy-blocks", "noisy-rounds"),
    ("rate-not-held", "rate-not-sustained"),
    ("regime-differs", "data-to-memory-differs"),
    ("schedule-slip", "send-delay"),
];

/// Columns of the tables as they appear in a line of JSON: the old name and the new one.
const COLUMNS: [(&str, &str); 3] =
    [("\"censored\":", "\"unfinished\":"), ("\"slot_wait_", "\"client_queueing_"), ("\"slip_", "\"send_delay_")];

/// Fields whose members users named. Neither these names nor what they contain is changed.
const OF_USERS: [&str; 11] = [
    "distinct_keys_by_collection",
    "errors_by_kind",
    "figures",
    "first_answer_by_op_ns",
    "frozen",
    "levels",
    "others",
    "sampled",
    "settings",
    "stats",
    "unavailable_by_op_ns",
];

/// A `run.json` of format 1 with the current names.
pub(super) fn renamed(mut run: Value) -> Value {
    for name in ["run", "plan", "documents", "trials", "arms", "sweeps", "claims", "cost", "verdicts"] {
        if let Some(part) = run.get_mut(name) {
            fields(part);
        }
    }
    if let Some(run) = run.as_object_mut() {
        members(run);
        run.insert("format".to_owned(), super::FORMAT.into());
    }
    run
}

fn fields(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(fields),
        Value::Object(object) => {
            for (name, inner) in object.iter_mut() {
                match name.as_str() {
                    // Users name operations, and everything in a study except its claims.
                    "ops" => inner.as_object_mut().into_iter().flatten().for_each(|(_, op)| fields(op)),
                    "study" => inner.get_mut("published").into_iter().for_each(fields),
                    "sheet" => inner.as_object_mut().into_iter().for_each(members),
                    "check" | "why" => word(inner),
                    // Counts by collection.
                    "documents" if inner.is_object() => {}
                    name if OF_USERS.contains(&name) => {}
                    _ => fields(inner),
                }
            }
            members(object);
        }
        _ => {}
    }
}

/// Renames the members of one object, in their order.
fn members(object: &mut Map<String, Value>) {
    let severity = object.contains_key("check");
    *object = std::mem::take(object)
        .into_iter()
        .map(|(name, value)| match name.as_str() {
            "level" if severity => ("severity".to_owned(), value),
            "level" => ("value".to_owned(), value),
            known => match FIELDS.iter().find(|(then, _)| *then == known) {
                Some((_, now)) => ((*now).to_owned(), value),
                None => (name, value),
            },
        })
        .collect();
}

fn word(value: &mut Value) {
    if let Some((_, now)) = WORDS.iter().find(|(then, _)| value == then) {
        *value = (*now).into();
    }
}

/// A row of a table with the current column names. Quotes within text are escaped, so only names are replaced.
pub(super) fn renamed_row(line: &[u8]) -> Cow<'_, [u8]> {
    let Ok(text) = std::str::from_utf8(line) else { return line.into() };
    if !COLUMNS.iter().any(|(then, _)| text.contains(then)) {
        return line.into();
    }
    COLUMNS.iter().fold(text.to_owned(), |text, (then, now)| text.replace(then, now)).into_bytes().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_users_stay() {
        let run = renamed(json!({
            "format": FORMAT_1,
            "run": { "study": { "collections": { "arm": { "held": 1 } }, "published": [{ "needs_regime": true }] } },
            "trials": [{
                "arm": "a", "block": 2, "documents": { "held": 8 }, "levels": { "collections.arm.count": 3, "level": 7 },
                "phases": [{ "ops": { "block": { "censored": 4, "errors_by_kind": { "level": 1 } } }, "slots": 5 }],
                "searches": [{ "probes": [{ "why": "it held below", "held": true }] }],
            }],
            "sweeps": [{ "sweep": { "curve": [{ "level": 6.0, "figure": { "value": 9.0 } }] } }],
            "verdicts": [{ "check": "noisy-blocks", "level": "note", "saw": "level" }],
        }));
        assert_eq!(
            run,
            json!({
                "format": super::super::FORMAT,
                "run": {
                    "study": { "collections": { "arm": { "held": 1 } }, "published": [{ "needs_data_to_memory": true }] }
                },
                "trials": [{
                    "configuration": "a", "round": 2, "documents": { "held": 8 }, "values": { "collections.arm.count": 3, "level": 7 },
                    "phases": [{
                        "ops": { "block": { "unfinished": 4, "errors_by_kind": { "level": 1 } } }, "in_flight_limit": 5
                    }],
                    "searches": [{ "probes": [{ "why": "limits met below", "met": true }] }],
                }],
                "sweeps": [{ "sweep": { "curve": [{ "value": 6.0, "figure": { "value": 9.0 } }] } }],
                "checks": [{ "check": "noisy-rounds", "severity": "note", "observed": "level" }],
            })
        );
    }

    #[test]
    fn columns_are_renamed_and_text_stays() {
        let row = br#"{"op":"\"censored\":","censored":1,"slot_wait_p50_ns":2,"slip_max_ns":3}"#;
        let now = br#"{"op":"\"censored\":","unfinished":1,"client_queueing_p50_ns":2,"send_delay_max_ns":3}"#;
        assert_eq!(renamed_row(row).as_ref(), now);
    }
}
