//! Fields, keys, sizes, versions, and the check of what is read back.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use storebench_documents::{Catalog, Mismatch};

use super::{catalog, document, key, try_catalog, value};

/// One field of every kind.
const EVERY_KIND: &str = r#"
[collections.people]
count = 1000
[collections.things]
count  = 5000
key    = "{kind}/{serial:06}/{index}-{id}"
size   = ["3KiB", "5KiB"]
index  = [["price", "address.city"], ["motto"]]
[collections.things.fields]
label    = "no. {index:05} \"{kind}\" {{x}}"
kind     = { choice = { "a\"b" = 3, "ä\n" = 1 } }
serial   = { integer = [0, 99999] }
below    = { integer = [-50, -5] }
price    = { decimal = [-10.5, 99.99], digits = 3 }
at       = { time = ["2006-01-01", "2018-01-01T12:00:00Z"] }
name     = { words = [2, 5] }
motto    = { words = 3 }
about    = { sentences = [1, 3] }
note     = { text = ["10B", "40B"] }
yes      = { bool = 0.25 }
tags     = { list = { choice = ["red", "green"] }, length = [0, 4] }
parts    = { list = { object = { n = { integer = [1, 9] }, w = { words = 1 }, l = { list = { bool = 0.5 }, length = 2 } } }, length = [1, 3] }
address  = { object = { city = { choice = ["Ulm", "Köln"] }, geo = { object = { lat = { decimal = [-90, 90] }, about = { words = 2 } } } } }
owner    = { ref = "people", popularity = "zipf:0.99" }
blob     = { bytes = [0, 50] }
id       = { id = "uuid" }
hex      = { id = "hex" }
body     = { text = "fill" }
more     = { text = "fill" }
last     = { integer = [0, 1000] }
"#;

fn things() -> Catalog {
    catalog(EVERY_KIND)
}

#[test]
fn every_kind_is_json_of_its_kind() {
    let catalog = things();
    let things = catalog.get(catalog.find("things").unwrap());
    for index in 0..2_000 {
        let v = value(things, index, index % 3);
        assert_eq!(v["sb"], json!([index, index % 3]));
        let text = |name: &str| v[name].as_str().unwrap_or_else(|| panic!("{name} of {v}")).to_owned();
        let kind = text("kind");
        assert!(kind == "a\"b" || kind == "ä\n");
        assert_eq!(text("label"), format!("no. {index:05} \"{kind}\" {{x}}"));
        assert!((-50..=-5).contains(&v["below"].as_i64().unwrap()));
        assert!((-10.5..=99.99).contains(&v["price"].as_f64().unwrap()));
        let at: jiff::Timestamp = text("at").parse().unwrap();
        assert!(("2006-01-01T00:00:00Z".parse().unwrap()..="2018-01-01T12:00:00Z".parse().unwrap()).contains(&at));
        assert!((2..=5).contains(&text("name").split(' ').count()));
        let sentences = text("about");
        assert!(sentences.ends_with('.') && (1..=3).contains(&sentences.matches('.').count()), "{sentences}");
        assert!((10..=40).contains(&text("note").len()));
        assert!(v["yes"].is_boolean());
        assert!(v["tags"].as_array().unwrap().iter().all(|t| t == "red" || t == "green"));
        for part in v["parts"].as_array().unwrap() {
            assert!((1..=9).contains(&part["n"].as_u64().unwrap()) && part["w"].is_string());
            assert_eq!(part["l"].as_array().unwrap().len(), 2);
        }
        assert!(v["address"]["geo"]["lat"].is_number() && v["address"]["geo"]["about"].is_string());
        assert!(text("owner").starts_with("people/"));
        use base64::Engine as _;
        assert!(base64::engine::general_purpose::STANDARD.decode(text("blob")).unwrap().len() <= 50);
        assert_eq!((text("id").len(), text("hex").len()), (36, 24));
        assert!(text("body").len().abs_diff(text("more").len()) <= 1, "the rest is shared evenly");
        assert_eq!(key(things, index), format!("{kind}/{:06}/{index}-{}", v["serial"].as_u64().unwrap(), text("id")));
    }
}

