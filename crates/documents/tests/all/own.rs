//! The user's own documents.

use std::io::Write;
use std::path::Path;

use serde_json::json;
use storebench_documents::{Catalog, DocumentError, Mismatch};

use super::{document, key, try_catalog, value};

fn lines(n: u64) -> String {
    (0..n)
        .map(|i| match i % 3 {
            0 => format!("{{\"id\": \"d{i}\", \"at\": {{\"city\": \"Köln \\\"{i}\\\"\"}}, \"n\": {i}}}\n"),
            1 => format!("  {{ \"n\": {i}.5, \"id\": {i}, \"at\": {{\"city\": true}} }}  \r\n\n"),
            _ => format!("{{\"id\":\"ü{i}\",\"at\":{{\"city\":\"x\"}}}}\n"),
        })
        .collect()
}

fn compiled(dir: &Path, file: &str, more: &str) -> Result<Catalog, DocumentError> {
    try_catalog(
        &format!("[collections.own]\nfrom = \"{file}\"\nkey = \"{{id}}/{{at.city}}/{{index:03}}\"\n{more}"),
        1.0,
        dir,
    )
}

#[test]
fn lines_are_kept_and_versions_marked() {
    let dir = tempfile::tempdir().unwrap();
    let text = lines(1_000);
    std::fs::write(dir.path().join("a.jsonl"), &text).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    std::fs::write(dir.path().join("a.jsonl.gz"), gz.finish().unwrap()).unwrap();
    std::fs::write(dir.path().join("a.jsonl.zst"), zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap();
    let expected: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    for file in ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"] {
        let catalog = compiled(dir.path(), file, "").unwrap();
        let own = catalog.get(0);
        assert_eq!(own.count(), 1_000);
        let mut scratch = Vec::new();
        for index in [999, 0, 1, 2, 500, 501] {
            let line = expected[index as usize];
            assert_eq!(document(own, index, 0), line.as_bytes(), "{file}");
            let mut changed: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(own.check(index, line.as_bytes(), &mut scratch), Ok(0));
            assert_eq!(own.read_marker(line.as_bytes()), None);
            let city = changed["at"]["city"].clone();
            assert_eq!(own.index_value(index, "at.city"), Some(city.clone()));
            let plain = |v: &serde_json::Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
            assert_eq!(key(own, index), format!("{}/{}/{index:03}", plain(&changed["id"]), plain(&city)));
            let mut prefix = Vec::new();
            own.write_key_prefix(index, Some("at.city"), &mut prefix);
            assert_eq!(String::from_utf8(prefix).unwrap(), format!("{}/", plain(&changed["id"])));
            changed["sb"] = json!([index, 8]);
            assert_eq!(value(own, index, 8), changed);
            let marked = document(own, index, 8);
            assert_eq!(own.read_marker(&marked), Some((index, 8)));
            assert_eq!(own.check(index, &marked, &mut scratch), Ok(8));
            assert!(matches!(
                own.check(index, expected[(index as usize + 1) % 1_000].as_bytes(), &mut scratch),
                Err(Mismatch::Field { .. })
            ));
        }
        assert!(document(own, 1_000, 0).is_empty() && document(own, 1_000, 3).is_empty());
    }
}

#[test]
fn an_empty_object_takes_the_marker() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.jsonl"), "{}\n { }\n{\"a\":1}").unwrap();
    let catalog = try_catalog("[collections.own]\nfrom = \"a.jsonl\"", 1.0, dir.path()).unwrap();
    assert_eq!(value(catalog.get(0), 0, 2), json!({ "sb": [0, 2] }));
    assert_eq!(value(catalog.get(0), 1, 2), json!({ "sb": [1, 2] }));
    assert_eq!(value(catalog.get(0), 2, 2), json!({ "sb": [2, 2], "a": 1 }));
    assert_eq!(key(catalog.get(0), 2), "own/2");
}

#[test]
fn integers_are_compared_to_the_last_digit() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.jsonl"), "\u{feff}{\"a\":9007199254740993,\"b\":2.50}\n").unwrap();
    let catalog = try_catalog("[collections.own]\nfrom = \"a.jsonl\"", 1.0, dir.path()).unwrap();
    let mut scratch = Vec::new();
    let mut check = |body: &str| catalog.get(0).check(0, body.as_bytes(), &mut scratch);
    assert_eq!(check("{\"b\":2.5,\"a\":9007199254740993,\"_rev\":1}"), Ok(0));
    assert!(check("{\"b\":2.5,\"a\":9007199254740992}").is_err());
    assert_eq!(document(catalog.get(0), 0, 0), "{\"a\":9007199254740993,\"b\":2.50}".as_bytes());
}

