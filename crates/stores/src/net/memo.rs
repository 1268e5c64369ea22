//! Values that one call to a store finds out and later calls need.

use std::sync::{Mutex, MutexGuard, PoisonError};

use storebench_engine::store::{CollectionId, StoreError};

/// A shared value that any thread can set and read.
#[derive(Debug)]
pub(crate) struct Memo<T>(Mutex<Option<T>>);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Memo<T> {
    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, value: T) {
        *self.lock() = Some(value);
    }

    /// Takes the value out.
    pub(crate) fn take(&self) -> Option<T> {
        self.lock().take()
    }
}

impl<T: Clone> Memo<T> {
    pub(crate) fn get(&self) -> Option<T> {
        self.lock().clone()
    }

    /// What `prepare` found out about the store at this place.
    ///
    /// # Errors
    /// `Failed` if `prepare` was not called.
    pub(crate) fn prepared(&self, place: &str) -> Result<T, StoreError> {
        self.get().ok_or_else(|| StoreError::Failed(format!("{place}: the store must be prepared before it is used")))
    }
}

/// A collection of the prepared layout.
///
/// # Errors
/// `Failed` if the layout has no such collection.
pub(crate) fn collection<T>(prepared: &[T], id: CollectionId) -> Result<&T, StoreError> {
    let number = id.position();
    prepared.get(number).ok_or_else(|| StoreError::Failed(format!("the layout has no collection {number}")))
}
