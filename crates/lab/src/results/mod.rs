//! The run folder: its document, its tables, its logs; written whole, read with care.

mod model;

pub use model::{
    AllOps, ClientUse, CollectionResult, CompressionResult, FORMAT, Failure, LedgerResult, Message, OpResult,
    Percentiles, PhaseDocuments, PhaseResult, Promise, RateResult, RunInfo, RunResult, StoreAfter, TrialResult,
    WorkerUseResult,
};
