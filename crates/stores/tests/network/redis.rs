//! The `redis` driver against a server.
