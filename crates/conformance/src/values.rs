//! What documents and keys may be: every size and every kind of JSON must come back unchanged.

use serde_json::{Value, json};

use super::Subject;
use super::client::Client;
use super::suite::{Check, Stop, ensure};
use storebench_engine::store::{BatchBuf, BulkWrite, ErrorKind, Op, OpKind};

const NEEDS: &[OpKind] = &[OpKind::Upsert, OpKind::Read];

pub(super) const CHECKS: &[Check] = &[
    Check { name: "documents: JSON of 2 bytes to 1 MiB comes back", needs: NEEDS, run: json_sizes },
    Check { name: "documents: bytes of 2 bytes to 1 MiB come back", needs: NEEDS, run: byte_sizes },
    Check { name: "documents: every kind of JSON comes back", needs: NEEDS, run: json_kinds },
    Check { name: "documents: objects nested 50 deep come back", needs: NEEDS, run: json_depth },
    Check { name: "documents: bytes are bytes, not text", needs: NEEDS, run: any_bytes },
    Check { name: "keys: of 1 byte, and of 250 bytes or the declared maximum", needs: NEEDS, run: key_lengths },
    Check {
        name: "keys: an empty key and one of 100,000 bytes are stored or refused",
        needs: NEEDS,
        run: extreme_keys,
    },
    Check { name: "keys: quotes, escapes, wildcards and Unicode", needs: NEEDS, run: odd_keys },
    Check { name: "keys: differ by case and by trailing space", needs: NEEDS, run: near_keys },
];

/// Keys that break statements built by concatenation, patterns, or paths.
pub(super) const ODD_KEYS: [&str; 12] = [
    "it's",
    "say \"hi\"",
    "back\\slash",
    "100%",
    "under_score",
    "star*and?",
    "sl/ash//es/",
    "a b",
    "#frag&q=1+2",
    "ключ",
    "日本語/キー",
    "😀{}[];--",
];

const SIZES: [usize; 11] = [2, 3, 100, 1_000, 4_095, 4_096, 16_384, 65_535, 65_536, 262_144, 1_048_576];

fn json_sizes(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    for size in SIZES {
        let value = if size < 10 { json!({}) } else { json!({ "t": words(size - r#"{"t":""}"#.len()) }) };
        let key = format!("size-{size}");
        c.wrote(s.documents, Op::Upsert { key: &key, body: value.to_string().as_bytes() })?;
        c.holds(s.documents, &key, &value)?;
    }
    Ok(())
}

fn byte_sizes(s: &Subject<'_>) -> Result<(), Stop> {
    let blobs = s.blobs()?;
    let mut c = s.client()?;
    for size in SIZES {
        let body = words(size);
        let key = format!("size-{size}");
        c.wrote(blobs, Op::Upsert { key: &key, body: body.as_bytes() })?;
        c.holds_bytes(blobs, &key, body.as_bytes())?;
    }
    Ok(())
}

/// This many ASCII letters, digits and spaces, without long repeated runs.
fn words(bytes: usize) -> String {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b" abcdefghijklmnopqrstuvwxyz01234"[usize::from((state >> 59) as u8)])
        })
        .collect()
}

fn json_kinds(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let texts = [
        r#"{}"#,
        r#"{"a":null,"b":true,"c":false,"d":[],"e":{},"f":""}"#,
        r#"{"escapes":"\" \\ \/ \b \f \n \r \t \u0041 \u00e9 \u2028 \ud83d\ude00"}"#,
        r#"{"plain":"é ß ж 日本 😀 \u007f"}"#,
        r#"{"control":"\u0001\u001f"}"#,
        r#"{"max":9007199254740991,"min":-9007199254740991,"two":9007199254740992,"less":-9007199254740992}"#,
        r#"{"zero":0,"one":1,"minus":-1,"large":2147483648,"larger":4294967296}"#,
        r#"{"half":0.5,"tenth":0.1,"small":1.5e-9,"big":1.25e30,"minus":-2.75,"pi":3.141592653589793}"#,
        r#"{"array":[1,"two",null,[3,[4]],{"five":5}]}"#,
        r#"{"it's":1,"say \"hi\"":2,"dot.ted":3,"dol$lar":4,"sp ace":5,"ключ":6,"":7}"#,
        r#"{ "spaces" : [ 1 , 2 ] ,
            "lines" : { } }"#,
        r#"{"looks":"{\"like\":\"json\"}","date":"2020-01-01T00:00:00Z","number":"12","bool":"true","null":"null"}"#,
    ];
    for (i, text) in texts.iter().enumerate() {
        let key = format!("kind-{i}");
        let value: Value =
            serde_json::from_str(text).map_err(|e| Stop::failed(format!("the suite's own {key}: {e}")))?;
        c.wrote(s.documents, Op::Upsert { key: &key, body: text.as_bytes() })?;
        c.holds(s.documents, &key, &value)?;
    }
    Ok(())
}