#[test]
fn documents_of_any_depth_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(1_000), "]".repeat(1_000));
    std::fs::write(dir.path().join("a.jsonl"), format!("{{\"value\":{}}}\n", deep("1.50"))).unwrap();
    let catalog = try_catalog("[collections.own]\nfrom = \"a.jsonl\"", 1.0, dir.path()).unwrap();
    let mut scratch = Vec::new();
    let mut check = |body: &str| catalog.get(0).check(0, body.as_bytes(), &mut scratch);
    assert_eq!(check(&format!("{{ \"_rev\": 1, \"value\": {} }}", deep("1.5"))), Ok(0));
    // A store may move the marker behind shorter names.
    assert_eq!(check(&format!("{{\"value\":{},\"sb\":[0,7]}}", deep("1.5"))), Ok(7));
    let wrong = check(&format!("{{\"value\":{}}}", deep("1.6"))).unwrap_err().to_string();
    assert!(wrong.contains("differs, and is nested too deeply"), "{wrong}");
}

#[test]
fn a_line_without_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.jsonl"), vec![b' '; (64 << 20) + 3]).unwrap();
    let error = compiled(dir.path(), "a.jsonl", "").unwrap_err();
    assert!(error.message.contains("longer than 64 MiB") && error.line == Some(1), "{error}");
}

#[test]
fn counts_and_scale_take_the_first() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.jsonl"), lines(100)).unwrap();
    let count = |more: &str, scale: f64| {
        try_catalog(&format!("[collections.own]\nfrom = \"a.jsonl\"\n{more}"), scale, dir.path())
            .map(|c| c.get(0).count())
    };
    assert_eq!(count("", 1.0), Ok(100));
    assert_eq!(count("count = 40", 1.0), Ok(40));
    assert_eq!(count("count = 40", 0.5), Ok(20));
    assert_eq!(count("", 0.25), Ok(25));
    assert_eq!(count("", 4.0), Ok(100));
    let error = count("count = 101", 1.0).unwrap_err();
    assert_eq!(error.path, "collections.own.count");
    assert!(error.message.contains("holds 100"), "{error}");
}

#[test]
fn members_are_left_out_and_the_key_still_uses_them() {
    let dir = tempfile::tempdir().unwrap();
    let text = lines(300);
    std::fs::write(dir.path().join("a.jsonl"), &text).unwrap();
    std::fs::write(dir.path().join("a.jsonl.zst"), zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap();
    for file in ["a.jsonl", "a.jsonl.zst"] {
        // Each has its index files in a folder of its own.
        let other = tempfile::tempdir().unwrap();
        std::fs::copy(dir.path().join(file), other.path().join(file)).unwrap();
        let whole = compiled(dir.path(), file, "").unwrap();
        let less = compiled(other.path(), file, "without = [\"id\", \"n\", \"none\"]").unwrap();
        let (whole, less) = (whole.get(0), less.get(0));
        for index in [0, 1, 2, 298, 299] {
            let mut expected = value(whole, index, 0);
            ["id", "n"].iter().for_each(|name| drop(expected.as_object_mut().unwrap().remove(*name)));
            assert_eq!(value(less, index, 0), expected, "{file}");
            assert_eq!(key(less, index), key(whole, index));
            assert_eq!(less.check(index, &document(less, index, 0), &mut Vec::new()), Ok(0));
        }
    }
    std::fs::write(dir.path().join("b.jsonl"), "{\"id\":1,\"\\u0061t\":{\"city\":\"x\"}}\n").unwrap();
    let none = compiled(dir.path(), "b.jsonl", "without = [\"id\", \"at\"]").unwrap();
    assert_eq!((document(none.get(0), 0, 0), key(none.get(0), 0)), (b"{}".to_vec(), "1/x/000".to_owned()));
}

#[test]
fn bad_lines_stop_or_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let good = "{\"id\":1,\"at\":{\"city\":\"a\"}}\n";
    for (bad, says) in [
        (&b"{\"id\":1,"[..], "is not JSON"),
        (b"[1,2]", "not a JSON object"),
        (b"{\"id\":1,\"at\":{\"city\":\"a\"}} x", "is not JSON"),
        (b"{\"id\":\"\xff\"}", "is not UTF-8"),
        (b"{\"id\":1,\"at\":{}}", "has no field `at.city`"),
        (b"{\"id\":[1],\"at\":{\"city\":\"a\"}}", "no text, number or bool in `id`"),
        (b"{\"id\":1,\"at\":{\"city\":\"a\"},\"sb\":3}", "has a field `sb`"),
    ] {
        let text = [good.as_bytes(), b"\n", good.as_bytes(), bad, b"\n", good.as_bytes()].concat();
        std::fs::write(dir.path().join("bad.jsonl"), text).unwrap();
        let error = compiled(dir.path(), "bad.jsonl", "").unwrap_err();
        assert_eq!((error.path.as_str(), error.line), ("collections.own.from", Some(4)));
        assert!(error.message.contains(says) && error.message.contains("bad.jsonl:4"), "{error}");
        assert!(error.message.contains("bad_lines = \"skip\""), "{error}");
        let catalog = compiled(dir.path(), "bad.jsonl", "bad_lines = \"skip\"").unwrap();
        assert_eq!((catalog.get(0).count(), catalog.get(0).skipped_lines()), (3, 1));
        assert_eq!(key(catalog.get(0), 2), "1/a/002");
        assert_eq!(document(catalog.get(0), 2, 0), good.trim_end().as_bytes());
    }
}

