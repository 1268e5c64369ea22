//! The `mongodb` driver against a server.