fn json_depth(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let value =
        (0..50).fold(json!(1), |inner, depth| if depth % 2 == 0 { json!({ "in": inner }) } else { json!([inner]) });
    let value = json!({ "deep": value });
    c.wrote(s.documents, Op::Upsert { key: "deep", body: value.to_string().as_bytes() })?;
    c.holds(s.documents, "deep", &value)
}

fn any_bytes(s: &Subject<'_>) -> Result<(), Stop> {
    let blobs = s.blobs()?;
    let mut c = s.client()?;
    let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    for (key, body) in [("all", &all[..]), ("zeros", &[0; 64]), ("quote", b"'\"\\"), ("object", b"{ \"a\" : 1 }")] {
        c.wrote(blobs, Op::Upsert { key, body })?;
        c.holds_bytes(blobs, key, body)?;
    }
    Ok(())
}

/// Stores a different document under each key, then reads them all.
fn hold_each<K: AsRef<str>>(c: &mut Client, s: &Subject<'_>, keys: &[K]) -> Result<(), Stop> {
    for (i, key) in keys.iter().enumerate() {
        let body = json!({ "n": i }).to_string();
        c.wrote(s.documents, Op::Upsert { key: key.as_ref(), body: body.as_bytes() })?;
    }
    keys.iter().enumerate().try_for_each(|(i, key)| c.holds(s.documents, key.as_ref(), &json!({ "n": i })))
}

fn key_lengths(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let longest = s.longest_key();
    let keys = ["k".to_owned(), "k".repeat(2), "k".repeat(longest - 1), "k".repeat(longest)];
    if longest < 250 {
        let op = Op::Upsert { key: &"k".repeat(longest + 1), body: b"{}" };
        c.fails(ErrorKind::Refused, s.documents, op)?;
    }
    hold_each(&mut c, s, &keys)
}

fn extreme_keys(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    // Nothing that a store could compress.
    let long = words(100_000).replace(' ', "-");
    let body = json!({ "n": 1 });
    let text = body.to_string();
    for key in ["", &long] {
        match c.call(s.documents, Op::Upsert { key, body: text.as_bytes() })? {
            Ok(_) => c.holds(s.documents, key, &body)?,
            Err(error) => ensure!(
                error.kind == ErrorKind::Refused && !error.message.is_empty(),
                "a key of {} bytes must be stored, or refused with a reason; got {error}",
                key.len()
            ),
        }
        c.wrote(s.documents, Op::Upsert { key: "usual", body: text.as_bytes() })?;
    }
    for kind in [BulkWrite::Upsert, BulkWrite::Insert] {
        let needed = if kind == BulkWrite::Upsert { OpKind::BulkUpsert } else { OpKind::BulkInsert };
        if !s.can(needed) {
            continue;
        }
        let usual = [0, 1, 2].map(|n| format!("{needed}-{n}"));
        let mut items = BatchBuf::new();
        for key in [&usual[0], "", &usual[1], &long, &usual[2]] {
            items.push(key, text.as_bytes());
        }
        let reply = c.ok(s.documents, Op::BulkWrite { kind, items: items.as_batch() })?;
        for reject in reply.as_reply().rejects {
            // A key that the single write has stored makes an insert conflict.
            let expected = matches!(reject.error.kind, ErrorKind::Refused | ErrorKind::Conflict);
            ensure!(reject.item % 2 == 1 && expected, "{needed}: only the odd keys may be refused; got {reject:?}");
        }
        for key in &usual {
            c.holds(s.documents, key, &body)?;
        }
    }
    Ok(())
}

fn odd_keys(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    hold_each(&mut c, s, &ODD_KEYS)?;
    if s.can(OpKind::Delete) {
        for key in ODD_KEYS {
            c.wrote(s.documents, Op::Delete { key })?;
            c.fails(ErrorKind::NotFound, s.documents, Op::Delete { key })?;
        }
    }
    Ok(())
}

fn near_keys(s: &Subject<'_>) -> Result<(), Stop> {
    hold_each(&mut s.client()?, s, &["key", "Key", "KEY", "key ", "ke\u{301}y", "k\u{e9}y"])
}
