//! Documents of MongoDB's profiler, as JSON Lines in extended JSON
//! (<https://www.mongodb.com/docs/manual/reference/database-profiler/>), such as `mongoexport -c system.profile` writes.

use serde_json::Value;

use super::{Error, Finds, Found, Options, rfc3339_ns};

pub(crate) fn line(text: &str, options: &Options, finds: &mut Finds) -> Result<(), Error> {
    let document: Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => {
            return Err(finds.wrong(&format!("it is not JSON: {error}; use mongoexport --jsonFormat=canonical")));
        }
    };
    let (Some(kind), Some(namespace), Some(at_ns)) =
        (document["op"].as_str(), document["ns"].as_str(), date_ns(&document["ts"]))
    else {
        return Err(finds.wrong("it is no document of system.profile: `op`, `ns` or `ts` is missing"));
    };
    // It is written when the operation has ended.
    let took_ms = number(&document["millis"]).unwrap_or(0);
    let at_ns = at_ns.saturating_sub(took_ms.saturating_mul(1_000_000));
    let command = &document["command"];
    // A session of the driver does one operation after another; an address may be a whole pool.
    let client = match &command["lsid"] {
        Value::Null => document["client"].as_str().unwrap_or_default().to_owned(),
        session => session.to_string(),
    };
    let first = |list: &str| command[list].get(0).cloned().unwrap_or_default();
    let mut add = |op, id: &Value, body: Option<&Value>, size: Option<u64>| match key_of(id) {
        Some(key) => finds.found.push(Found {
            at_ns,
            op,
            within: namespace.to_owned(),
            column: String::new(),
            key,
            client: client.clone(),
            size: size.or_else(|| body.map(|body| body.to_string().len() as u64)),
            body: body.filter(|_| options.bodies).map(Value::to_string),
        }),
        None => finds.leave_out(format!("{kind} that is not about one _id")),
    };
    let answered = || number(&document["responseLength"]).and_then(|bytes| u64::try_from(bytes).ok());
    match kind {
        "query" | "command" if command["find"].is_string() => add("read", &command["filter"]["_id"], None, answered()),
        "insert" => match command["documents"].as_array() {
            Some(all) => all.iter().for_each(|one| add("insert", &one["_id"], Some(one), None)),
            None => finds.leave_out("insert without its documents"),
        },
        "update" => {
            let (of, change, upsert) = match command["q"].is_object() {
                true => (command["q"].clone(), command["u"].clone(), command["upsert"].as_bool()),
                false => {
                    let update = first("updates");
                    (update["q"].clone(), update["u"].clone(), update["upsert"].as_bool())
                }
            };
            let whole = change.as_object().is_some_and(|change| !change.keys().any(|name| name.starts_with('$')));
            let op = if upsert == Some(true) { "upsert" } else { "replace" };
            add(op, &of["_id"], whole.then_some(&change), None);
        }
        "remove" => {
            let of = if command["q"].is_object() { command["q"].clone() } else { first("deletes")["q"].clone() };
            add("delete", &of["_id"], None, None);
        }
        "command" => {
            let name = command.as_object().and_then(|command| command.keys().next()).map_or("unknown", String::as_str);
            let name = name.to_owned();
            finds.leave_out(format!("the command {name}"));
        }
        other => finds.leave_out(format!("the operation {other}")),
    }
    Ok(())
}

fn number(value: &Value) -> Option<i64> {
    let inner = ["$numberLong", "$numberInt"].iter().find_map(|name| value[*name].as_str());
    value.as_i64().or_else(|| inner?.parse().ok())
}

/// A date of extended JSON, canonical or relaxed.
fn date_ns(value: &Value) -> Option<i64> {
    match &value["$date"] {
        Value::String(text) => rfc3339_ns(text),
        ms => number(ms)?.checked_mul(1_000_000),
    }
}

/// The text of an `_id` that is one value.
fn key_of(id: &Value) -> Option<String> {
    match id {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(all) if all.len() == 1 => {
            let (name, value) = all.iter().next()?;
            match (name.as_str(), value) {
                ("$oid" | "$numberLong" | "$numberInt" | "$uuid", Value::String(text)) => Some(text.clone()),
                ("$eq", value) => key_of(value),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_on_one_id_are_part_of_the_trace() {
        let mut finds = Finds::default();
        let ts = r#""ns":"shop.docs","client":"10.0.0.1:5","ts":{"$date":{"$numberLong":"1000"}}"#;
        for rest in [
            r#""op":"query","command":{"find":"docs","filter":{"_id":"a"}},"responseLength":300,"millis":10"#,
            r#""op":"query","command":{"find":"docs","filter":{"city":"Lima"}}"#,
            r#""op":"insert","command":{"insert":"docs","documents":[{"_id":{"$oid":"65"},"v":1}]}"#,
            r#""op":"update","command":{"q":{"_id":{"$eq":7}},"u":{"$set":{"v":2}},"upsert":true}"#,
            r#""op":"update","command":{"q":{"_id":7},"u":{"v":2}}"#,
            r#""op":"remove","command":{"q":{"_id":"a"},"limit":1}"#,
            r#""op":"command","command":{"aggregate":"docs","pipeline":[]}"#,
            r#""op":"getmore","command":{}"#,
        ] {
            line(&format!("{{{ts},{rest}}}"), &Options { bodies: true, ..Options::default() }, &mut finds).unwrap();
        }
        let shown: Vec<_> = finds.found.iter().map(|f| (f.at_ns / 1_000_000, f.op, f.key.as_str(), f.size)).collect();
        assert_eq!(
            shown,
            [
                (990, "read", "a", Some(300)),
                (1000, "insert", "65", Some(27)),
                (1000, "upsert", "7", None),
                (1000, "replace", "7", Some(7)),
                (1000, "delete", "a", None),
            ]
        );
        let left: Vec<&str> = finds.left_out.keys().map(String::as_str).collect();
        assert_eq!(left, ["query that is not about one _id", "the command aggregate", "the operation getmore"]);
        for wrong in ["{\"op\":\"query\"", "{\"op\":\"query\"}"] {
            assert!(line(wrong, &Options::default(), &mut finds).is_err(), "{wrong}");
        }
    }
}
