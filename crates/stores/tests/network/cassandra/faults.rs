//! Servers that want a password and TLS, and that are killed.

use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use storebench_engine::store::{Durability, ErrorKind, Op, Prepare, StoreError};
use storebench_fakes::certificates::{ADDRESS, CA, LOCALHOST};

use crate::driven::{Driven, layout};
use crate::server::Server;

/// A server that syncs before it acknowledges, and that wants a password and TLS.
#[test]
fn what_a_batch_commit_log_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let [ca, cert, key] = [("ca.pem", CA), ("cert.pem", ADDRESS.pem), ("key.pem", ADDRESS.key)].map(|(name, text)| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    });
    let options = ["--password", "right one", "--tls", &cert, &key, "--option=commitlog_sync: batch"];
    let server = Server::start_with("cassandra", &options);
    only_a_trusted_certificate_will_do(&server, Path::new(&ca));
    let url = |password: &str| format!("cassandras://{password}127.0.0.1:{}?tls_ca={ca}", server.port);
    let password = "storebench:right%20one@";
    for (wrong, part) in [("storebench:wr%20ng@", "refused the login"), ("", "requires a login")] {
        let error = storebench_stores::open(&url(wrong)).unwrap().inspect().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Unreachable(_)) && text.contains(part), "{text}");
        assert!(!text.contains("wr ng") && !text.contains("wr%20ng"), "{text}");
    }
    let store = storebench_stores::open(&url(password)).unwrap();
    store.inspect().unwrap();
    let levels: Vec<String> = store.capabilities().durability.iter().map(|(level, _)| level.to_string()).collect();
    assert_eq!(levels, ["fsync", "acknowledged by majority, persisted disk on 1"]);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    assert!(Driven::open(&*store, Durability::MEMORY).is_err(), "the server always syncs");
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    let mut acknowledged = Vec::new();
    for n in 0..200 {
        let key = format!("k{n}");
        driven.call(Op::Upsert { key: &key, body: b"{}" }).unwrap();
        acknowledged.push(key);
    }
    // Of what is in flight, nothing is known, except what was acknowledged.
    let keys: Vec<String> = (0..500).map(|n| format!("f{n}")).collect();
    for (n, key) in keys.iter().enumerate() {
        match n % 2 {
            0 => driven.submit(Op::Upsert { key, body: b"{}" }),
            _ => driven.submit(Op::Insert { key, body: b"{}" }),
        };
    }
    driven.wait(Duration::from_millis(1), |_| false);
    server.kill();
    for (token, answer) in driven.finish(500) {
        match answer {
            Ok(_) => acknowledged.push(keys[usize::try_from(token.0).unwrap() - 201].clone()),
            Err(error) => assert!(
                matches!(error.kind, ErrorKind::OutcomeUnknown | ErrorKind::Temporary),
                "neither unknown nor temporary: {error}"
            ),
        }
    }
    // The first call may have been on its way when the client heard of the kill. Each later one was never sent.
    let mut away = || driven.call(Op::Upsert { key: "away", body: b"{}" }).unwrap_err();
    let first = away();
    assert!(matches!(first.kind, ErrorKind::OutcomeUnknown | ErrorKind::Temporary), "{first}");
    let later = away();
    assert_eq!(later.kind, ErrorKind::Temporary, "{later}");
    server.restart();
    for key in &acknowledged {
        driven.call_again(Op::Read { key }).unwrap_or_else(|error| panic!("{key} was acknowledged: {error}"));
    }
    assert!(driven.counters().disconnects >= 1);
    drop(driven);
    store.remove().unwrap();
    store.close().unwrap();
}

fn only_a_trusted_certificate_will_do(server: &Server, ca: &Path) {
    let fails = |url: &str, remedy: &str| {
        let error = storebench_stores::open(url).unwrap().inspect().unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)) && error.to_string().contains(remedy), "{url}: {error}");
        println!("{url}: {error}");
    };
    let (port, trusted) = (server.port, format!("tls_ca={}", ca.display()));
    fails(&format!("cassandras://127.0.0.1:{port}"), "tls_ca=FILE");
    fails(&format!("cassandra://127.0.0.1:{port}"), "cassandras://");
    fails(&format!("cassandras://127.0.0.1:{}?{trusted}", of_another_name()), "must name it");
    fails(&format!("cassandras://127.0.0.1:{}?{trusted}", without_tls()), "the scheme without it");
}

/// A server whose certificate has only the name `localhost`.
fn of_another_name() -> u16 {
    let certificate = CertificateDer::from_pem_slice(LOCALHOST.pem.as_bytes()).unwrap();
    let private = PrivateKeyDer::from_pem_slice(LOCALHOST.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate], private).unwrap();
    let config = Arc::new(config);
    listen(move |mut stream| {
        let mut connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        while connection.is_handshaking() && connection.complete_io(&mut stream).is_ok() {}
    })
}

/// A server that answers a greeting of TLS as Cassandra does: with an error of its own protocol.
fn without_tls() -> u16 {
    listen(|mut stream| {
        let _ = stream.read(&mut [0; 9]);
        let _ = std::io::Write::write_all(&mut stream, b"\x85\0\0\0\0\0\0\0\x06\0\0\0\x0a\0\0");
    })
}

fn listen(each: impl Fn(std::net::TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().for_each(|stream| each(stream.unwrap())));
    port
}
