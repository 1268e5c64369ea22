//! Members that a store adds to its documents itself.

use super::members;

/// Removes a store's own members from its documents.
#[derive(Debug, Clone)]
pub(crate) struct Strip {
    names: Vec<String>,
    /// Index of the name that marks attachments.
    attachments: Option<usize>,
    drop_attachments: bool,
    body: Vec<u8>,
    /// Documents whose attachments were dropped.
    pub(crate) dropped: u64,
}

impl Strip {
    pub(crate) fn new(own: &[&str], attachments: Option<&str>, drop_attachments: bool) -> Self {
        let names = own.iter().copied().chain(attachments).map(str::to_owned).collect();
        let attachments = attachments.map(|_| own.len());
        Self { names, attachments, drop_attachments, body: Vec::new(), dropped: 0 }
    }

    /// The document without those members.
    ///
    /// # Errors
    /// The document has attachments, and dropping them was not allowed.
    pub(crate) fn apply<'b>(&'b mut self, body: &'b [u8]) -> Result<&'b [u8], String> {
        if self.names.is_empty() {
            return Ok(body);
        }
        let (mut has_attachments, attachments) = (false, self.attachments);
        let without = members::keeping(body, |name, _| {
            let own = self.names.iter().position(|own| own == name);
            has_attachments |= own.is_some() && own == attachments;
            Ok::<_, String>(own.is_none())
        })?;
        self.attached(has_attachments)?;
        let Some(without) = without else { return Ok(body) };
        self.body = without;
        Ok(&self.body)
    }

    /// Drops the attachments of a document, if it has any, or refuses it.
    ///
    /// # Errors
    /// Dropping them was not allowed.
    pub(crate) fn attached(&mut self, has_attachments: bool) -> Result<(), String> {
        if has_attachments && !self.drop_attachments {
            return Err("it has attachments, which cannot be copied; use --drop-attachments to drop them".into());
        }
        self.dropped += u64::from(has_attachments);
        Ok(())
    }
}
