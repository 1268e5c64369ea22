//! Layout features that some stores do not support: secondary indexes, and custom key and document fields. And what makes
//! a table of another program unfit.

use storebench_engine::store::{CollectionLayout, Layout, NAME_COLUMNS, StoreError};
use storebench_study::workload::Body;

/// Refuses secondary indexes.
pub(crate) fn refuse_indexes(store: &str, layout: &Layout) -> Result<(), StoreError> {
    match layout.collections.iter().find(|collection| !collection.indexes.is_empty()) {
        None => Ok(()),
        Some(collection) => Err(StoreError::NotSupported(format!(
            "{store} has no secondary indexes, but the study asks for one on `{}`; remove it",
            collection.name
        ))),
    }
}

/// Refuses custom key and document fields, for stores where these places are fixed.
pub(crate) fn refuse_fields(store: &str, layout: &Layout) -> Result<(), StoreError> {
    let named = |c: &&CollectionLayout| c.existing.as_ref().is_some_and(|e| e.key.is_some() || e.body.is_some());
    match layout.collections.iter().find(named) {
        None => Ok(()),
        Some(collection) => Err(StoreError::NotSupported(format!(
            "{store} stores keys and documents in fixed places; remove the key and document fields of `{}`",
            collection.name
        ))),
    }
}

/// A table that Storebench did not make, in the errors about what it lacks.
pub(crate) struct TheirTable<'c> {
    /// Where it is.
    pub(crate) place: String,
    /// Its name, with that of its schema or database.
    pub(crate) name: String,
    pub(crate) columns: Vec<&'c str>,
}

impl TheirTable<'_> {
    /// The error of a table that does not fit.
    pub(crate) fn refused(&self, why: &str) -> StoreError {
        let Self { place, name, columns } = self;
        StoreError::NotSupported(format!("{place}: {why}; `{name}` has the columns {}", columns.join(", ")))
    }

    /// The same, where naming another column may help.
    pub(crate) fn unnamed(&self, why: &str) -> StoreError {
        StoreError::NotSupported(format!("{}; {NAME_COLUMNS}", self.refused(why)))
    }

    /// Finds a column that the user named: for the `key` or the `document`.
    pub(crate) fn named<'t, C>(
        &self,
        wanted: &str,
        what: &str,
        mut columns: impl Iterator<Item = (&'t str, &'t C)>,
    ) -> Result<&'t C, StoreError> {
        let found = columns.find(|(name, _)| *name == wanted).map(|(_, column)| column);
        found.ok_or_else(|| self.unnamed(&format!("there is no column `{wanted}` for the {what}")))
    }

    /// Refuses a table without columns, which does not exist. `form` is how to write its name.
    pub(crate) fn check_exists(&self, form: &str) -> Result<(), StoreError> {
        if !self.columns.is_empty() {
            return Ok(());
        }
        Err(StoreError::NotSupported(format!(
            "{}: there is no table `{}` that this user can see; write it as {form}",
            self.place, self.name
        )))
    }

    /// Refuses a table that cannot be written by this key.
    pub(crate) fn check_written(&self, is_table: bool, key: &str, unique: bool) -> Result<(), StoreError> {
        if !is_table {
            return Err(self.refused("it is not a table, so it cannot be written; name the table behind it"));
        }
        if !unique {
            return Err(self.refused(&format!(
                "its column `{key}` is not unique, so it cannot be the key; name the column of the primary key, or \
                 create a unique index"
            )));
        }
        Ok(())
    }

    /// The error of a key that is NULL in some rows.
    pub(crate) fn has_nulls(&self, key: &str) -> StoreError {
        self.refused(&format!("its key column `{key}` is NULL in some rows; use --query to copy them"))
    }

    /// Refuses a whole row as the document, unless it is read as JSON.
    pub(crate) fn check_row(&self, write: bool, body: Body) -> Result<(), StoreError> {
        match body {
            _ if write => Err(self.unnamed("no column is named for the document")),
            Body::Json => Ok(()),
            _ => Err(self.unnamed("a whole row is JSON, and no column is named for the document")),
        }
    }

    /// The error of a document's column of another type.
    pub(crate) fn misfit(&self, column: &str, its_type: &str) -> StoreError {
        self.refused(&format!(
            "the column `{column}` has the type {its_type}, which does not fit the collection's `body`"
        ))
    }
}

/// The error of a range of a table that cannot be read in the order of its keys.
pub(crate) fn not_copied(place: &str, table: &str, why: &str) -> StoreError {
    StoreError::NotSupported(format!(
        "{place}: {table} cannot be copied: {why}; name another key column, or use --query"
    ))
}
