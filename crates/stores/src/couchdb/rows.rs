//! Matches the rows of an answer to the requested documents.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use super::json;

/// One row for each requested document, in request order.
pub(super) enum Rows<'a> {
    AsSent(json::Elements<'a>),
    Sorted(std::vec::IntoIter<&'a [u8]>),
}

impl<'a> Rows<'a> {
    /// Reads an array whose rows name their document in the field `name`. CouchDB answers in request order. PouchDB's
    /// server answers `_bulk_docs` in completion order.
    ///
    /// Returns `None` if the number of rows differs from that of the documents, or if rows are out of order and do not
    /// all name their document. Documents that were requested twice get their rows in order.
    pub(super) fn of<'k>(array: &'a [u8], name: &str, keys: impl Iterator<Item = &'k str> + Clone) -> Option<Self> {
        if !json::is_array(array) || json::elements(array).count() != keys.clone().count() {
            return None;
        }
        let as_sent =
            json::elements(array).zip(keys.clone()).all(|(row, key)| named(row, name).is_none_or(|it| it == key));
        if as_sent {
            return Some(Self::AsSent(json::elements(array)));
        }
        let mut rows: HashMap<Cow<'_, str>, VecDeque<&[u8]>> = HashMap::new();
        for row in json::elements(array) {
            rows.entry(named(row, name)?).or_default().push_back(row);
        }
        let sorted: Option<Vec<_>> = keys.map(|key| rows.get_mut(key)?.pop_front()).collect();
        Some(Self::Sorted(sorted?.into_iter()))
    }
}

fn named<'a>(row: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    json::member(row, name).and_then(json::text)
}

impl<'a> Iterator for Rows<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match self {
            Self::AsSent(rows) => rows.next(),
            Self::Sorted(rows) => rows.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rows;

    fn rows(array: &str, keys: &[&str]) -> Option<Vec<String>> {
        let rows = Rows::of(array.as_bytes(), "id", keys.iter().copied())?;
        Some(rows.map(|row| String::from_utf8(row.to_vec()).unwrap()).collect())
    }

    #[test]
    fn each_row_is_of_the_document_that_it_names() {
        let [a, b, c] = [r#"{"id":"a"}"#, r#"{"id":"\u0062"}"#, r#"{"id":"c","n":1}"#];
        for array in [format!("[{a},{b},{c}]"), format!("[{c},{a},{b}]"), format!("[{b},{c},{a}]")] {
            assert_eq!(rows(&array, &["a", "b", "c"]).unwrap(), [a, b, c], "{array}");
        }
    }

    #[test]
    fn documents_asked_for_twice_take_their_rows_in_turn() {
        let array = r#"[{"id":"b"},{"id":"a","n":1},{"id":"a","n":2}]"#;
        assert_eq!(
            rows(array, &["a", "b", "a"]).unwrap(),
            [r#"{"id":"a","n":1}"#, r#"{"id":"b"}"#, r#"{"id":"a","n":2}"#]
        );
    }

    #[test]
    fn rows_without_a_name_are_taken_where_all_others_lie_as_asked() {
        assert!(rows(r#"[{"id":"a"},null,{}]"#, &["a", "b", "c"]).is_some());
        assert!(rows(r#"[{"id":"b"},null,{"id":"a"}]"#, &["a", "b", "c"]).is_none());
    }

    #[test]
    fn too_few_too_many_and_others_rows_are_refused() {
        for array in
            ["{}", "[]", r#"[{"id":"a"}]"#, r#"[{"id":"a"},{"id":"b"},{"id":"c"}]"#, r#"[{"id":"a"},{"id":"x"}]"#]
        {
            assert!(rows(array, &["a", "b"]).is_none(), "{array}");
        }
    }
}
