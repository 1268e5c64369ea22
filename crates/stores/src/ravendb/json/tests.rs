//! Tests of the JSON of answers.

use super::*;

fn body(text: &str) -> Option<String> {
    let document = super::document(&mut Walk::new(text.as_bytes()))?;
    let mut body = Vec::new();
    document.append_to(&mut body);
    assert_eq!(body.len(), document.len());
    Some(String::from_utf8(body).unwrap())
}

#[test]
fn metadata_is_taken_out_wherever_it_stands() {
    for (text, expected) in [
        (r#"{"a":1,"@metadata":{"@id":"x"}}"#, r#"{"a":1}"#),
        (r#"{"@metadata":{"@id":"x"},"a":1}"#, r#"{"a":1}"#),
        (r#"{"a":1,"@metadata":{"@id":"x"},"b":{"@metadata":7}}"#, r#"{"a":1,"b":{"@metadata":7}}"#),
        (r#"{"@metadata":{}}"#, "{}"),
        ("{\"a\":\"\u{1}\u{1f}\",\n\"@metadata\":{}}", r#"{"a":"\u0001\u001f"}"#),
        (r#"{"a":"}\"@metadata\":{"}"#, r#"{"a":"}\"@metadata\":{"}"#),
    ] {
        assert_eq!(body(text).as_deref(), Some(expected));
    }
    for text in ["", "{", "[]", "7", r#"{"a":}"#, r#"{"a"}"#, r#"{"a":1"#, r#"{"a":"x}"#, r#"{"a":[}}"#] {
        assert_eq!(body(text), None, "{text}");
    }
}

#[test]
fn rows_of_an_answer_are_walked_one_by_one() {
    let text = br#"{"IndexName":"x","Results":[{"n":1,"@metadata":{"@id":"c\/1"}},null,{"n":2}],"IsStale":true}"#;
    let mut walk = results(text).unwrap();
    assert_eq!(walk.element(), Some(true));
    assert_eq!(document(&mut walk).unwrap().meta("@id").as_deref(), Some("c/1"));
    assert_eq!(walk.element(), Some(true));
    assert_eq!(walk.value(), Some(&b"null"[..]));
    assert_eq!(walk.element(), Some(true));
    assert_eq!(document(&mut walk).unwrap().meta("@id"), None);
    assert_eq!(walk.element(), Some(false));
    walk.seek("IsStale").unwrap();
    assert_eq!(walk.value(), Some(&b"true"[..]));
}

#[test]
fn a_document_is_put_into_its_collection_and_cannot_leave_its_place() {
    let put = |text: &str| {
        let mut into = Vec::new();
        push_document(text.as_bytes(), "C", "", &mut into).map(|()| String::from_utf8(into).unwrap())
    };
    let meta = r#"{"@metadata":{"@collection":"C"}"#;
    assert_eq!(put("{}").unwrap(), format!("{meta}}}"));
    assert_eq!(put(" { \"a\" : 1 } ").unwrap(), format!("{meta}, \"a\" : 1 }}"));
    for own in [r#"{"a":1,"@metadata":{"@collection":"D"}}"#, r#"{"\u0040metadata":{}}"#] {
        assert!(put(own).unwrap_err().contains("reserves"), "{own}");
    }
    let inner = r#"{"a":"@metadata","b":{"@metadata":7}}"#;
    assert_eq!(put(inner).unwrap(), format!("{meta},{}", &inner[1..]));
    let pair = r#"{"a":"\\ud83d\ude00 \uD83D\uDE00 \ud83d \ude00\ud83d \u00e9\u00e8 \"","b":1}"#;
    let joined = r#","a":"\\ud83d\ude00 😀 \ud83d \ude00\ud83d éè \"","b":1}"#;
    assert_eq!(put(pair).unwrap(), format!("{meta}{joined}"));
    // What JSON must escape stays escaped, and so does what is no escape.
    let escapes = r#"{"K\u00f6ln":"K\u00F6ln \u0022\u005c\u000a\n\/ \\u00f6"}"#;
    assert_eq!(put(escapes).unwrap(), format!(r#"{meta},"Köln":"Köln \u0022\u005c\u000a\n\/ \\u00f6"}}"#));
    for text in ["", "7", "[]", "{", "{}{}", r#"{"a":1},"Type":"DELETE"}"#, r#"{"a":"x}"#, "{]", "x{}"] {
        assert!(put(text).is_err(), "{text}");
    }
    assert!(put(&format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100))).is_ok());
    let deep = |depth| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    assert!(put(&deep(128)).is_ok() && put(&deep(10_000)).unwrap_err().contains("128 levels"));
}
