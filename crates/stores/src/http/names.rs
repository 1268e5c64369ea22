//! Names of collections where a server has no capital letters in names.

/// The server's name of one of Storebench's collections: `prefix`, then the collection with a `$` before each letter
/// that was a capital. Names of collections contain no `$`.
pub(crate) fn lower_case_name(prefix: &str, collection: &str) -> String {
    let mut name = prefix.to_owned();
    for c in collection.chars() {
        if c.is_ascii_uppercase() {
            name.push('$');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// The collection that has this name on a server.
pub(crate) fn collection_of_name(prefix: &str, name: &str) -> String {
    let mut collection = String::new();
    let mut capital = false;
    for c in name.strip_prefix(prefix).unwrap_or(name).chars() {
        match std::mem::replace(&mut capital, c == '$') {
            _ if c == '$' => {}
            true => collection.push(c.to_ascii_uppercase()),
            false => collection.push(c),
        }
    }
    collection
}