#[test]
fn sizes_are_exact() {
    let catalog = things();
    let things = catalog.get(1);
    let sizes: Vec<usize> = (0..3_000).map(|i| document(things, i, 1).len()).collect();
    assert!(sizes.iter().all(|s| (3_072..=5_120).contains(s)));
    assert!(sizes.iter().any(|s| *s < 3_100) && sizes.iter().any(|s| *s > 5_090));
    for version in [1, 2, 9_999_999] {
        assert_eq!(document(things, 17, version).len(), sizes[17], "a document keeps its size");
    }
    let fixed = super::catalog("[collections.a]\ncount = 1000000\nsize = 200");
    for index in [0, 9, 10, 999_999, 5_000_000] {
        assert_eq!(document(fixed.get(0), index, 123).len(), 200);
    }
    assert_eq!(fixed.get(0).mean_bytes(), 200);
}

#[test]
fn versions_change_text_only() {
    let catalog = things();
    let things = catalog.get(1);
    for index in 0..300 {
        let (a, b) = (value(things, index, 0), value(things, index, 7));
        for name in
            ["label", "kind", "serial", "below", "price", "at", "motto", "yes", "tags", "owner", "id", "hex", "last"]
        {
            assert_eq!(a[name], b[name], "{name}");
        }
        assert_eq!(a["address"]["city"], b["address"]["city"]);
        assert_eq!(a["parts"].as_array().unwrap().len(), b["parts"].as_array().unwrap().len());
        for (one, other) in a["parts"].as_array().unwrap().iter().zip(b["parts"].as_array().unwrap()) {
            assert_eq!((&one["n"], &one["l"]), (&other["n"], &other["l"]));
        }
        assert_ne!(a["body"], b["body"]);
        assert_ne!(a["more"], a["body"]);
        for name in ["price", "address.city", "motto"] {
            let expected = name.split('.').fold(&a, |v, part| &v[part]);
            assert_eq!(things.index_value(index, name).as_ref(), Some(expected));
        }
    }
    assert_eq!(things.index_value(0, "body"), None, "changes with the version");
    assert_eq!(things.index_value(0, "nothing"), None);
}

#[test]
fn keys_differ_and_prefixes_end_before_a_name() {
    let catalog = things();
    let things = catalog.get(1);
    let keys: HashSet<String> = (0..5_000).map(|i| key(things, i)).collect();
    assert_eq!(keys.len(), 5_000);
    let prefix = |upto: Option<&str>| {
        let mut out = Vec::new();
        things.write_key_prefix(42, upto, &mut out);
        String::from_utf8(out).unwrap()
    };
    let whole = key(things, 42);
    let parts: Vec<&str> = whole.splitn(3, '/').collect();
    assert_eq!(prefix(Some("kind")), "");
    assert_eq!(prefix(Some("serial")), format!("{}/", parts[0]));
    assert_eq!(prefix(Some("index")), format!("{}/{}/", parts[0], parts[1]));
    assert_eq!(prefix(None), format!("{}/{}/42-", parts[0], parts[1]));
}

#[test]
fn documents_depend_on_seed_name_index_and_version_only() {
    let (one, other) = (things(), things());
    let (a, b) = (one.get(1), other.get(1));
    // In any order, into a buffer that already has content.
    let mut out = b"before".to_vec();
    for index in [4_999, 0, 77, 5_000_000_000] {
        out.truncate(6);
        a.write_document(index, 3, &mut out);
        assert_eq!(&out[6..], &document(b, index, 3)[..]);
    }
    assert_ne!(document(a, 5, 0), document(a, 6, 0));
    // An additional field leaves the others unchanged.
    let more = catalog(
        &EVERY_KIND.replace("[collections.things.fields]", "[collections.things.fields]\nnew = { bool = 0.5 }"),
    );
    assert_eq!(value(more.get(1), 8, 2)["about"], value(a, 8, 2)["about"]);
    // The output of a seed is part of the format. A change here breaks the comparison of runs.
    let plain = catalog("[collections.a]\ncount = 10\nfields = { n = { integer = [0, 1000000] }, w = { words = 2 } }");
    insta::assert_snapshot!(String::from_utf8(document(plain.get(0), 3, 1)).unwrap());
}

