//! A disk that is made for a store, so that it can be cut off and filled.

use std::path::{Path, PathBuf};

use storebench_engine::store::StoreError;
use storebench_machine::{Lease, PowerCut};

/// A disk that is made for a server: its power can be cut, and it can be full.
#[derive(Debug)]
pub struct Disk {
    pub(super) files: PowerCut,
    /// Goes last: until then what is mounted has a name.
    _lease: Lease,
}

impl Disk {
    /// Mounts one at a folder that is empty or not there. The content of its files lies in a folder beside it, and goes with it.
    ///
    /// # Errors
    /// Where the machine has no such disks, or the folder is in use.
    pub fn mount(at: &Path, leases: &Path) -> Result<Self, StoreError> {
        let refused = |why: String| StoreError::NotSupported(format!("a disk that can be cut off and filled: {why}"));
        PowerCut::available().map_err(refused)?;
        let mut backing = at.as_os_str().to_owned();
        backing.push(".backing");
        let backing = PathBuf::from(backing);
        let lease = || -> std::io::Result<Lease> {
            let mut lease = Lease::begin(leases, &format!("the disk at {}", at.display()))?;
            lease.mount(at)?;
            lease.folder(at)?;
            lease.folder(&backing)?;
            Ok(lease)
        };
        let lease = lease().map_err(|error| refused(error.to_string()))?;
        let files = PowerCut::mount(at, &backing).map_err(|error| refused(error.to_string()))?;
        Ok(Self { files, _lease: lease })
    }
}
