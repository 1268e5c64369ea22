//! Writes traces.

use std::io::{self, Write};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Operation, Trace};

/// The form of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One JSON object in each line.
    JsonLines,
    /// CSV with a header (RFC 4180).
    Csv,
}

/// Replaces keys by the first 16 bytes of SHA-256 over a salt and the key, in hexadecimal. Without the salt nobody can try
/// keys that are easy to guess.
#[derive(Debug, Clone)]
pub struct Hashing(Vec<u8>);

impl Hashing {
    /// Hashes with this salt. The same salt gives the same keys again.
    pub fn with(salt: &[u8]) -> Self {
        Self(salt.to_vec())
    }

    /// The hash of a key.
    pub fn of(&self, key: &str) -> String {
        let hash = Sha256::new().chain_update((self.0.len() as u64).to_le_bytes()).chain_update(&self.0);
        let hash = hash.chain_update(key.as_bytes()).finalize();
        hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Trace {
    /// Writes it. Times are seconds after the first operation, and clients are numbers.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, form: Form, hashing: Option<&Hashing>, out: &mut impl Write) -> io::Result<()> {
        match form {
            Form::JsonLines => self.write_json_lines(hashing, out),
            Form::Csv => self.write_csv(hashing, out),
        }
    }

    /// The time of each operation as text, and its key.
    fn rows<'a>(&'a self, hashing: Option<&'a Hashing>) -> impl Iterator<Item = (String, String, &'a Operation)> {
        let first_ns = self.operations.first().map_or(0, |operation| operation.at_ns);
        self.operations.iter().map(move |operation| {
            let after_ns = operation.at_ns.abs_diff(first_ns);
            let time = format!("{}.{:06}", after_ns / 1_000_000_000, after_ns % 1_000_000_000 / 1_000);
            let key = hashing.map_or_else(|| operation.key.clone(), |hashing| hashing.of(&operation.key));
            (time, key, operation)
        })
    }

    fn write_csv(&self, hashing: Option<&Hashing>, out: &mut impl Write) -> io::Result<()> {
        let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(out);
        csv.write_record(["time", "op", "key", "client", "size", "body"])?;
        for (time, key, operation) in self.rows(hashing) {
            let (client, size) = (operation.client.to_string(), operation.size.map(|size| size.to_string()));
            let body = operation.body.as_deref().unwrap_or_default();
            if key.contains(['\n', '\r']) || body.contains(['\n', '\r']) {
                let why = "a key or a document has a line break, which a trace in CSV cannot have; write .jsonl";
                return Err(io::Error::other(why));
            }
            csv.write_record([&time, operation.op, &key, &client, size.as_deref().unwrap_or_default(), body])?;
        }
        csv.flush()
    }

    fn write_json_lines(&self, hashing: Option<&Hashing>, out: &mut impl Write) -> io::Result<()> {
        for (time, key, operation) in self.rows(hashing) {
            let (op, key, client) = (operation.op, Value::from(key), operation.client);
            write!(out, "{{\"time\":{time},\"op\":\"{op}\",\"key\":{key},\"client\":{client}")?;
            if let Some(size) = operation.size {
                write!(out, ",\"size\":{size}")?;
            }
            if let Some(body) = &operation.body {
                // An object is written as such, anything else as text.
                match serde_json::from_str::<Value>(body) {
                    Ok(Value::Object(_)) if !body.contains(['\n', '\r']) => write!(out, ",\"body\":{body}")?,
                    _ => write!(out, ",\"body\":{}", Value::from(body.as_str()))?,
                }
            }
            out.write_all(b"}\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> Trace {
        let operation = |at_ns, op, key: &str, size, body: Option<&str>| Operation {
            at_ns,
            op,
            key: key.to_owned(),
            client: 1,
            size,
            body: body.map(str::to_owned),
        };
        Trace {
            operations: vec![
                operation(5_000_000_000, "read", "a,\"b\"", Some(3), None),
                operation(6_500_001_999, "upsert", "c", None, Some("{\"v\":1}")),
            ],
            ..Trace::default()
        }
    }

    fn text(form: Form, hashing: Option<&Hashing>) -> String {
        let mut out = Vec::new();
        trace().write(form, hashing, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn both_forms_have_the_same_columns() {
        assert_eq!(
            text(Form::JsonLines, None),
            "{\"time\":0.000000,\"op\":\"read\",\"key\":\"a,\\\"b\\\"\",\"client\":1,\"size\":3}\n\
             {\"time\":1.500001,\"op\":\"upsert\",\"key\":\"c\",\"client\":1,\"body\":{\"v\":1}}\n"
        );
        assert_eq!(
            text(Form::Csv, None),
            "time,op,key,client,size,body\n0.000000,read,\"a,\"\"b\"\"\",1,3,\n1.500001,upsert,c,1,,\"{\"\"v\"\":1}\"\n"
        );
    }

    #[test]
    fn hashed_keys_depend_on_the_salt_and_say_nothing_of_the_key() {
        let [one, same, other] = ["s", "s", "t"].map(|salt| Hashing::with(salt.as_bytes()).of("c"));
        assert!(one == same && one != other && one.len() == 32);
        let text = text(Form::JsonLines, Some(&Hashing::with(b"s")));
        assert!(text.contains(&one) && !text.contains("\"c\""), "{text}");
    }
}
