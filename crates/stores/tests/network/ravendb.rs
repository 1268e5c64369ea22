//! The `ravendb` driver against a server.
