//! Signatures of manifests: Ed25519 (RFC 8032).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

const ALGORITHM: &str = "ed25519";
/// What precedes the 32 bytes of a public key in its DER form (RFC 8410).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const KEY_BYTES: usize = 32;
#[cfg(not(feature = "signatures"))]
const NOT_BUILT: &str = "this binary was built without signatures; build with the feature `signatures`";

/// The signature of a manifest, as a bundle keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Always `ed25519`.
    pub algorithm: String,
    /// The public key, in base64.
    pub public_key: String,
    /// The signature of the manifest's bytes, in base64.
    pub signature: String,
}

/// Who signed a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signed {
    /// Nobody.
    No,
    /// The owner of this public key.
    By(String),
    /// Allegedly the owner of this public key: this build cannot check signatures.
    Unchecked(String),
}

impl fmt::Display for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No => f.write_str("not signed"),
            Self::By(key) => write!(f, "signed by {key}"),
            Self::Unchecked(key) => write!(f, "signature not checked (this build cannot), allegedly by {key}"),
        }
    }
}

/// A private key.
pub struct SigningKey {
    #[cfg(feature = "signatures")]
    pair: aws_lc_rs::signature::Ed25519KeyPair,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(***)")
    }
}

#[cfg(feature = "signatures")]
impl SigningKey {
    /// Reads a private key from PEM (PKCS #8), as `openssl genpkey -algorithm ed25519` makes it. An error says what is
    /// wrong.
    pub fn from_pem(text: &str) -> Result<Self, String> {
        let expected = "expected a private key in PEM, as `openssl genpkey -algorithm ed25519` makes it";
        let der = pem(text, "PRIVATE KEY").ok_or(expected)?;
        let pair = aws_lc_rs::signature::Ed25519KeyPair::from_pkcs8(&der).map_err(|e| format!("{e}; {expected}"))?;
        Ok(Self { pair })
    }

    /// Signs a manifest.
    pub(super) fn sign(&self, manifest: &[u8]) -> Signature {
        use aws_lc_rs::signature::KeyPair as _;

        Signature {
            algorithm: ALGORITHM.to_owned(),
            public_key: STANDARD.encode(self.pair.public_key().as_ref()),
            signature: STANDARD.encode(self.pair.sign(manifest).as_ref()),
        }
    }
}

#[cfg(not(feature = "signatures"))]
impl SigningKey {
    /// Refuses: this build cannot sign.
    pub fn from_pem(_: &str) -> Result<Self, String> {
        Err(NOT_BUILT.to_owned())
    }

    pub(super) fn sign(&self, _: &[u8]) -> Signature {
        unreachable!("no key can be made in this build")
    }
}

impl Signature {
    /// Checks the signature of a manifest. An error says what is wrong.
    pub(super) fn signer(&self, manifest: &[u8]) -> Result<Signed, String> {
        if self.algorithm != ALGORITHM {
            return Err(format!(
                "its signature is `{}`, and this version knows {ALGORITHM}; update Storebench",
                self.algorithm
            ));
        }
        let key = public_key(&self.public_key).map_err(|why| format!("the public key of its signature: {why}"))?;
        let signature = STANDARD.decode(&self.signature).map_err(|_| "its signature is not base64".to_owned())?;
        verified(&key, manifest, &signature)
    }
}

#[cfg(feature = "signatures")]
fn verified(key: &str, manifest: &[u8], signature: &[u8]) -> Result<Signed, String> {
    use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};

    let bytes = STANDARD.decode(key).unwrap_or_default();
    match UnparsedPublicKey::new(&ED25519, bytes).verify(manifest, signature) {
        Ok(()) => Ok(Signed::By(key.to_owned())),
        Err(_) => Err(format!("its signature does not match: the bundle was changed, or {key} did not sign it")),
    }
}

#[cfg(not(feature = "signatures"))]
fn verified(key: &str, _: &[u8], _: &[u8]) -> Result<Signed, String> {
    Ok(Signed::Unchecked(key.to_owned()))
}

/// A public key as bundles write it (base64 of its 32 bytes), from that text or from PEM as `openssl pkey -pubout` writes
/// it. An error says what is wrong.
pub fn public_key(text: &str) -> Result<String, String> {
    // The text is not quoted: it may be a secret that was given by mistake.
    if text.contains("PRIVATE KEY") {
        return Err("this is a private key; give the public one, as `openssl pkey -pubout` writes it".to_owned());
    }
    let bytes = match pem(text, "PUBLIC KEY") {
        Some(der) => der.strip_prefix(&SPKI).map(<[u8]>::to_vec),
        None => STANDARD.decode(text.trim()).ok(),
    };
    let key = bytes.filter(|bytes| bytes.len() == KEY_BYTES).map(|bytes| STANDARD.encode(bytes));
    key.ok_or_else(|| "this is not a public key of Ed25519; expected base64 of its 32 bytes, or PEM".to_owned())
}

/// The bytes of a block of PEM.
fn pem(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    STANDARD.decode(body.split_whitespace().collect::<String>()).ok()
}
