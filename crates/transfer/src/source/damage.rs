//! Reads what is before the damage of an input.

use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

use crate::error::TransferError;

/// Reads up to where its input is damaged, as if the input ended there.
pub(super) struct UpToDamage<R> {
    input: R,
    damage: Damage,
}

/// Shared error state of an input; set when the damage is reached.
#[derive(Clone, Default)]
pub(super) struct Damage(Arc<OnceLock<TransferError>>);

impl Damage {
    /// The damage, if it was reached.
    pub(super) fn found(&self) -> Option<TransferError> {
        self.0.get().cloned()
    }
}

impl<R: Read> UpToDamage<R> {
    pub(super) fn new(input: R) -> (Self, Damage) {
        let damage = Damage::default();
        (Self { input, damage: damage.clone() }, damage)
    }
}

impl<R: Read> Read for UpToDamage<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.damage.0.get().is_some() {
            return Ok(0);
        }
        self.input.read(into).or_else(|error| match TransferError::within(&error) {
            Some(found @ TransferError::Damaged(_)) => {
                self.damage.0.get_or_init(|| found);
                Ok(0)
            }
            _ => Err(error),
        })
    }
}
