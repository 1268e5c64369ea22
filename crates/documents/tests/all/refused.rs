//! Invalid collections are rejected with their place in the study and a remedy.

use super::refusal;

fn check(study: &str, path: &str, says: &[&str]) {
    let error = refusal(study);
    assert_eq!(error.path, path, "{error}");
    for part in says {
        assert!(error.message.contains(part), "`{part}` not in: {error}");
    }
}

#[test]
fn counts_and_relations() {
    check("[collections.a]", "collections.a", &["count = 100_000"]);
    check("[collections.a]\ncount = 0", "collections.a.count", &["from 1"]);
    check(
        "[collections.users]\ncount = 5\n[collections.a]\nper = { usres = 3 }",
        "collections.a.per",
        &["usres", "did you mean `users`"],
    );
    check(
        "[collections.a]\nper = { b = 3 }\n[collections.b]\nper = { a = 3 }",
        "collections.a.per",
        &["is its own ancestor"],
    );
    check("[collections.u]\ncount = 5\n[collections.a]\nper = { u = 3 }\ncount = 2", "collections.a.count", &["`per`"]);
    check(
        "[collections.u]\ncount = 5\n[collections.a]\nper = { u = { bins = [[2, 4], [1, 3]] } }",
        "collections.a.per",
        &["7 parents", "has 5"],
    );
    check(
        "[collections.u]\ncount = 50\n[collections.a]\nper = { u = { bins = [[2, 5, 10]], total = 41 } }",
        "collections.a.per",
        &["20 to 40", "41"],
    );
    check(
        "[collections.u]\ncount = 5\n[collections.a]\nper = { u = { bins = [[2, 9223372036854775807]] } }",
        "collections.a.per",
        &["2^53"],
    );
    check(
        "[collections.u]\ncount = 5\n[collections.a]\nper = { u = 9007199254740991 }",
        "collections.a.per",
        &["2^53"],
    );
    check("[collections.u]\ncount = 5\n[collections.a]\nper = { u = 0 }", "collections.a.per", &["no document"]);
    check(
        "[collections.u]\ncount = 5\n[collections.b]\nper = { u = { bins = [[1, 2]] } }\n[collections.a]\nper = { u = 3 }\nfields = { b = { ref = \"b\", same_parent = true } }",
        "collections.a.fields.b",
        &["5 parents", "only 2"],
    );
}

#[test]
fn keys() {
    let with = |key: &str| {
        format!(
            "[collections.a]\ncount = 5\nkey = '{key}'\nfields = {{ user = {{ words = 1 }}, n = {{ integer = [0, 9] }} }}"
        )
    };
    check(&with("{user}"), "collections.a.key", &["same key", "{index} or {uuid}"]);
    check(&with("{index}/{usr}"), "collections.a.key", &["`{usr}`", "did you mean `user`", "uuid"]);
    check(&with("{index}/{seq}"), "collections.a.key", &["per ="]);
    check(&with("{index"), "collections.a.key", &["without a matching }"]);
    check(&with("{index}{n}"), "collections.a.key", &["run into"]);
    check(&with("{n}1{index}"), "collections.a.key", &["run into"]);
    check(&with("{index}/{user:08}"), "collections.a.key", &["cannot be padded"]);
    check(
        "[collections.u]\ncount = 5\n[collections.a]\nper = { u = 3 }\nkey = '{seq}'",
        "collections.a.key",
        &["{parent} and {seq}"],
    );
    check(
        "[collections.u]\ncount = 5\n[collections.a]\nper = { u = 3 }\nkey = '{parent}{seq}'",
        "collections.a.key",
        &["run into"],
    );
    check(
        "[collections.a]\ncount = 5\nkey = '{index}/{b}'\nfields = { b = { ref = \"b\" } }\n[collections.b]\ncount = 5\nkey = '{index}/{a}'\nfields = { a = { ref = \"a\" } }",
        "collections.a.key",
        &["depends on itself"],
    );
}

#[test]
fn fields() {
    let with = |field: &str| format!("[collections.a]\ncount = 5\n[collections.a.fields]\n{field}");
    check(&with("sb = { words = 1 }"), "collections.a.fields.sb", &["another name"]);
    check(&with("user = '{user}'"), "collections.a.fields.user", &["depends on itself"]);
    check(&with("x = '{y}'\ny = '{x}'"), "collections.a.fields.x", &["depends on itself"]);
    check(&with("x = { text = \"fill\" }"), "collections.a.fields.x", &["size"]);
    check(&with("x = { lines = 2 }"), "collections.a.fields.x", &["text_file"]);
    check(&with("x = { ref = \"b\" }"), "collections.a.fields.x", &["unknown collection `b`"]);
    check(&with("x = { list = { text = \"fill\" } }"), "collections.a.fields.x", &["list"]);
    check(&with("x = { decimal = [0, 1e12], digits = 9 }"), "collections.a.fields.x", &["fewer"]);
    check(&with("x = { object = { y = '{z}' } }"), "collections.a.fields.x.y", &["`{z}`", "x.y"]);
    check(
        "[collections.a]\ncount = 5\nindex = [[\"naem\"]]\nfields = { name = { words = 1 } }",
        "collections.a.index.0",
        &["did you mean `name`"],
    );
}

#[test]
fn sizes_and_bodies() {
    check("[collections.a]\ncount = 5\nsize = 20", "collections.a.size", &["20B", "use at least"]);
    check("[collections.a]\ncount = 5\nbody = \"bytes\"", "collections.a", &["needs a size"]);
    check("[collections.a]\ncount = 5\nbody = \"counter\"\nsize = 20", "collections.a.size", &["counter"]);
    for huge in
        ["size = \"2GiB\"", "fields = { x = { text = \"2GiB\" } }", "fields = { x = { words = 1000000000000 } }"]
    {
        check(&format!("[collections.a]\ncount = 5\n{huge}"), "collections.a", &["the maximum is 1GiB"]);
    }
    let long = "fields = { x = { list = { list = { bool = 1 }, length = 100000000000 }, length = 100000000000 } }";
    check(&format!("[collections.a]\ncount = 5\n{long}"), "collections.a", &["the maximum is 1GiB"]);
    check("[collections.a]\ncount = 5\ncompress_to = 0.5", "collections.a.compress_to", &["no text"]);
    check("[collections.a]\ncount = 5\nsize = \"1KiB\"\ncompress_to = 1.5", "collections.a.compress_to", &["1.5"]);
    check(
        "[collections.a]\ncount = 5\nsize = { like = \"none.jsonl\" }",
        "collections.a.size",
        &["none.jsonl", "cannot be opened"],
    );
    check(
        "[collections.a]\ncount = 5\nsize = \"1KiB\"\ntext_file = \"none.txt\"",
        "collections.a.text_file",
        &["none.txt"],
    );
}

#[test]
fn the_least_size_that_is_named_works() {
    let error = refusal("[collections.a]\ncount = 500\nsize = 20\nfields = { n = { integer = [0, 99] } }");
    let least = error.message.split("at least ").nth(1).unwrap().split(',').next().unwrap().to_owned();
    let catalog = super::catalog(&format!(
        "[collections.a]\ncount = 500\nsize = {least}\nfields = {{ n = {{ integer = [0, 99] }} }}"
    ));
    for index in 0..500 {
        assert_eq!(super::document(catalog.get(0), index, 9_999_999).len().to_string(), least);
    }
}
