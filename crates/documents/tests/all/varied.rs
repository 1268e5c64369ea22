//! Fields that vary: rare, null, repeated, rising, of several kinds.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::{catalog, refusal, value};

const COUNT: u64 = 20_000;

const STUDY: &str = r#"
[collections.docs]
count = 20_000
[collections.docs.fields]
first = { integer = 1, present = 0.5 }
inner = { object = { a = { integer = 1, present = 0.5 }, b = { bool = 1, present = 0.5 }, c = { words = 1 } }, present = 0.4, null = 0.25 }
one = { words = 1, present = 0.03, with = "pair" }
two = { id = "hex", present = 0.03, with = "pair" }
perhaps = { text = "5B", null = 0.2 }
spread = { integer = [0, 0, 10, 1000] }
step = { integer = [0, 19_999], rising = 0 }
near = { decimal = [0, 1], digits = 6, rising = 0.1 }
code = { text = ["1B", "9B"], distinct = 500 }
few = { integer = [0, 99], distinct = 100, popularity = "zipf:1" }
mixed = { any = [{ integer = 7 }, { text = "3B" }, { list = { bool = 1 }, length = [0, 0, 4] }], weights = [6, 3, 1] }
day = { time = ["2020-01-01", "2020-12-31"], form = "date", distinct = 366 }
moment = { time = ["2020-01-01", "2020-12-31"], form = "milliseconds" }
"#;

/// Whether a number of `COUNT` documents fits a share of them.
fn fits(found: usize, share: f64) -> bool {
    let n = COUNT as f64;
    (found as f64 - share * n).abs() <= 4.0 * (n * share * (1.0 - share)).sqrt() + 1e-9
}

#[test]
fn fields_vary_as_they_say() {
    let catalog = catalog(STUDY);
    let documents = catalog.get(0);
    let all: Vec<Value> = (0..COUNT).map(|index| value(documents, index, 0)).collect();
    let count = |has: &dyn Fn(&Value) -> bool| all.iter().filter(|v| has(v)).count();
    let has = |name: &'static str| count(&|v| v.get(name).is_some());

    assert!(fits(has("first"), 0.5) && fits(has("inner"), 0.4) && fits(has("one"), 0.03));
    assert!(all.iter().all(|v| v.get("one").is_some() == v.get("two").is_some()), "a group is together");
    assert!(fits(count(&|v| v.get("inner").is_some_and(Value::is_null)), 0.1));
    let inner = count(&|v| v["inner"].is_object());
    let both = count(&|v| v["inner"].get("a").is_some() && v["inner"].get("b").is_some());
    assert!((both as f64 / inner as f64 - 0.25).abs() < 0.03, "{both} of {inner}");
    assert!(all.iter().all(|v| !v["inner"].is_object() || v["inner"]["c"].is_string()));
    assert!(fits(count(&|v| v["perhaps"].is_null()), 0.2));
    let spread = |least: i64, below: i64| count(&|v| (least..below).contains(&v["spread"].as_i64().unwrap()));
    assert!(fits(spread(0, 1), 1.0 / 3.0 + 1.0 / 3.0 / 11.0) && fits(spread(11, 1_001), 990.0 / 991.0 / 3.0));

    let distinct = |name: &str| all.iter().map(|v| v[name].to_string()).collect::<BTreeSet<_>>().len();
    assert_eq!((distinct("code"), distinct("few"), distinct("day")), (500, 100, 366));
    let mut frequent: HashMap<String, usize> = HashMap::new();
    all.iter().for_each(|v| *frequent.entry(v["few"].to_string()).or_default() += 1);
    // 1 / H(100)
    assert!(fits(*frequent.values().max().unwrap(), 0.192_8));
    assert!(all.iter().enumerate().all(|(index, v)| v["step"].as_u64() == Some(index as u64)));
    let off = all.iter().enumerate().map(|(index, v)| v["near"].as_f64().unwrap() - index as f64 / COUNT as f64);
    assert!((off.clone().fold(0.0, f64::max) - 0.1).abs() < 0.01 && (off.fold(0.0, f64::min) + 0.1).abs() < 0.01);

    assert!(fits(count(&|v| v["mixed"] == 7), 0.6) && fits(count(&|v| v["mixed"].is_array()), 0.1));
    assert!(fits(count(&|v| v["mixed"].as_array().is_some_and(Vec::is_empty)), 0.1 * (0.5 + 0.5 / 5.0)));
    let (day, moment) = (all[9]["day"].as_str().unwrap(), all[9]["moment"].as_str().unwrap());
    assert!(day.len() == 10 && day.starts_with("2020-"), "{day}");
    assert!(moment.len() == 24 && moment.ends_with('Z') && moment.as_bytes()[19] == b'.', "{moment}");
}

