//! Study files: what is accepted, and how errors are reported.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use std::path::Path;

use storebench_study::units::Count;
use storebench_study::workload::{Override, Study};

const GOOD: &str = r#"title = "A bookseller"
seed  = 435

[collections.users]
count  = 1_000
key    = "users/{index}"
fields = { name = { words = 2 }, created = { time = ["2006-01-01", "2018-01-01"] } }

[collections.highlights]
key    = "highlights/{user}/{seq:014}"
per    = { users = { bins = [[1, 400], [2, 10, 100], [10, 100, 5]], total = 1_200 } }
fields = { user = "{parent}", text = { sentences = [1, 4] } }
index  = [["user"]]

[[phases]]
name = "load"
load = ["users", "highlights"]

[[phases]]
name     = "by-user"
mix      = { page = { collection = "highlights", where = "user", limit = 10 } }
rate     = 250
duration = "3m"
"#;

fn refused(text: &str, overrides: &[&str]) -> String {
    let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
    Study::parse(text, Path::new("study.toml"), &overrides).expect_err("this study is wrong").to_string()
}

#[test]
fn a_good_study_survives_a_round_trip() {
    let study = Study::parse(GOOD, Path::new("study.toml"), &[]).unwrap();
    let text = toml_edit::ser::to_string(&study).unwrap();
    assert_eq!(Study::parse(&text, Path::new("again.toml"), &[]).unwrap(), study);
    let json = serde_json::to_value(&study).unwrap();
    assert_eq!(serde_json::from_value::<Study>(json).unwrap(), study);
}

#[test]
fn repeats_have_two_names_and_are_one_setting() {
    for given in ["repeat = 3", "repeats = 3", ""] {
        let text = format!(
            "title = \"x\"\n{given}\n[collections.c]\ncount = 10\n[[phases]]\nname = \"load\"\nload = [\"c\"]\n"
        );
        for name in ["repeat", "repeats"] {
            let study = Study::parse(&text, Path::new("study.toml"), &[format!("{name}=4")]).unwrap();
            assert_eq!(study.repeats, 4.into(), "{name} over {given}");
        }
    }
}

#[test]
fn overrides_reach_phases_by_name_and_collections() {
    let set = |s: &str| s.to_owned();
    let overrides =
        [set("collections.users.count=5"), set("phases.by-user.rate=9"), set("phases.by-user.mix.page.limit=3")];
    let study = Study::parse(GOOD, Path::new("study.toml"), &overrides).unwrap();
    assert_eq!(study.collections["users"].count, Some(Count(5)));
    assert_eq!(study.phases[1].mix["page"].limit, Some(3));
}

#[test]
fn every_fault_names_its_place_and_remedy() {
    let cases: &[(&str, &str, &str)] = &[
        ("unknown key", "count  = 1_000", "cuont  = 1_000"),
        ("unknown field kind", "words = 2", "wrods = 2"),
        ("wrong type", "count  = 1_000", "count  = true"),
        ("no unit", "\"3m\"", "180"),
        ("dangling collection in a load", "load = [\"users\", ", "load = [\"user\", "),
        ("collection twice in a load", "load = [\"users\", ", "load = [\"users\", \"users\", "),
        ("dangling parent", "per    = { users", "per    = { usres"),
        ("dangling collection in a mix", "collection = \"highlights\"", "collection = \"highlight\""),
        ("not indexed", "where = \"user\"", "where = \"text\""),
        ("indexed twice", "index  = [[\"user\"]]", "index  = [[\"user\", \"user\"]]"),
        ("a NUL in a name", "index  = [[\"user\"]]", "index  = [[\"user\", \"us\\u0000er\"]]"),
        ("unknown operation", "mix      = { page =", "mix      = { pgae ="),
        ("neither duration nor operations", "duration = \"3m\"\n", ""),
        ("range runs backwards", "[1, 4]", "[4, 1]"),
        ("date", "\"2006-01-01\"", "\"2006-13-01\""),
        ("bin", "[1, 400]", "[1, 2, 3, 4]"),
        ("not TOML", "seed  = 435", "seed  435"),
        ("two phases of one name", "name     = \"by-user\"", "name     = \"load\""),
        (
            "factor that names no phase",
            "[[phases]]\nname = \"load\"",
            "[factors]\n\"phases.laod.batch\" = [1, 2]\n\n[[phases]]\nname = \"load\"",
        ),
    ];
    let mut all = String::new();
    for (what, from, to) in cases {
        assert!(GOOD.contains(from), "{what}");
        all.push_str(&format!("# {what}\n{}\n\n", refused(&GOOD.replacen(from, to, 1), &[])));
    }
    all.push_str(&format!("# override of a phase that is not there\n{}\n\n", refused(GOOD, &["phases.by-usr.rate=1"])));
    all.push_str(&format!("# override without a value\n{}\n\n", refused(GOOD, &["seed"])));
    all.push_str(&format!("# override of an unknown key\n{}\n", refused(GOOD, &["collections.users.cnt=1"])));
    insta::assert_snapshot!(all);
}