#[test]
fn broken_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(lines(5_000).as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    std::fs::write(dir.path().join("cut.gz"), &gz[..gz.len() / 2]).unwrap();
    std::fs::write(dir.path().join("behind.gz"), [&gz[..], b"more"].concat()).unwrap();
    std::fs::write(dir.path().join("a.bz2"), "BZh91AY&SY").unwrap();
    let zst = zstd::encode_all(lines(5_000).as_bytes(), 3).unwrap();
    std::fs::write(dir.path().join("cut.zst"), &zst[..zst.len() / 2]).unwrap();
    std::fs::write(dir.path().join("empty"), "").unwrap();
    std::fs::write(dir.path().join("blank"), "\n \n").unwrap();
    std::fs::write(dir.path().join("words"), "hello\nworld\n").unwrap();
    for (file, more, says) in [
        ("cut.gz", "", "the gzip stream ends in the middle"),
        ("cut.zst", "", "the zstd stream ends in the middle"),
        ("cut.gz", "bad_lines = \"skip\"", "ends in the middle"),
        ("behind.gz", "", "other data follows the gzip stream"),
        ("a.bz2", "", "bzip2"),
        ("empty", "", "holds no document"),
        ("blank", "", "holds no document"),
        ("words", "bad_lines = \"skip\"", "all 2 lines were skipped"),
        ("missing", "", "cannot be opened"),
        (".", "", "is a directory"),
    ] {
        let error = compiled(dir.path(), file, more).unwrap_err();
        assert!(error.message.contains(says), "{file}: {error}");
        assert!(error.file.is_some());
    }
    let error = compiled(dir.path(), "words", "size = 200").unwrap_err();
    assert_eq!(error.path, "collections.own.size");
}

#[test]
fn a_file_that_changed_since_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.jsonl"), lines(10)).unwrap();
    let study = "[collections.own]\nfrom = \"a.jsonl\"";
    let frozen = try_catalog(study, 1.0, dir.path()).unwrap().frozen();
    assert_eq!(try_catalog(study, 1.0, dir.path()).unwrap().frozen(), frozen);
    // Another document of the same length, and one document more.
    let swapped = lines(10).replacen('3', "4", 1);
    assert_ne!(swapped, lines(10));
    for other in [swapped, lines(11)] {
        std::fs::write(dir.path().join("a.jsonl"), other).unwrap();
        assert_ne!(try_catalog(study, 1.0, dir.path()).unwrap().frozen(), frozen);
    }
}

#[test]
fn others_may_refer_to_own_documents() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.jsonl"), "{\"id\":\"q\\\"1\\n\"}\n{\"id\":\"ü\"}\n").unwrap();
    let study = "[collections.own]\nfrom = \"a.jsonl\"\nkey = \"{id}\"\n[collections.b]\ncount = 20\nfields = { o = { ref = \"own\" } }\n\
                 [collections.c]\nper = { own = 2 }\nkey = \"{parent.key}/{seq}\"";
    let catalog = try_catalog(study, 1.0, dir.path()).unwrap();
    for index in 0..20 {
        let v = value(catalog.get(1), index, 0);
        assert!(v["o"] == "q\"1\n" || v["o"] == "ü", "{v}");
    }
    assert_eq!(catalog.get(2).count(), 4);
    assert!(key(catalog.get(2), 0).ends_with("/0"));
}
