//! A disk created for a store, whose power can be cut and which can be full.

use std::path::{Path, PathBuf};

use storebench_engine::store::StoreError;
use storebench_machine::{Lease, PowerCut};

/// A disk created for a server. Its power can be cut, and it can be full.
#[derive(Debug)]
pub struct Disk {
    pub(super) files: PowerCut,
    /// Dropped last: until then the lease names the mount.
    _lease: Lease,
}

impl Disk {
    /// Mounts a disk at a folder that is empty or does not exist. The content of its files is stored in a folder next
    /// to it, which is removed with the disk.
    ///
    /// # Errors
    /// Fails if the machine does not support such disks, or if the folder is in use.
    pub fn mount(at: &Path, leases: &Path) -> Result<Self, StoreError> {
        let refused =
            |why: String| StoreError::NotSupported(format!("cannot create a disk that supports power cuts: {why}"));
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