/// An error that an override causes, in its value or elsewhere, names the override. An error of the file stays the
/// file's.
#[test]
fn an_override_is_blamed_for_what_it_does_and_the_file_for_the_rest() {
    for (set, told) in [
        // Errors of the value itself, also for phases by name.
        ("phases.by-user.rate=fast", "--set phases.by-user.rate=fast: `fast` does not begin with a number"),
        ("phases.1.rate=fast", "--set phases.1.rate=fast: `fast` does not begin with a number"),
        ("phases.by-user.mix.page.limit=0", "--set phases.by-user.mix.page.limit=0: use 1 to"),
        ("repeats=0", "--set repeats=0: 0 repeats measure nothing"),
        // Errors that it causes elsewhere.
        ("collections.highlights.index=[]", "--set collections.highlights.index=[]: phases.1.mix.page.where: `user`"),
        ("phases.by-user.think=1s", "--set phases.by-user.think=1s: `think` is for the closed loop"),
    ] {
        let message = refused(GOOD, &["seed=7", set, "title=x"]);
        assert!(message.starts_with(told), "{set}: {message}");
        assert!(!message.contains(" | "), "no line of the file is shown: {message}");
    }
    // An error of the file, whatever else is set.
    let wrong = GOOD.replace("where = \"user\"", "where = \"text\"");
    for set in ["seed=7", "collections.highlights.key=x/{index}", "phases.by-user.rate=9"] {
        let message = refused(&wrong, &[set]);
        assert!(message.starts_with("study.toml:21:50: phases.1.mix.page.where: "), "{set}: {message}");
    }
    // Of several overrides, the one that is at fault.
    let message = refused(GOOD, &["phases.by-user.rate=9", "phases.by-user.think=1s", "collections.users.count=-1"]);
    assert!(message.contains("--set collections.users.count=-1: -1 is negative"), "{message}");
}

/// Errors that appear when documents are compiled or configurations are made.
#[test]
fn what_is_found_later_names_the_override_too() {
    let given = |set: &str| vec![Override::parse(set).unwrap()];
    let at = |set: &str, key: &str| {
        Study::error_at(GOOD, Path::new("study.toml"), &given(set), key, "is wrong".into()).to_string()
    };
    let key = "collections.users.key";
    assert_eq!(at("collections.users.key=x", key), "--set collections.users.key=x: is wrong");
    let elsewhere = at("collections.users.count=3", key);
    assert!(
        elsewhere.starts_with("study.toml:6:1: collections.users.key: is wrong (with --set collections.users.count=3)")
    );
    let sets = given("factors={ 'phases.by-user.rate' = [5, -1] }");
    let study = Study::parse_with(GOOD, Path::new("study.toml"), &sets).unwrap();
    let message = study.configurations(GOOD, Path::new("study.toml"), &sets).unwrap_err().to_string();
    assert!(message.starts_with("--set factors=") && message.contains("phases.by-user.rate = -1"), "{message}");
}

#[test]
fn what_is_no_study_file_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let message = Study::read(&file, &[]).unwrap_err().to_string();
        message.strip_prefix(&format!("{}: ", file.display())).unwrap().to_owned()
    };
    let remedy = "; give the path of a study file (TOML)";
    assert_eq!(refused("a.gz", b"\x1f\x8b\x08\0"), format!("this is not a text file (byte 1 is not UTF-8){remedy}"));
    assert_eq!(refused("a.bin", b"title = \0"), format!("this is not a text file (byte 8 is 0){remedy}"));
    assert_eq!(refused("large", &vec![b'#'; (4 << 20) + 1]), format!("the file is larger than 4 MiB{remedy}"));
    for empty in ["", " \n\t\n"] {
        assert!(refused("empty", empty.as_bytes()).starts_with("the file is empty; a study has a title"), "{empty}");
    }
    let missing = refused("comment", b"# nothing yet\n");
    assert!(missing.starts_with("`title` is missing; describe the study in one line"), "{missing}");
    let message = Study::read(folder.path(), &[]).unwrap_err().to_string();
    assert_eq!(message, format!("{}: this is a folder{remedy}", folder.path().display()));
    let nowhere = Study::read(&folder.path().join("no.toml"), &[]).unwrap_err().to_string();
    assert!(nowhere.contains("cannot be read: ") && nowhere.ends_with(remedy), "{nowhere}");
}

