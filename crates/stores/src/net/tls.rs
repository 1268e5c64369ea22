//! TLS: encryption, certificates and trusted authorities.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use storebench_engine::store::StoreError;

use super::Host;
use crate::registry::Options;

/// The TLS options of a URL. Files are read when the first connection is made. All connections share the resulting
/// configuration, and with it the cache of resumable TLS sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tls {
    /// PEM file of trusted authorities; `None` for the system's.
    pub(crate) ca: Option<PathBuf>,
    /// PEM files of the client's certificate and key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
    /// The name to verify the server's certificate against; `None` for the host.
    pub(crate) name: Option<String>,
    made: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl Tls {
    /// Takes the `tls_…` options.
    ///
    /// # Errors
    /// `BadUrl` for a certificate without its key, or a key without its certificate.
    pub(crate) fn take(options: &mut Options<'_>) -> Result<Self, StoreError> {
        let mut path = |name| options.take(name).map(PathBuf::from);
        let (ca, cert, key) = (path("tls_ca"), path("tls_cert"), path("tls_key"));
        let client = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => {
                return Err(StoreError::BadUrl("tls_cert and tls_key require each other; set both or neither".into()));
            }
        };
        Ok(Self { ca, client, name: options.take("tls_name").map(str::to_owned), made: Arc::default() })
    }

    /// Whether no option was given.
    pub(crate) fn is_default(&self) -> bool {
        self.ca.is_none() && self.client.is_none() && self.name.is_none()
    }

    /// The client configuration.
    ///
    /// # Errors
    /// `BadUrl` naming the file that cannot be read or that contains no certificate or key; `Unreachable` if the
    /// system has no certificate authorities.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, StoreError> {
        if let Some(made) = self.made.get() {
            return Ok(Arc::clone(made));
        }
        let made = self.make()?;
        Ok(Arc::clone(self.made.get_or_init(|| made)))
    }

    fn make(&self) -> Result<Arc<ClientConfig>, StoreError> {
        // Named explicitly: if another crate of the binary brings a second provider, there is no default.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let wrong = |e: rustls::Error| StoreError::BadUrl(format!("the TLS options do not match each other: {e}"));
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_root_certificates(self.roots()?);
        let config = match &self.client {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = certificates(cert, "tls_cert")?;
                let key_der = PrivateKeyDer::from_pem_file(key).map_err(|e| {
                    StoreError::BadUrl(format!("tls_key={}: cannot read a private key in PEM: {e}", key.display()))
                })?;
                builder.with_client_auth_cert(chain, key_der).map_err(wrong)?
            }
        };
        Ok(Arc::new(config))
    }

    /// The name that the host's certificate must have.
    ///
    /// # Errors
    /// `BadUrl` if it is neither a DNS name nor an IP address.
    pub(crate) fn server_name(&self, host: &Host) -> Result<ServerName<'static>, StoreError> {
        let name = self.name.as_deref().unwrap_or(&host.name);
        ServerName::try_from(name.to_owned())
            .map_err(|_| StoreError::BadUrl(format!("invalid host name `{name}`; use a DNS name or an IP address")))
    }

    fn roots(&self) -> Result<rustls::RootCertStore, StoreError> {
        let mut roots = rustls::RootCertStore::empty();
        match &self.ca {
            Some(file) => {
                for certificate in certificates(file, "tls_ca")? {
                    roots.add(certificate).map_err(|e| {
                        StoreError::BadUrl(format!(
                            "tls_ca={}: a certificate in this file cannot be used as an authority: {e}",
                            file.display()
                        ))
                    })?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    return Err(StoreError::Unreachable(
                        "this system has no certificate authorities; install the package ca-certificates, or name the \
                         server's authority with tls_ca=FILE"
                            .into(),
                    ));
                }
            }
        }
        Ok(roots)
    }
}

fn certificates(file: &std::path::Path, option: &str) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let wrong =
        |e: String| StoreError::BadUrl(format!("{option}={}: cannot read certificates in PEM: {e}", file.display()));
    let found = CertificateDer::pem_file_iter(file)
        .and_then(|iter| iter.collect::<Result<Vec<_>, _>>())
        .map_err(|e| wrong(e.to_string()))?;
    if found.is_empty() { Err(wrong("the file contains none".into())) } else { Ok(found) }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;
    use std::sync::mpsc;

    use rustls_pki_types::PrivateKeyDer;
    use storebench_fakes::certificates::{BOTH, CA};

    use super::*;

    thread_local! {
        static SMALL_BUFFER: Cell<bool> = const { Cell::new(false) };
    }

    /// Limits the send buffer of a client of [`held_reader`] to a few KiB.
    pub(crate) fn shrink_buffers(tcp: &tokio::net::TcpStream) {
        if SMALL_BUFFER.get() {
            rustix::net::sockopt::set_socket_send_buffer_size(tcp, 4096).unwrap();
        }
    }

    /// Starts a TLS server on its own thread, and returns its host, client settings that trust it, and a sender that
    /// releases it. Until released, the server reads nothing. Then it reads `bytes` bytes of one connection and
    /// answers. Both socket buffers hold only a few KiB, so until then most of what this thread's client writes stays
    /// in its TLS buffer.
    pub(crate) fn held_reader(bytes: usize, answer: &'static [u8]) -> (Host, Tls, mpsc::Sender<()>) {
        use std::io::{Read, Write};

        let folder = tempfile::tempdir().unwrap();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, CA).unwrap();
        let tls = Tls { ca: Some(ca), ..Tls::default() };
        tls.config().unwrap();
        let certificate = CertificateDer::from_pem_slice(BOTH.pem.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(BOTH.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
        SMALL_BUFFER.set(true);
        let host = Host { name: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() };
        let (go, held) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut connection = rustls::ServerConnection::new(Arc::new(config)).unwrap();
            while connection.is_handshaking() {
                connection.complete_io(&mut stream).unwrap();
            }
            held.recv().unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            let (mut read, mut room) = (0, vec![0; 16 << 10]);
            while read < bytes {
                match stream.read(&mut room) {
                    Ok(more @ 1..) => read += more,
                    _ => return,
                }
            }
            stream.write_all(answer).unwrap();
            stream.flush().unwrap();
            let _ = stream.read(&mut room);
        });
        (host, tls, go)
    }

    #[test]
    fn files_are_read_once_for_all_connections() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let tls = Tls { ca: Some(file.clone()), ..Tls::default() };
        assert!(tls.config().is_err(), "there is no file yet");
        std::fs::write(&file, CA).unwrap();
        let first = tls.config().unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(Arc::ptr_eq(&first, &tls.clone().config().unwrap()));
    }
}