#[test]
fn a_changed_document_is_found_whatever_changed() {
    let catalog = things();
    let things = catalog.get(1);
    let mut scratch = Vec::new();
    for index in 0..50 {
        let body = document(things, index, 4);
        assert_eq!(things.check(index, &body, &mut scratch), Ok(4));
        assert_eq!(things.read_marker(&body), Some((index, 4)));
        assert_eq!(
            things.check(index + 1, &body, &mut scratch),
            Err(Mismatch::WrongDocument { expected: index + 1, saw: index })
        );
        // Reordered, with fields that stores add.
        let Value::Object(fields) = value(things, index, 4) else { panic!("an object") };
        let mut shuffled: serde_json::Map<_, _> = fields.clone().into_iter().rev().collect();
        shuffled.insert("@metadata".into(), json!({ "etag": 1 }));
        shuffled.insert("_id".into(), json!("x"));
        let text = serde_json::to_vec_pretty(&shuffled).unwrap();
        assert_eq!(things.check(index, &text, &mut scratch), Ok(4));
        for name in fields.keys() {
            let mut without = fields.clone();
            without.remove(name);
            assert!(things.check(index, &serde_json::to_vec(&without).unwrap(), &mut scratch).is_err(), "{name}");
            let mut changed = fields.clone();
            changed[name] = json!("other");
            let mismatch = things.check(index, &serde_json::to_vec(&changed).unwrap(), &mut scratch).unwrap_err();
            if name != "sb" {
                assert!(matches!(&mismatch, Mismatch::Field { field, .. } if field == name), "{name}: {mismatch:?}");
            }
        }
        let mut more = fields.clone();
        more.insert("more2".into(), json!(1));
        assert!(things.check(index, &serde_json::to_vec(&more).unwrap(), &mut scratch).is_err());
    }
    for (wrong, told) in [
        (&b"{\"sb\":[1,"[..], "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"{}", "no Storebench marker"),
        (b"[1]", "no Storebench marker"),
        (b"{\"sb\":[1,2,3]}", "no Storebench marker"),
        (b"{\"sb\":[0,0]}", "missing"),
        (b"{\"sb\":[0,99999999999999999999999]}", "no Storebench marker"),
    ] {
        let told_now = things.check(0, wrong, &mut scratch).unwrap_err().to_string();
        assert!(told_now.contains(told), "{told_now}");
    }
}

#[test]
fn numbers_compare_as_values() {
    let catalog = catalog(
        "[collections.a]\ncount = 500\nfields = { d = { decimal = [0, 9], digits = 2 }, n = { integer = [0, 9] } }",
    );
    let mut scratch = Vec::new();
    for index in 0..500 {
        let mut v = value(catalog.get(0), index, 0);
        v["n"] = json!(v["n"].as_f64().unwrap());
        // serde_json writes the shortest form: 2.5 for 2.50.
        assert_eq!(catalog.get(0).check(index, v.to_string().as_bytes(), &mut scratch), Ok(0));
        v["d"] = json!(v["d"].as_f64().unwrap() + 0.01);
        assert!(catalog.get(0).check(index, v.to_string().as_bytes(), &mut scratch).is_err());
    }
}

#[test]
fn bytes_and_counters() {
    let catalog = catalog(
        "[collections.raw]\nbody = \"bytes\"\ncount = 100\nsize = [\"100B\", \"1KiB\"]\ncompress_to = 0.5\n\
         [collections.hits]\nbody = \"counter\"\ncount = 5\n",
    );
    let (raw, hits) = (catalog.get(0), catalog.get(1));
    let mut scratch = Vec::new();
    for index in 0..100 {
        let body = document(raw, index, 6);
        assert!(body.starts_with(format!("sb:{index}:6;").as_bytes()));
        assert!((100..=1_024).contains(&body.len()));
        assert_eq!(raw.read_marker(&body), Some((index, 6)));
        assert_eq!(raw.check(index, &body, &mut scratch), Ok(6));
        assert!(matches!(raw.check(index + 1, &body, &mut scratch), Err(Mismatch::WrongDocument { .. })));
        let mut changed = body.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(matches!(raw.check(index, &changed, &mut scratch), Err(Mismatch::Field { .. })));
        assert!(raw.check(index, &body[..body.len() - 1], &mut scratch).is_err());
    }
    assert_eq!(document(hits, 3, 0), b"0");
    assert_eq!(hits.check(3, b"-12", &mut scratch), Ok(0));
    assert!(hits.check(3, b"12x", &mut scratch).is_err());
    assert_eq!(hits.read_marker(b"0"), None);
}

#[test]
fn text_comes_from_the_users_file_whole() {
    let dir = tempfile::tempdir().unwrap();
    let book: String = (0..400)
        .map(|i| format!("Zeile {i}: \"größer\" als \\{i}\\, 日本語のテキスト 🦀 {}\r\n", "é".repeat(i % 40)))
        .collect();
    std::fs::write(dir.path().join("book.txt"), &book).unwrap();
    let study = r#"
[collections.a]
count = 1000
size = ["1100B", "3KiB"]
text_file = "book.txt"
fields = { one = { lines = 1 }, three = { lines = 3 }, s = { sentences = 2 }, t = { text = ["0B", "60B"] } }
"#;
    for compress in [false, true] {
        let count = if compress { "count = 1000\ncompress_to = 0.8" } else { "count = 1000" };
        let text = study.replace("count = 1000", count);
        let catalog = try_catalog(&text, 1.0, dir.path()).unwrap();
        let lines: HashSet<&str> = book.lines().map(str::trim).collect();
        for index in 0..1_000 {
            let v = value(catalog.get(0), index, 1);
            assert!((1_100..=3_072).contains(&document(catalog.get(0), index, 1).len()));
            if !compress {
                assert!(lines.contains(v["one"].as_str().unwrap()), "{v}");
                assert!(v["three"].as_str().unwrap().split('\n').all(|line| lines.contains(line)));
            }
        }
    }
}

#[test]
fn a_text_field_is_added_where_none_fills() {
    let catalog = catalog("[collections.a]\ncount = 9\nsize = \"1KiB\"\nfields = { text = { words = 1 } }");
    let v = value(catalog.get(0), 0, 0);
    assert!(v["text_2"].as_str().unwrap().len() > 800);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn one_flipped_byte_never_passes(index in 0u64..5_000, version in 0u64..100, at in 0usize..10_000, flip in 1u8..=255) {
        let catalog = cached();
        let things = catalog.get(1);
        let mut body = document(things, index, version);
        let at = at % body.len();
        body[at] ^= flip;
        let mut scratch = Vec::new();
        if let Ok(seen) = things.check(index, &body, &mut scratch) {
            // It passes only if the value is the same: other white space, or another way to write an escape.
            prop_assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), value(things, index, seen));
        }
    }

    #[test]
    fn no_reader_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80), index: u64) {
        let catalog = cached();
        let mut scratch = Vec::new();
        prop_assert!(catalog.get(1).check(index % 5_000, &bytes, &mut scratch).is_err());
    }
}

fn cached() -> &'static Catalog {
    static CATALOG: std::sync::OnceLock<Catalog> = std::sync::OnceLock::new();
    CATALOG.get_or_init(things)
}

#[test]
fn catalogs_are_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    shared(cached());
}
