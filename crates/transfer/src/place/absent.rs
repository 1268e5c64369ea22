//! What stands for objects in a binary that was built without them: there are none.

use std::convert::Infallible;
use std::io::Read;
use std::path::Path;

use super::Access;
use super::url::{RemoteUrl, shown};
use crate::error::TransferError;

/// An object that cannot be.
#[derive(Debug, Clone)]
pub(super) struct Object(Infallible);

/// The same.
#[derive(Debug, Clone)]
pub(super) struct Version(Infallible);

/// The same.
#[derive(Clone)]
pub(crate) struct Blocks(Infallible);

pub(super) fn look(_: Vec<Object>) -> Vec<Result<(Version, Vec<u8>), TransferError>> {
    Vec::new()
}

impl Version {
    pub(super) fn bytes(&self) -> Option<u64> {
        match self.0 {}
    }

    pub(super) fn ranges(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn mark(&self) -> String {
        match self.0 {}
    }
}

impl Object {
    pub(super) fn open(url: &RemoteUrl, _: &Access) -> Result<Self, TransferError> {
        Err(TransferError::BadInput(format!(
            "{}: this binary was built without files that are elsewhere; build with the feature `remote`",
            shown(&url.whole)
        )))
    }

    pub(super) fn list(url: &RemoteUrl, access: &Access) -> Result<Vec<Self>, TransferError> {
        Self::open(url, access).map(|object| vec![object])
    }

    pub(super) fn shown(&self) -> &str {
        match self.0 {}
    }

    pub(super) fn join(&self, _: &str) -> Self {
        match self.0 {}
    }

    pub(super) fn read(&self, _: &Version, _: u64, _: u64) -> Box<dyn Read + Send> {
        match self.0 {}
    }

    pub(super) fn chunks(&self, _: &Version) -> Result<Blocks, TransferError> {
        match self.0 {}
    }

    pub(super) fn check_writable(&self) -> Result<(), TransferError> {
        match self.0 {}
    }

    pub(super) fn is_there(&self) -> Result<bool, TransferError> {
        match self.0 {}
    }

    pub(super) fn within(&self) -> Result<Vec<Self>, TransferError> {
        match self.0 {}
    }

    pub(super) fn name(&self) -> &str {
        match self.0 {}
    }

    pub(super) fn remove(&self) -> Result<(), TransferError> {
        match self.0 {}
    }

    pub(super) fn upload(&self, _: &Path) -> Result<(), TransferError> {
        match self.0 {}
    }
}

impl Blocks {
    pub(super) fn bytes(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn failure(&self) -> Option<TransferError> {
        match self.0 {}
    }

    pub(super) fn from(&self, _: u64) -> std::io::Empty {
        match self.0 {}
    }
}
