//! What stands for the parts that this build was made without: nobody can have one, and why is said.

#[cfg(not(feature = "netns"))]
pub use network::Network;
#[cfg(not(feature = "powercut"))]
pub use power::{PowerCut, PowerOff};

#[cfg(not(feature = "powercut"))]
mod power {
    use std::io;
    use std::path::Path;

    use crate::{Forgotten, Keep};

    const ABSENT: &str = "this build of Storebench cannot cut the power; build it with the feature `powercut`";

    /// A file system that forgets what was not synced: not in this build.
    #[derive(Debug)]
    pub enum PowerCut {}

    /// The time between the cut and the return of the power.
    #[derive(Debug)]
    pub struct PowerOff<'a>(&'a PowerCut);

    #[allow(missing_docs, clippy::missing_errors_doc, reason = "as those of the other build")]
    impl PowerCut {
        pub fn available() -> Result<(), String> {
            Err(ABSENT.to_owned())
        }
        pub fn mount(_: &Path, _: &Path) -> io::Result<Self> {
            Err(io::Error::new(io::ErrorKind::Unsupported, ABSENT))
        }
        pub fn settle(&self) -> io::Result<()> {
            match *self {}
        }
        pub fn full(&self, _: bool) {
            match *self {}
        }
        pub fn power_off(&self) -> PowerOff<'_> {
            PowerOff(self)
        }
    }

    #[allow(missing_docs, clippy::missing_errors_doc, reason = "as those of the other build")]
    impl PowerOff<'_> {
        pub fn power_on(self, _: Keep) -> io::Result<Forgotten> {
            match *self.0 {}
        }
    }
}

#[cfg(not(feature = "netns"))]
mod network {
    use std::net::IpAddr;
    use std::path::Path;

    use crate::Partition;

    const ABSENT: &str = "this build of Storebench has no networks of nodes; build it with the feature `netns`";

    /// Nodes in network namespaces: not in this build.
    #[derive(Debug)]
    pub enum Network {}

    #[allow(missing_docs, clippy::missing_errors_doc, reason = "as those of the other build")]
    impl Network {
        pub fn available() -> Result<(), String> {
            Err(ABSENT.to_owned())
        }
        pub fn begin(_: &Path, _: &[&str]) -> Result<Self, String> {
            Err(ABSENT.to_owned())
        }
        pub fn address(&self, _: &str) -> Option<IpAddr> {
            match *self {}
        }
        pub fn enter_command(&self, _: &str) -> Option<String> {
            match *self {}
        }
        pub fn partition(&mut self, _: &Partition) -> Result<(), String> {
            match *self {}
        }
        pub fn heal(&mut self) -> Result<(), String> {
            match *self {}
        }
    }
}
