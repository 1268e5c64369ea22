//! What a query of a mix asks, in the language of one store.

use storebench_documents::{Documents, Parameters};
use storebench_study::workload::{MixEntry, RowCount};

use crate::store::{BatchBuf, Capabilities};

/// A query of a mix, for one store.
#[derive(Debug, Clone)]
pub struct AskedQuery {
    /// Its text in the store's language; for a query that is not text, its JSON text.
    pub text: String,
    /// Its parameters.
    pub parameters: Parameters,
    /// How many rows its answers must have.
    pub rows: Option<RowCount>,
}

/// Text in a store's language as drivers take it: JSON text if it is not text.
pub(super) fn as_text(text: &serde_json::Value) -> String {
    match text {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl AskedQuery {
    /// The query of this name, in the language of the store. Says why there is none, or what is wrong with its
    /// parameters.
    pub(super) fn of(
        name: &str,
        entry: &MixEntry,
        documents: &Documents,
        seed: u64,
        can: &Capabilities,
    ) -> Result<Self, String> {
        let Some(language) = can.language else {
            return Err(format!("this store has no query language, but `{name}` is a query; use another store"));
        };
        let text = entry.text.get(&language).ok_or_else(|| {
            let known: Vec<&str> = entry.text.keys().map(|known| known.name()).collect();
            format!("`{name}` has no text for this store; add text.{language} to its text for {}", known.join(", "))
        })?;
        let parameters = Parameters::compile(&entry.params, documents, seed, &format!("{name}.params"));
        Ok(Self { text: as_text(text), parameters: parameters.map_err(|e| e.to_string())?, rows: entry.rows })
    }

    /// Writes the names and values of the parameters into an emptied batch.
    #[inline]
    pub(super) fn write_values(&self, documents: &Documents, index: u64, number: u64, values: &mut BatchBuf) {
        values.clear();
        for (position, name) in self.parameters.names().enumerate() {
            values.push_with(
                |key| key.extend_from_slice(name.as_bytes()),
                |value| self.parameters.write(position, documents, index, number, value),
            );
        }
    }
}
