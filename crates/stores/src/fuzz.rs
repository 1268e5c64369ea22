//! Fuzz tests: no answer from a server makes a driver panic or loop forever. They feed mutations of valid
//! answers to each driver's parsers.
//!
//! To try more inputs:
//! `STOREBENCH_FUZZ_INPUTS=10000000 cargo test -p storebench-stores --lib soak_any -- --ignored`.

/// Defines two tests of one parser: one with a few thousand inputs, and one with `STOREBENCH_FUZZ_INPUTS` inputs.
macro_rules! fuzzed {
    ($name:literal, $good:expr, $take:expr) => {
        #[test]
        fn any_bytes_are_taken() {
            storebench_fakes::fuzz::run($name, $good, 1, 3_000, $take);
        }

        #[test]
        #[ignore = "takes minutes; run by `make soak`"]
        fn soak_any_bytes_are_taken() {
            storebench_fakes::fuzz::run($name, $good, 2, storebench_fakes::fuzz::inputs(200_000), $take);
        }
    };
}
pub(crate) use fuzzed;

mod urls {
    const GOOD: &[&[u8]] = &[
        b"memory:",
        b"sqlite:/nowhere/x.db?journal=wal&cache=2MiB",
        b"fjall:/nowhere/x",
        b"redb:/nowhere/x.redb",
        b"slow+memory:?latency=1ms..2ms",
        b"limit+sqlite:x?rate=100",
        b"postgres://user:password@[::1]:5432/db?schema=s&tls_name=x",
        b"postgres+tls://h/db",
        b"redis://:p%40ss@127.0.0.1:6379/3?ordered=yes",
        b"rediss://h",
        b"memcached://a:1,b:2",
        b"mongodb://u:p@a:1,b:2/db?tls=true&authSource=admin",
        b"mongodb+srv://h/db",
        b"couchdb://u@h:5984/prefix",
        b"couchdbs://h",
        b"ravendb://h:8080/storebench?replicas=2",
        b"dynamodbs://key:secret@dynamodb.eu-west-1.amazonaws.com?prefix=mine-&documents=native",
        b"dynamodb://h:8000?region=r",
        b"couchbase://u:p@h,h2/bucket?scope=s&keys=none&compression=snappy",
        b"couchbases://u:p@h/bucket?compression=none",
    ];

    fn take(bytes: &[u8]) {
        // This only parses the URL. Nothing is opened before the first control call.
        drop(crate::open(&String::from_utf8_lossy(bytes)));
    }

    super::fuzzed!("URLs of stores", GOOD, take);
}
