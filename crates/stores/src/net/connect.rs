//! Connects to a host, with or without TLS.

use std::io::{self, ErrorKind};
use std::time::Duration;

use storebench_engine::store::StoreError;
use storebench_study::units::Span;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Host, Stream, Tls};

/// Connects to a host within a time limit, which includes the TLS handshake.
///
/// # Errors
/// `Unreachable` with the cause and what to do; `BadUrl` for wrong TLS options.
pub(crate) async fn connect(host: &Host, tls: Option<&Tls>, within: Duration) -> Result<Stream, StoreError> {
    tokio::time::timeout(within, connect_now(host, tls)).await.unwrap_or_else(|_| {
        let within = Span(within);
        Err(StoreError::Unreachable(format!(
            "{host} did not answer within {within}; check the host name and any firewall in between"
        )))
    })
}

async fn connect_now(host: &Host, tls: Option<&Tls>) -> Result<Stream, StoreError> {
    let tcp = TcpStream::connect((host.name.as_str(), host.port)).await.map_err(|e| not_reached(host, &e))?;
    tcp.set_nodelay(true).map_err(|e| not_reached(host, &e))?;
    mind_silence(&tcp);
    #[cfg(test)]
    super::shrink_buffers(&tcp);
    match tls {
        None => Ok(Stream::Plain(tcp)),
        Some(tls) => encrypt(tcp, host, tls).await,
    }
}

/// Has the kernel close a connection whose peer vanished: after 30 seconds on an idle connection, and after a minute
/// if sent data is not acknowledged. A session whose operations time out notices sooner. Errors are ignored, because
/// the connection works without these options too.
fn mind_silence(tcp: &TcpStream) {
    use rustix::net::sockopt;

    let _ = sockopt::set_socket_keepalive(tcp, true);
    let _ = sockopt::set_tcp_keepidle(tcp, Duration::from_secs(15));
    let _ = sockopt::set_tcp_keepintvl(tcp, Duration::from_secs(5));
    let _ = sockopt::set_tcp_keepcnt(tcp, 3);
    #[cfg(target_os = "linux")]
    let _ = sockopt::set_tcp_user_timeout(tcp, 60_000);
}

/// Starts TLS on an open connection, for protocols that first negotiate it in plain text.
///
/// # Errors
/// As [`connect`].
pub(crate) async fn encrypt(tcp: TcpStream, host: &Host, tls: &Tls) -> Result<Stream, StoreError> {
    let connector = TlsConnector::from(tls.config()?);
    let name = tls.server_name(host)?;
    let stream = connector.connect(name, tcp).await.map_err(|e| not_trusted(host, &e))?;
    Ok(Stream::Tls(Box::new(stream)))
}

/// The error of a connection that was not made.
pub(crate) fn not_reached(host: &Host, error: &io::Error) -> StoreError {
    let remedy = match error.kind() {
        // EMFILE and ENFILE: the host has nothing to do with it.
        _ if matches!(error.raw_os_error(), Some(24 | 23)) => {
            "raise the limit of open files (`ulimit -n`), or use fewer connections"
        }
        ErrorKind::ConnectionRefused => "nothing is listening there; check that the server runs and the port is right",
        ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            "there is no route to it; check the host name and any firewall in between"
        }
        _ => "check the host name",
    };
    StoreError::Unreachable(format!("cannot reach {host}: {error}; {remedy}"))
}

/// The error of TLS that was refused.
pub(crate) fn not_trusted(host: &Host, error: &io::Error) -> StoreError {
    let text = error.to_string();
    let remedy = tls_remedy(&text, "use that name as the host, or set tls_name=");
    StoreError::Unreachable(format!("reached {host}, but TLS failed: {text}; {remedy}"))
}

/// What to do about an error of TLS with this text. `renamed` is what to do about a certificate for another name.
pub(crate) fn tls_remedy(text: &str, renamed: &str) -> String {
    if text.contains("NotValidForName") || text.contains("not valid for name") {
        return format!("its certificate is for another name; {renamed}");
    }
    let remedy = if text.contains("UnknownIssuer") {
        "its certificate is from an untrusted authority; name that authority with tls_ca=FILE"
    } else if text.contains("CertificateRequired") || text.contains("certificate required") {
        "it requires a client certificate; set tls_cert=FILE and tls_key=FILE"
    } else {
        "if this port does not use TLS, use the scheme without it"
    };
    remedy.to_owned()
}
