//! Tests of the `postgres` driver with PostgreSQL.

#[path = "postgres/faults.rs"]
mod faults;
#[path = "postgres/foreign_data.rs"]
mod foreign_data;
#[path = "postgres/guarantees.rs"]
mod guarantees;
#[path = "postgres/operations.rs"]
mod operations;
#[path = "postgres/ranges.rs"]
mod ranges;
#[path = "postgres/talk.rs"]
mod talk;
