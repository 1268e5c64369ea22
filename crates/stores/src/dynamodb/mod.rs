//! `dynamodb://HOST:PORT` and `dynamodbs://…` (over TLS): the interface of Amazon DynamoDB, which ScyllaDB (Alternator)
//! has too.
//!
//! A collection is a table `storebench-NAME` (`?prefix=` changes the first part), billed by request. Its items:
//!
//! | attribute | |
//! |---|---|
//! | `sb_key` | the key, a string: the hash key of the table |
//! | `sb_rev` | a number drawn at each write, which compare-and-swap uses |
//! | `sb_expires` | the second after which the server removes the item, if the document expires |
//! | `body` | the document: a string of JSON as it was written, bytes, or the number of a counter |
//! | `sb_index_FIELD` | the JSON text of an indexed field: the hash key of the global secondary index of that name |
//!
//! With `?documents=native`, members of a document are attributes instead of `body`, as applications of DynamoDB keep
//! them. DynamoDB then changes some documents: see [`item`].
//!
//! One item with the key `storebench:marker` says that Storebench created the table. Conditional writes change it, so
//! of two copies that begin at once, one owns the table. DeleteTable takes no condition: `site` narrows what may go
//! wrong.
//!
//! | guarantee | AWS | ScyllaDB Alternator | other servers |
//! |---|---|---|---|
//! | `none` | | | what they promise is not known |
//! | `majority` | a write is on disks in more than one zone | `LOCAL_QUORUM`; commit logs are synced later | refused |
//! | `fsync` | the same | refused | refused |
//!
//! The driver was tested with dynalite 4.0 and moto 5.2, which offer DynamoDB's interface. It was tested neither with
//! AWS nor with ScyllaDB; for these it follows the documentation. `storebench conform dynamodb://…` runs the suite
//! against your server.

mod bulk;
mod dialect;
mod errors;
#[cfg(test)]
mod fuzz;
mod item;
mod memory;
mod server;
mod site;
mod store;
mod table;
mod target;
mod transact;
mod walk;

pub(crate) use store::DynamoStore;
pub(crate) use target::SCHEME;
