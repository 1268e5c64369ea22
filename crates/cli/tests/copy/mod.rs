//! End-to-end tests of `copy`: between files and real servers, killed, interrupted, resumed, and when things break.

mod counts;
mod damaged;
mod difficult_records;
mod disk;
mod ends;
mod guards;
mod input;
mod into_existing;
mod killed_server;
mod limits;
mod orders;
mod owners;
mod places;
mod real_data;
mod records;
mod remote;
mod repeated;
mod rows;
mod sqlite;
