//! Arguments that fit a study to stores that guarantee and support different things.

use clap::Args as ClapArgs;
use storebench_engine::Unsupported;
use storebench_engine::store::DurabilityRequest;

/// What stores must guarantee, and what happens to parts of a study that a store does not support.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct FitArgs {
    /// Durability of acknowledged writes, at least: none, os, fsync or majority [default: the study's, or else
    /// the strongest of fsync, os and none that the store guarantees]
    ///
    /// Applies to every phase that writes. Each store gives the weakest durability that it has at or above this one.
    /// `default` is the store as it is shipped. A table is written as in a study file: '{ acknowledged_by = 2 }',
    /// '{ exactly = "os" }'.
    #[arg(long, value_name = "LEVEL", help_heading = "Guarantees")]
    pub(crate) durability: Option<DurabilityRequest>,

    /// On each store, leave out what it does not support
    ///
    /// An operation, index or phase that a store lacks is left out on that store alone, and the result names it.
    /// Without the flag, the study is refused.
    #[arg(long, help_heading = "Guarantees")]
    pub(crate) skip_unsupported: bool,
}

impl FitArgs {
    /// What happens to parts of a study that a store does not support.
    pub(crate) fn unsupported(&self) -> Unsupported {
        if self.skip_unsupported { Unsupported::LeaveOut } else { Unsupported::Refuse }
    }
}
