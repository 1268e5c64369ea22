//! Placeholders for the features that this build lacks. No value of them can exist; creating one returns the reason.

#[cfg(not(feature = "netns"))]
pub use network::Network;
#[cfg(not(feature = "powercut"))]
pub use power::{PowerCut, PowerOff};

#[cfg(not(feature = "powercut"))]
mod power {
    use std::io;
    use std::path::Path;

    use crate::{Forgotten, Keep};

    const ABSENT: &str = "this build of Storebench does not support power cuts; build it with the feature `powercut`";

    /// A file system that loses what was not synced. Not in this build.
    #[derive(Debug)]
    pub enum PowerCut {}

    /// The time between the power cut and the return of power.
    #[derive(Debug)]
    pub struct PowerOff<'a>(&'a PowerCut);

    #[allow(missing_docs, clippy::missing_errors_doc, reason = "documented in the build with the feature")]
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

    #[allow(missing_docs, clippy::missing_errors_doc, reason = "documented in the build with the feature")]
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

    const ABSENT: &str =
        "this build of Storebench does not support network partitions; build it with the feature `netns`";

    /// Nodes in network namespaces. Not in this build.
    #[derive(Debug)]
    pub enum Network {}

    #[allow(missing_docs, clippy::missing_errors_doc, reason = "documented in the build with the feature")]
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
