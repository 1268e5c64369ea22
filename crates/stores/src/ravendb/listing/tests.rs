//! Tests of listings.

use std::time::Duration;

use super::*;

#[test]
fn a_collection_stands_in_a_query_as_it_is_named() {
    assert_eq!(everything("Orders"), "from 'Orders'");
    assert_eq!(everything(r#"O'Rly \x"y"#), r#"from 'O\'Rly \\x"y'"#);
}

#[test]
fn a_document_ends_at_its_last_bracket_whatever_the_pieces() {
    let text = r#"{"a}\\\"]":[{"b":"\\"},"}"],"c":{}}"#;
    for piece in 1..=text.len() {
        let (mut ends, mut before) = (Ends::default(), 0);
        let all = format!("{text},{{");
        let end = all.as_bytes().chunks(piece).find_map(|piece| {
            let found = ends.find(piece).map(|length| before + length);
            before += piece.len();
            found
        });
        assert_eq!(end, Some(text.len()), "in pieces of {piece}");
    }
    assert_eq!(Ends::default().find(br#"{"a":1"#), None);
}

#[test]
fn what_would_be_left_behind_is_told() {
    let mut page = RowPage::default();
    let mut add = |text: &str, expires| put(text.as_bytes(), expires, &mut page);
    assert_eq!(add(r#"{"n":1,"@metadata":{"@id":"Orders/1-A"}}"#, true), Some(()));
    assert_eq!(add(r#"{"@metadata":{"@id":"b","@attachments":[{"Name":"x"}]}}"#, true), Some(()));
    assert_eq!(add(r#"{"@metadata":{"@id":"c","@attachments":[],"@counters":["likes"]}}"#, true), Some(()));
    for expires in [true, false] {
        assert_eq!(add(r#"{"@metadata":{"@id":"d","@expires":"2001-01-01T00:00:00Z"}}"#, expires), Some(()));
        assert_eq!(add(r#"{"@metadata":{"@id":"e","@expires":"2001-01-01T00:00:00"}}"#, expires), Some(()));
    }
    let deep = format!(r#"{{"a":{}1{},"@metadata":{{"@id":"f"}}}}"#, "[".repeat(500), "]".repeat(500));
    assert_eq!(add(&deep, true), Some(()));
    assert_eq!(add(r#"{"n":1}"#, true), None);
    let rows: Vec<_> = page.rows.as_batch().iter().collect();
    let deep = deep.replace(r#","@metadata":{"@id":"f"}"#, "");
    let few = [
        ("Orders/1-A", &br#"{"n":1}"#[..]),
        ("b", b"{}"),
        ("d", b"{}"),
        ("d", b"{}"),
        ("e", b"{}"),
        ("f", deep.as_bytes()),
    ];
    assert_eq!(rows, few);
    assert_eq!(page.expiring, [(2, Duration::ZERO)]);
    assert_eq!((&page.attached[..], page.unheeded_expiry), (&[1][..], 2));
    let bad: Vec<_> = page.bad.iter().map(|row| (row.key.as_str(), row.why.as_str())).collect();
    assert_eq!(bad[0], ("c", "it has counters, which are not copied"));
    assert!(bad[1].0 == "e" && bad[1].1.contains("time zone"));
}
