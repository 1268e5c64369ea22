//! The `memcached` driver against a server.
