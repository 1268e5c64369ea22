//! The store drivers of Storebench, and the registry that opens one by its URL.
//!
//! A driver's types stay in its folder; what leaves this crate is [`open`], which gives an
//! [`AnyStore`](storebench_core::store::AnyStore), and [`schemes`], which says what there is.

// The drivers share some parts; a build with a few of them leaves others unused.
#![cfg_attr(not(feature = "default"), allow(dead_code, unused_imports, unused_variables))]

#[cfg(any(feature = "fjall", feature = "redb", feature = "sqlite"))]
mod document;
#[cfg(feature = "sqlite")]
mod fair;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(any(feature = "fjall", feature = "redb"))]
mod found;
#[cfg(feature = "http")]
mod http;
#[cfg(any(feature = "fjall", feature = "redb"))]
mod index_entry;
#[cfg(any(feature = "fjall", feature = "redb", feature = "sqlite"))]
mod location;
#[cfg(feature = "net")]
mod net;
#[cfg(feature = "ravendb")]
mod ravendb;
#[cfg(feature = "redb")]
mod redb;
mod registry;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use registry::{OptionHelp, Scheme, open, schemes};
