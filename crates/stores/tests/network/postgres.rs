//! The `postgres` driver against a server.
