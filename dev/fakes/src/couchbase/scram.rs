//! The server side of SCRAM ([RFC 5802]) with SHA-1, SHA-256 and SHA-512.
//!
//! [RFC 5802]: https://www.rfc-editor.org/rfc/rfc5802

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

/// A hash, with a salt and a password.
type Password = (Hash, Vec<u8>);
/// The salted passwords so far.
static SALTED: Mutex<BTreeMap<Password, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// The hash function of a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hash {
    Sha1,
    Sha256,
    Sha512,
}

impl Hash {
    /// The hash of a mechanism's name.
    pub(super) fn of(mechanism: &[u8]) -> Option<Self> {
        match mechanism {
            b"SCRAM-SHA1" => Some(Self::Sha1),
            b"SCRAM-SHA256" => Some(Self::Sha256),
            b"SCRAM-SHA512" => Some(Self::Sha512),
            _ => None,
        }
    }

    /// Real servers use 4,000 and more, so that a stolen table of keys is of little use. Here they would only cost each
    /// connection of a test tens of milliseconds. Storebench refuses less than 1,000.
    fn iterations(self) -> u32 {
        if self == Self::Sha256 { 1_000 } else { 64 }
    }

    fn hash(self, text: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(text).to_vec(),
            Self::Sha256 => Sha256::digest(text).to_vec(),
            Self::Sha512 => Sha512::digest(text).to_vec(),
        }
    }

    fn hmac(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        fn with<M: Mac + KeyInit>(key: &[u8], text: &[u8]) -> Vec<u8> {
            let mut mac = <M as Mac>::new_from_slice(key).expect("HMAC takes keys of any length");
            mac.update(text);
            mac.finalize().into_bytes().to_vec()
        }
        match self {
            Self::Sha1 => with::<Hmac<Sha1>>(key, text),
            Self::Sha256 => with::<Hmac<Sha256>>(key, text),
            Self::Sha512 => with::<Hmac<Sha512>>(key, text),
        }
    }

    /// `Hi` of the RFC: PBKDF2 with one block.
    fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut last = self.hmac(password, &[salt, &[0, 0, 0, 1]].concat());
        let mut all = last.clone();
        for _ in 1..iterations {
            last = self.hmac(password, &last);
            all.iter_mut().zip(&last).for_each(|(all, last)| *all ^= last);
        }
        all
    }
}

/// A login that is waiting for the client's proof.
#[derive(Debug)]
pub(super) struct Login {
    hash: Hash,
    user: String,
    nonce: String,
    salt: Vec<u8>,
    /// The text that both sides sign, without the client's final message.
    signed: String,
}

impl Login {
    /// Handles the client's first message. Also returns the answer.
    pub(super) fn begin(hash: Hash, first: &[u8], server_nonce: &str) -> Option<(Self, String)> {
        let bare = std::str::from_utf8(first).ok()?.strip_prefix("n,,")?;
        let (user, client_nonce) = bare.strip_prefix("n=")?.split_once(",r=")?;
        let nonce = format!("{client_nonce}{server_nonce}");
        let salt = format!("salt of {user}").into_bytes();
        let answer = format!("r={nonce},s={},i={}", STANDARD.encode(&salt), hash.iterations());
        let signed = format!("{bare},{answer}");
        Some((Self { hash, user: user.to_owned(), nonce, salt, signed }, answer))
    }

    fn salted_as(&self, password: &str) -> Password {
        (self.hash, [self.salt.as_slice(), b"\0", password.as_bytes()].concat())
    }

    /// Checks the proof against the user's password. Returns the server's signature.
    pub(super) fn finish(&self, last: &[u8], user: &str, password: &str) -> Option<String> {
        let last = std::str::from_utf8(last).ok()?;
        let (without_proof, proof) = last.split_once(",p=")?;
        if without_proof != format!("c=biws,r={}", self.nonce) || self.user != user {
            return None;
        }
        let signed = format!("{},{without_proof}", self.signed);
        let salted = SALTED.lock().unwrap_or_else(PoisonError::into_inner).get(&self.salted_as(password)).cloned();
        let salted = salted.unwrap_or_else(|| {
            let salted = self.hash.salted(password.as_bytes(), &self.salt, self.hash.iterations());
            let mut all = SALTED.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(self.salted_as(password), salted.clone());
            salted
        });
        let client_key = self.hash.hmac(&salted, b"Client Key");
        let signature = self.hash.hmac(&self.hash.hash(&client_key), signed.as_bytes());
        let expected: Vec<u8> = client_key.iter().zip(&signature).map(|(key, signature)| key ^ signature).collect();
        if STANDARD.decode(proof).ok()? != expected {
            return None;
        }
        let server_key = self.hash.hmac(&salted, b"Server Key");
        Some(format!("v={}", STANDARD.encode(self.hash.hmac(&server_key, signed.as_bytes()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3. It has another salt, so the test checks its parts.
    #[test]
    fn the_parts_are_those_of_the_rfc() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let salted = Hash::Sha256.salted(b"pencil", &salt, 4_096);
        let client_key = Hash::Sha256.hmac(&salted, b"Client Key");
        let signed = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
                      r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
                      c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let signature = Hash::Sha256.hmac(&Hash::Sha256.hash(&client_key), signed.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        assert_eq!(STANDARD.encode(proof), "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
    }

    #[test]
    fn a_wrong_proof_or_user_is_refused() {
        let (login, answer) = Login::begin(Hash::Sha1, b"n,,n=user,r=abc", "def").unwrap();
        assert!(answer.starts_with("r=abcdef,s="));
        let proof = STANDARD.encode([0; 20]);
        assert!(login.finish(format!("c=biws,r=abcdef,p={proof}").as_bytes(), "user", "password").is_none());
        assert!(login.finish(b"nonsense", "user", "password").is_none());
    }
}
