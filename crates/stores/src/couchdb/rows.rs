//! Matches the rows of an answer to the requested documents.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use super::json;

/// One row for each requested document, in request order, of an array whose rows name their document in the field
/// `name`. CouchDB answers in request order. PouchDB's server answers `_bulk_docs` in completion order.
///
/// Returns `None` if the number of rows differs from that of the documents, or if rows are out of order and do not all
/// name their document. Documents that were requested twice get their rows in order.
pub(super) fn in_request_order<'a, 'k>(
    array: &'a [u8],
    name: &str,
    keys: impl Iterator<Item = &'k str> + Clone,
) -> Option<std::vec::IntoIter<&'a [u8]>> {
    let rows: Vec<&[u8]> = json::is_array(array).then(|| json::elements(array).collect())?;
    if rows.len() != keys.clone().count() {
        return None;
    }
    if rows.iter().zip(keys.clone()).all(|(row, key)| json::member_text(row, name).is_none_or(|it| it == key)) {
        return Some(rows.into_iter());
    }
    let mut by_key: HashMap<Cow<'_, str>, VecDeque<&[u8]>> = HashMap::new();
    for row in rows {
        by_key.entry(json::member_text(row, name)?).or_default().push_back(row);
    }
    let sorted: Option<Vec<_>> = keys.map(|key| by_key.get_mut(key)?.pop_front()).collect();
    sorted.map(Vec::into_iter)
}

#[cfg(test)]
mod tests {
    use super::in_request_order;

    fn rows(array: &str, keys: &[&str]) -> Option<Vec<String>> {
        let rows = in_request_order(array.as_bytes(), "id", keys.iter().copied())?;
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