/// What changes with the version is text; which fields there are does not.
#[test]
fn a_version_has_the_same_fields() {
    let catalog = catalog(STUDY);
    let documents = catalog.get(0);
    for index in 0..500 {
        let (old, new) = (value(documents, index, 0), value(documents, index, 7));
        let names = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&old), names(&new));
        for name in ["code", "few", "day", "step", "two"] {
            assert_eq!(old.get(name), new.get(name), "{name}");
        }
    }
}

/// A size counts what is there.
#[test]
fn text_fills_what_other_fields_leave() {
    let catalog = catalog(
        r#"
        [collections.docs]
        count = 1000
        size = "300B"
        fields = { a = { object = { b = { integer = [1, 9999], present = 0.5 } }, present = 0.5 }, c = { words = 3, null = 0.5 } }
        "#,
    );
    for index in 0..1_000 {
        assert_eq!(super::document(catalog.get(0), index, 0).len(), 300);
    }
}

#[test]
fn what_cannot_vary_is_refused() {
    let study = |fields: &str, more: &str| {
        format!("[collections.docs]\ncount = 10\nsize = \"300B\"\n{more}\n[collections.docs.fields]\n{fields}")
    };
    for (fields, more, told) in [
        ("a = { integer = 1, present = 0.5 }", "index = [[\"a\"]]", "not every document has a value in `a`"),
        (
            "a = { object = { b = { integer = 1 } }, present = 0.5 }",
            "key = \"{a.b}{index}\"",
            "not every document has a value",
        ),
        ("a = { list = { integer = 1, present = 0.5 } }", "", "set `length` instead of `present`"),
        ("a = { any = [{ bool = 1, null = 0.5 }] }", "", "`any` cannot contain"),
        ("a = { object = { t = { text = \"fill\" } }, present = 0.5 }", "", "fill text must be in every document"),
        (
            "a = { list = { object = { b = { bool = 1, present = 0.5, with = \"x\" } } } }",
            "",
            "`with` groups fields of a document",
        ),
    ] {
        let refused = refusal(&study(fields, more));
        assert!(refused.to_string().contains(told), "{fields}: {refused}");
    }
    for (field, told) in [
        ("{ integer = 1, present = 0 }", "use a share above 0"),
        ("{ integer = 1, null = 2 }", "use a share from 0 to 1"),
        ("{ bool = 0.5, distinct = 2 }", "`distinct` needs"),
        ("{ words = 1, rising = 0 }", "`rising` needs"),
        ("{ integer = [1, 9], rising = 0.7 }", "use a share from 0 to 0.5"),
        ("{ integer = [1, 9], rising = 0, distinct = 3 }", "not both"),
        ("{ integer = 1, with = \"a\" }", "`with` needs `present`"),
        ("{ integer = 1, popularity = \"zipf\" }", "`popularity` needs `ref` or `distinct`"),
        ("{ any = [], weights = [] }", "`any` needs at least one kind"),
        ("{ decimal = [5, nan, 1] }", "runs backwards"),
        ("{ text = \"fill\", null = 0.5 }", "fill text must be in every document"),
        ("{ time = [\"2020-01-01\"] }", "a time needs a range"),
    ] {
        let error =
            toml_edit::de::from_str::<super::Study>(&study(&format!("a = {field}"), "")).err().map(|e| e.to_string());
        assert!(error.as_deref().is_some_and(|error| error.contains(told)), "{field}: {error:?}");
    }
}
