//! From a host to a connection with it, under TLS or not.

use std::io::{self, ErrorKind};
use std::time::Duration;

use storebench_engine::store::StoreError;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Host, Stream, Tls};

/// Connects to a host within a time, handshake included.
///
/// # Errors
/// `Unreachable` with what stood in the way and what to do; `BadUrl` for TLS options that are wrong.
pub(crate) async fn connect(host: &Host, tls: Option<&Tls>, within: Duration) -> Result<Stream, StoreError> {
    match tokio::time::timeout(within, connect_now(host, tls)).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Unreachable(format!(
            "{host} did not answer within {within:?}; is the host right, and does a firewall stand between?"
        ))),
    }
}

async fn connect_now(host: &Host, tls: Option<&Tls>) -> Result<Stream, StoreError> {
    let tcp = TcpStream::connect((host.name.as_str(), host.port)).await.map_err(|e| not_reached(host, &e))?;
    tcp.set_nodelay(true).map_err(|e| not_reached(host, &e))?;
    mind_silence(&tcp);
    #[cfg(test)]
    super::squeeze(&tcp);
    match tls {
        None => Ok(Stream::Plain(tcp)),
        Some(tls) => encrypt(tcp, host, tls).await,
    }
}

/// Has the kernel end a connection whose other end is gone without a word: after half a minute where
/// nothing is said, after a minute where what was sent is not taken. A session that gives operations up
/// notices sooner. Without it a connection works too, so an error changes nothing.
fn mind_silence(tcp: &TcpStream) {
    use rustix::net::sockopt;

    let _ = sockopt::set_socket_keepalive(tcp, true);
    let _ = sockopt::set_tcp_keepidle(tcp, Duration::from_secs(15));
    let _ = sockopt::set_tcp_keepintvl(tcp, Duration::from_secs(5));
    let _ = sockopt::set_tcp_keepcnt(tcp, 3);
    #[cfg(target_os = "linux")]
    let _ = sockopt::set_tcp_user_timeout(tcp, 60_000);
}

/// Begins TLS on a connection, for protocols that ask for it in words of their own first.
///
/// # Errors
/// As [`connect`].
pub(crate) async fn encrypt(tcp: TcpStream, host: &Host, tls: &Tls) -> Result<Stream, StoreError> {
    let connector = TlsConnector::from(tls.config()?);
    let name = tls.server_name(host)?;
    let stream = connector.connect(name, tcp).await.map_err(|e| not_trusted(host, &e))?;
    Ok(Stream::Tls(Box::new(stream)))
}

fn not_reached(host: &Host, error: &io::Error) -> StoreError {
    let remedy = match error.kind() {
        ErrorKind::ConnectionRefused => "nothing listens there: is the server running, and is the port right?",
        ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            "no way leads there: is the host right, and does a firewall stand between?"
        }
        _ => "is the host's name right?",
    };
    StoreError::Unreachable(format!("{host} cannot be reached: {error}; {remedy}"))
}

fn not_trusted(host: &Host, error: &io::Error) -> StoreError {
    let text = error.to_string();
    let remedy = if text.contains("NotValidForName") || text.contains("not valid for name") {
        "its certificate is for another name: use that name as the host, or say it with tls_name="
    } else if text.contains("UnknownIssuer") {
        "its certificate is from an authority that is not trusted here: name that authority with tls_ca=FILE"
    } else if text.contains("CertificateRequired") || text.contains("certificate required") {
        "it wants a certificate of the client: give tls_cert=FILE and tls_key=FILE"
    } else {
        "does this port speak TLS? otherwise use the scheme without it"
    };
    StoreError::Unreachable(format!("{host} was reached, but not by TLS: {text}; {remedy}"))
}
