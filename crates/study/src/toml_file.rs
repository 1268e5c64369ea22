//! Values as TOML files.

use serde::Serialize;
use toml_edit::ser::Error;
use toml_edit::{DocumentMut, Item, Table};

/// A value as a TOML file. What has keys becomes a table with a header, unless it stands in a list with other values.
///
/// # Errors
/// The value contains something that TOML does not have.
pub fn toml_document(value: &(impl Serialize + ?Sized)) -> Result<DocumentMut, String> {
    let mut document = toml_edit::ser::to_document(value).map_err(|error| match error {
        Error::UnsupportedType(Some("unit")) => "TOML has no null; leave the key out".to_owned(),
        other => other.to_string(),
    })?;
    with_headers(&mut document);
    Ok(document)
}

fn with_headers(table: &mut Table) {
    for (_, item) in table.iter_mut() {
        *item = match std::mem::take(item).into_table() {
            Ok(table) => Item::Table(table),
            Err(other) => other.into_array_of_tables().map_or_else(|value| value, Item::ArrayOfTables),
        };
        match item {
            Item::Table(inner) => {
                // A table that only has other tables needs no header.
                inner.set_implicit(!inner.is_empty());
                with_headers(inner);
            }
            Item::ArrayOfTables(all) => all.iter_mut().for_each(with_headers),
            Item::Value(_) | Item::None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_keys_are_tables_with_headers() {
        let value = serde_json::json!({
            "a": { "b": { "c": [1, 2], "d": [{ "e": 1 }, 2] } },
            "empty": {},
            "last": "x",
            "list": [{ "f": { "g": 1 } }, { "h": [] }],
        });
        let text = "last = \"x\"\n\n[a.b]\nc = [1, 2]\nd = [{ e = 1 }, 2]\n\n[empty]\n\n[[list]]\n\n[list.f]\ng = 1\n\n\
                    [[list]]\nh = []\n";
        assert_eq!(toml_document(&value).unwrap().to_string(), text);
        let null = toml_document(&serde_json::json!({ "a": null })).unwrap_err();
        assert_eq!(null, "TOML has no null; leave the key out");
    }
}
