//! What `redis-cli MONITOR` prints: `1339518083.107412 [0 127.0.0.1:60866] "GET" "user:7"`
//! (<https://redis.io/docs/latest/commands/monitor/>).

use super::{Error, Finds, Found, Options, seconds_ns};

pub(crate) fn line(text: &str, options: &Options, finds: &mut Finds) -> Result<(), Error> {
    if text == "OK" {
        return Ok(());
    }
    let parsed = || {
        let (at, rest) = text.split_once(" [")?;
        let (client, rest) = rest.split_once("] ")?;
        Some((seconds_ns(at)?, client, words(rest)?))
    };
    let Some((at_ns, client, words)) = parsed() else {
        return Err(finds.wrong("it is no line of redis-cli MONITOR: a time, [database client], and quoted words"));
    };
    // Commands of scripts have another place than a client, and belong to the script.
    let (database, client) = client.split_once(' ').unwrap_or(("0", client));
    if database != "0" && client != "lua" {
        finds.leave_out(format!("a command on database {database}"));
        return Ok(());
    }
    if client == "lua" {
        finds.leave_out("a command within a script");
        return Ok(());
    }
    let Some((name, words)) = words.split_first() else { return Ok(()) };
    let name = String::from_utf8_lossy(name).to_ascii_uppercase();
    let text = |word: &Vec<u8>| String::from_utf8(word.clone()).ok();
    let flag = |flag: &str| words.iter().skip(2).any(|word| word.eq_ignore_ascii_case(flag.as_bytes()));
    let (op, keys, body): (&'static str, &[Vec<u8>], Option<&Vec<u8>>) = match (name.as_str(), words.len()) {
        ("GET" | "HGETALL" | "JSON.GET" | "GETEX", 1..) => ("read", &words[..1], None),
        ("MGET", 1..) => ("read", words, None),
        ("EXISTS", 1..) => ("exists", words, None),
        ("SET", 2..) => {
            let op = if flag("NX") {
                "insert"
            } else if flag("XX") {
                "replace"
            } else {
                "upsert"
            };
            (op, &words[..1], words.get(1))
        }
        ("SETNX", 2) => ("insert", &words[..1], words.get(1)),
        ("SETEX" | "PSETEX", 3) => ("upsert", &words[..1], words.get(2)),
        ("JSON.SET", 3..) if matches!(words[1].as_slice(), b"$" | b".") => ("upsert", &words[..1], words.get(2)),
        ("GETSET", 2) => ("upsert", &words[..1], words.get(1)),
        ("DEL" | "UNLINK" | "GETDEL", 1..) => ("delete", words, None),
        _ => {
            finds.leave_out(format!("the command {name}"));
            return Ok(());
        }
    };
    for key in keys {
        let Some(key) = text(key) else {
            finds.leave_out("a key that is not UTF-8");
            continue;
        };
        let prefix = options.within.as_deref().unwrap_or_default();
        let (within, key) = match key.strip_prefix(prefix) {
            Some(rest) => (prefix.to_owned(), rest.to_owned()),
            None => ("keys without the prefix".to_owned(), key),
        };
        finds.found.push(Found {
            at_ns,
            op,
            within,
            column: String::new(),
            key,
            client: client.to_owned(),
            size: body.map(|body| body.len() as u64),
            body: body.filter(|_| options.bodies).and_then(text),
        });
    }
    Ok(())
}

/// Quoted words, with the escapes of Redis's `sdscatrepr`.
fn words(text: &str) -> Option<Vec<Vec<u8>>> {
    let (mut words, bytes, mut at) = (Vec::new(), text.as_bytes(), 0);
    while at < bytes.len() {
        if bytes[at] == b' ' {
            at += 1;
            continue;
        }
        if bytes[at] != b'"' {
            return None;
        }
        at += 1;
        let mut word = Vec::new();
        loop {
            match *bytes.get(at)? {
                b'"' => break,
                b'\\' => {
                    at += 1;
                    word.push(match *bytes.get(at)? {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'a' => 7,
                        b'b' => 8,
                        b'x' => {
                            let byte = u8::from_str_radix(text.get(at + 1..at + 3)?, 16).ok()?;
                            at += 2;
                            byte
                        }
                        other => other,
                    });
                }
                other => word.push(other),
            }
            at += 1;
        }
        at += 1;
        words.push(word);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_operations_on_their_keys() {
        let mut finds = Finds::default();
        let options = Options { within: Some("u:".into()), bodies: true, ..Options::default() };
        for text in [
            "OK",
            r#"1339518083.107412 [0 127.0.0.1:60866] "get" "u:1""#,
            r#"1339518083.2 [0 [::1]:60866] "MGET" "u:1" "u:2""#,
            r#"1339518084.000001 [0 127.0.0.1:1] "SET" "u:\xc3\xbc" "{\"a\":1}" "EX" "10" "nx""#,
            r#"1339518085 [0 lua] "SET" "u:9" "x""#,
            r#"1339518085 [0 127.0.0.1:1] "UNLINK" "v:3""#,
            r#"1339518085 [0 127.0.0.1:1] "LPUSH" "l" "x""#,
            r#"1339518085 [3 127.0.0.1:1] "GET" "u:1""#,
            r#"1339518085 [0 127.0.0.1:1] "JSON.SET" "u:1" "$.count" "5""#,
        ] {
            line(text, &options, &mut finds).unwrap();
        }
        let shown: Vec<_> =
            finds.found.iter().map(|f| (f.at_ns, f.op, f.within.as_str(), f.key.as_str(), f.size)).collect();
        assert_eq!(
            shown,
            [
                (1_339_518_083_107_412_000, "read", "u:", "1", None),
                (1_339_518_083_200_000_000, "read", "u:", "1", None),
                (1_339_518_083_200_000_000, "read", "u:", "2", None),
                (1_339_518_084_000_001_000, "insert", "u:", "ü", Some(7)),
                (1_339_518_085_000_000_000, "delete", "keys without the prefix", "v:3", None),
            ]
        );
        assert_eq!(finds.found[3].body.as_deref(), Some("{\"a\":1}"));
        assert_eq!(
            finds.left_out.keys().collect::<Vec<_>>(),
            ["a command on database 3", "a command within a script", "the command JSON.SET", "the command LPUSH"]
        );
        for torn in [r#"1339518083.1 [0 127.0.0.1:60866] "get" "u:"#, "hello", r#"x [0 a] "GET" "b""#] {
            assert!(line(torn, &options, &mut finds).is_err(), "{torn}");
        }
    }
}
