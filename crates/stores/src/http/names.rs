//! Where each collection is a database or an index of its own, in whose names a server has no capital letters.

use storebench_engine::store::StoreError;

use crate::net::Address;
use crate::registry::Options;

/// Refuses a URL that names more than one host. `each` is what a collection is, and `of` the server.
///
/// # Errors
/// `BadUrl`.
pub(crate) fn check_place(address: &Address, each: &str, of: &str) -> Result<(), StoreError> {
    if let Some(part) = address.path.first() {
        return Err(StoreError::BadUrl(format!(
            "found `/{part}` after the host, but each collection is a separate {each}; remove it, or set the prefix of \
             their names with ?prefix="
        )));
    }
    if let [_, second, ..] = address.hosts.as_slice() {
        return Err(StoreError::BadUrl(format!(
            "found the second host `{second}`; name only one, because any node of a cluster of {of} serves all data"
        )));
    }
    Ok(())
}

/// Takes the option `prefix`.
///
/// # Errors
/// `BadUrl`.
pub(crate) fn name_prefix(options: &mut Options<'_>) -> Result<String, StoreError> {
    let prefix = options.take("prefix").unwrap_or("storebench-").to_owned();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    if !prefix.starts_with(|c: char| c.is_ascii_lowercase()) || !prefix.chars().all(fits) || prefix.len() > 100 {
        return Err(StoreError::BadUrl(format!(
            "invalid prefix={prefix}; expected a lower-case letter followed by lower-case letters, digits, `_` and \
             `-`, at most 100 characters"
        )));
    }
    Ok(prefix)
}

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