#[test]
fn what_cannot_be_counted_is_refused_at_its_place() {
    let most = "is too large; use at most 2^53";
    for value in ["9_007_199_254_740_993", "\"99999999999999999999\"", "\"9e9B\"", "\"99999999999B\""] {
        let message = refused(&GOOD.replace("count  = 1_000", &format!("count  = {value}")), &[]);
        assert!(message.starts_with("study.toml:5:"), "{message}");
        assert!(message.contains(most) || value.contains('e'), "{message}");
    }
    assert!(refused(GOOD, &["collections.users.count=99999999999999999999"]).contains(most));
    assert!(refused(GOOD, &["phases.by-user.mix.page.limit=99999999999999999999"]).starts_with("--set phases.by-user"));
    assert!(refused(GOOD, &["repeats=4000000000"]).contains("more than 1000000 trials; use fewer repeats"));
    let digits = "9".repeat(400);
    assert!(refused(GOOD, &[&format!("collections.users.count=\"{digits}\"")]).contains(most));
    assert!(refused(GOOD, &["collections.users.size=99999999999TiB"]).contains(most));
}

#[test]
fn the_rows_of_a_view_are_said_once() {
    let view = |entry: &str| {
        GOOD.replace(
            r#"page = { collection = "highlights", where = "user", limit = 10 }"#,
            &format!(r#"view = {{ collection = "highlights", {entry} }}"#),
        )
    };
    for rows in
        ["", ", keys = [1, [\"a\"]]", ", start = 1", ", end = [1]", ", start = 1, end = 2", ", where = \"user\""]
    {
        let text = view(&format!(r#"view = "a/b"{rows}"#));
        let study = Study::parse(&text, Path::new("study.toml"), &[]).unwrap();
        let again = toml_edit::ser::to_string(&study).unwrap();
        assert_eq!(Study::parse(&again, Path::new("again.toml"), &[]).unwrap(), study, "{rows}");
    }
    for two in ["keys = [1], start = 1", "keys = [1], where = \"user\"", "where = \"user\", end = 2"] {
        let message = refused(&view(&format!(r#"view = "a/b", {two}"#)), &[]);
        assert!(message.contains("select the rows of the view in one way"), "{message}");
    }
    assert!(refused(&view("limit = 1"), &[]).contains("a view query needs view"));
    for (key, value) in [("keys", "[1]"), ("start", "1"), ("end", "1"), ("view", "\"a/b\"")] {
        let message = refused(&GOOD.replace("limit = 10", &format!("{key} = {value}")), &[]);
        assert!(message.contains(&format!("`{key}` has no meaning for page")), "{message}");
    }
}

#[test]
fn parents_are_drawn_where_there_are_any() {
    let mix = |entry: &str| GOOD.replace(r#"page = { collection = "highlights", where = "user", limit = 10 }"#, entry);
    let parents = r#"draw = "parents""#;
    for entry in [
        "page = { collection = \"highlights\", where = \"user\", DRAW }",
        "prefix = { collection = \"highlights\", upto = \"seq\", DRAW }",
        "scan = { collection = \"highlights\", DRAW }",
        "read = { collection = \"highlights\", batch = 5, DRAW }",
        "update = { collection = \"highlights\", DRAW }",
        "view = { collection = \"highlights\", view = \"a/b\", where = \"user\", DRAW }",
    ] {
        let study = Study::parse(&mix(&entry.replace("DRAW", parents)), Path::new("study.toml"), &[]).unwrap();
        let again = toml_edit::ser::to_string(&study).unwrap();
        assert!(again.contains(parents), "{again}");
        assert_eq!(Study::parse(&again, Path::new("again.toml"), &[]).unwrap(), study);
    }
    for (entry, told) in [
        ("read = { collection = \"users\", DRAW }", "`users` has no parents to draw from; use a collection with `per`"),
        ("insert = { collection = \"users\", DRAW }", "`draw` has no meaning for insert"),
        ("insert = { collection = \"highlights\", DRAW }", "`draw` has no meaning for insert"),
        ("view = { collection = \"highlights\", view = \"a/b\", DRAW }", "`draw` has no meaning for a view without"),
        ("read = { collection = \"highlights\", draw = \"users\" }", "known: `documents`, `parents`"),
    ] {
        let message = refused(&mix(&entry.replace("DRAW", parents)), &[]);
        assert!(message.contains(told), "{message}");
        assert!(message.contains("draw"), "{message}");
    }
    let ledger = mix(&format!("update = {{ collection = \"highlights\", {parents} }}"));
    let message = refused(&ledger, &["phases.by-user.ledger=true", "phases.by-user.streams=disjoint"]);
    assert!(message.contains("with a ledger each key has one writer"), "{message}");
}

#[cfg(feature = "schema")]
#[test]
fn the_schema_accepts_the_good_study_and_refuses_unknown_keys() {
    let schema = storebench_study::workload::schema();
    let mut json: serde_json::Value = toml_edit::de::from_str(GOOD).unwrap();
    assert_eq!(storebench_schema::faults(&schema, &json), Vec::<String>::new());
    json["titel"] = "x".into();
    assert_eq!(storebench_schema::faults(&schema, &json).len(), 1);
}

#[test]
fn all_typos_are_told_at_once() {
    let text = GOOD
        .replace("count  = 1_000", "cuont  = 1_000")
        .replace("rate     = 250", "raet     = 250")
        .replace("duration = \"3m\"", "duration = \"3 moons\"")
        .replace("seed  = 435", "sede  = 435");
    let told = refused(&text, &[]);
    for (line, part) in [
        (2, "sede: `sede` is not known here; did you mean `seed`?"),
        (5, "collections.users.cuont: `cuont` is not known here; did you mean `count`?"),
        (22, "phases.1.raet: `raet` is not known here; did you mean `rate`?"),
        (23, "phases.1.duration: "),
    ] {
        assert!(told.contains(&format!("study.toml:{line}:")) && told.contains(part), "{line}: {told}");
    }
    assert_eq!(told.matches("study.toml:").count(), 4, "a key that is mistyped is not missing, too: {told}");
    let told = refused(&GOOD.replace("title", "titel"), &["phases.load.wrokers=3"]);
    assert!(told.contains("did you mean `title`?") && told.contains("--set phases.load.wrokers=3"), "{told}");
    assert!(!told.contains("missing"), "{told}");
}

/// Rates are read alike wherever they are written.
#[test]
fn rates_are_numbers_with_or_without_a_unit() {
    let limits =
        "[limits]\n\"by-user.response.p99\" = \"10ms\"\n[search]\nphase = \"by-user\"\nfrom = 500\nto = 1_000\n";
    let searched = format!("{}{limits}", GOOD.replace("rate     = 250\n", ""));
    let read = |text: &str, set: &[&str]| {
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        Study::parse(text, Path::new("study.toml"), &set).unwrap_or_else(|e| panic!("{e}"))
    };
    let search = read(&searched, &["search.from=0.5k", "search.to=400k"]).search.unwrap();
    assert_eq!((search.from, search.to), (500.0, 400_000.0));
    for (set, same) in [
        ("phases.by-user.rate=2.5k", "phases.by-user.rate=2500"),
        ("phases.by-user.rate=\"0.5\"", "phases.by-user.rate=0.5"),
        ("phases.by-user.rate={ ramp = [\"1k\", 2000] }", "phases.by-user.rate={ ramp = [1000, \"2k\"] }"),
        (
            "phases.by-user.rate={ steps = [\"1k\", 2000], each = \"1s\" }",
            "phases.by-user.rate={ steps = [1000, 2000], each = \"1s\" }",
        ),
    ] {
        assert_eq!(read(GOOD, &[set]).phases[1].rate, read(GOOD, &[same]).phases[1].rate, "{set}");
    }
    for wrong in ["search.to=fast", "phases.by-user.rate=5 bananas"] {
        let told = refused(&searched, &[wrong]);
        assert!(told.contains("write it like 250 or \"2k\"") || told.contains("use k, M or B"), "{told}");
    }
}
