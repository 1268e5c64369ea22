//! Drivers of servers beside other clients of the same server: processor time of an operation.

pub(crate) mod http;
