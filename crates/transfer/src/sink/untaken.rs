//! Why the store did not take a record that it was sent, or may not have taken it.

use storebench_engine::store::OpError;

/// Why a record was not taken, although the store reported no error.
pub(super) const NOT_TAKEN: &str = "the store reported no error, but did not take it: no document has this key; a trigger or a rule of \
                         the table may have left it out";
pub(super) const KEPT_ANOTHER: &str = "the store reported no error, but did not take it: another document has this key; a trigger or a \
                            rule of the table may have left it out";

/// The error for an insert whose existing document could not be compared.
pub(super) fn not_compared(error: &OpError) -> OpError {
    let what = "a document with this key already exists and could not be read to compare it";
    OpError::new(error.kind, format!("{what}: {}", error.message))
}

/// The store answered with these words that it already has a document with the key, but a read found none.
pub(super) fn not_found(words: &str) -> String {
    format!(
        "the store did not take it ({words}), but a read of its key found no document; a trigger or a rule of the table may \
         have left it out, the key may be in another collection, or its document was deleted since"
    )
}
