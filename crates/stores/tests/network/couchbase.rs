//! The `couchbase` driver against a server.
