//! The `couchdb` driver against a server.
