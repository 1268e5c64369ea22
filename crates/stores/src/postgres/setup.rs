//! Turns a login into a session on a server that keeps the session's guarantees.

use std::time::Duration;

use storebench_engine::store::StoreError;

use super::durability::{FACTS, Guarantee};
use super::login::{Connected, Target};
use crate::net::Stream;

/// What a connection is made from.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) target: Target,
    pub(super) guarantee: Guarantee,
    /// Statements to run before others are prepared. May be empty.
    pub(super) first: String,
}

/// Sets up a session and prepares its statements, within a time limit. Reads the server's guarantees each time, since a
/// restarted server may have other settings.
///
/// # Errors
/// `NotSupported` for a guarantee that the server cannot give; `Unreachable` if it does not answer in time.
pub(super) async fn set_up(
    mut connected: Connected,
    setup: &Setup,
    parses: &[u8],
    again: bool,
    within: Duration,
) -> Result<Stream, StoreError> {
    let target = &setup.target;
    let process = connected.process;
    let doing = "set up a session";
    let asking = async move {
        let rows = connected.query("read its version and settings", FACTS).await?;
        let sets = setup.guarantee.settings(&target.place(), &rows, again)?;
        connected.query(doing, &sets).await?;
        if !setup.first.is_empty() {
            connected.query(doing, &setup.first).await?;
        }
        let mut channel = connected.channel;
        channel.send(parses).await.map_err(|lost| target.broke(doing, &lost))?;
        channel.rows().await.map_err(|fault| target.fault("prepare the statements of a session", &fault))?;
        channel.into_stream().await.map_err(|lost| target.broke(doing, &lost))
    };
    match tokio::time::timeout(within, asking).await {
        Ok(result) => result,
        Err(_) => {
            // The server may be waiting for a lock, and would continue after the client has given up.
            target.cancel(process).await;
            Err(target.silent(doing, within))
        }
    }
}

#[cfg(test)]
mod tests {
    use storebench_engine::store::{Durability, ReadConsistency};

    use super::*;
    use crate::net::{Address, Host, connect};
    use crate::postgres::channel::Channel;
    use crate::registry::Options;

    fn setup(host: &Host) -> Setup {
        let url = format!("postgres://u@{host}/d");
        let address = Address::parse(&url, "postgres://u@h/d", 5432, false, &mut Options::for_test("")).unwrap();
        let target = Target { address, user: "u".into(), database: "d".into() };
        let (durability, consistency) = (Some(Durability::FSYNC), ReadConsistency::Strong);
        Setup { target, guarantee: Guarantee { durability, consistency, apply: false }, first: String::new() }
    }

    #[test]
    fn a_server_that_says_nothing_after_the_login_is_not_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let host = Host { name: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
            let stream = connect(&host, None, Duration::from_secs(20)).await.unwrap();
            let setup = setup(&host);
            let connected = Connected { target: setup.target.clone(), channel: Channel::new(stream), process: (7, 8) };
            let silent = listener.accept().await.unwrap().0;
            // The second connection asks it to cancel.
            let asked = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 16];
                tokio::io::AsyncReadExt::read_exact(&mut stream, &mut request).await.unwrap();
                request
            });
            let setting = set_up(connected, &setup, b"", true, Duration::from_millis(50));
            let error = setting.await.expect_err("it said nothing");
            assert!(matches!(&error, StoreError::Unreachable(text) if text.contains("no answer")), "{error}");
            assert_eq!(asked.await.unwrap()[8..], [0, 0, 0, 7, 0, 0, 0, 8]);
            drop(silent);
        });
    }
}
