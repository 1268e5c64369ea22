//! The client's side of SCRAM-SHA-256 ([RFC 5802](https://www.rfc-editor.org/rfc/rfc5802), [RFC
//! 7677](https://www.rfc-editor.org/rfc/rfc7677)).

use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use storebench_engine::store::StoreError;

use super::Secret;

/// The most iterations accepted. RFC 7677 requires at least 4,096; more than this would make the client hang.
const MOST_ROUNDS: u32 = 10_000_000;

/// The last salt and iteration count, with the salted password, so that further connections avoid thousands of hashes.
pub(crate) type Salt = Mutex<Option<Salted>>;

/// A password salted with `salt` over `rounds` iterations.
#[derive(Debug)]
pub(crate) struct Salted {
    salt: Vec<u8>,
    rounds: u32,
    key: [u8; 32],
}

/// One login.
pub(crate) struct Scram {
    nonce: String,
    /// The client's first message, without its header.
    bare: String,
}

/// The client's last message, and what the server must answer to prove that it knows the password too.
pub(crate) struct Proof {
    pub(crate) last: String,
    pub(crate) expected: String,
}

impl Scram {
    /// # Errors
    /// If the operating system returns no random numbers.
    pub(crate) fn new(user: &str) -> Result<Self, StoreError> {
        let mut random = [0; 24];
        rustls::crypto::aws_lc_rs::default_provider()
            .secure_random
            .fill(&mut random)
            .map_err(|_| StoreError::Failed("the operating system returned no random numbers".into()))?;
        let nonce = STANDARD.encode(random);
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Ok(Self { bare: format!("n={user},r={nonce}"), nonce })
    }

    /// The client's first message.
    pub(crate) fn first(&self) -> String {
        format!("n,,{}", self.bare)
    }

    /// Answers the server's challenge. `None` if it is not one, or asks for too little or too much.
    pub(crate) fn answer(&self, challenge: &[u8], least_rounds: u32, password: &Secret, kept: &Salt) -> Option<Proof> {
        let challenge = std::str::from_utf8(challenge).ok()?;
        let part = |name: &str| challenge.split(',').find_map(|part| part.strip_prefix(name));
        let (both, salt, rounds) = (part("r=")?, STANDARD.decode(part("s=")?).ok()?, part("i=")?.parse().ok()?);
        let fits = (least_rounds..=MOST_ROUNDS).contains(&rounds);
        if !fits || !both.starts_with(&self.nonce) || both.len() == self.nonce.len() {
            return None;
        }
        let key = salted(password, &salt, rounds, kept);
        let client_key = mac(&key, &[b"Client Key"]);
        let without_proof = format!("c=biws,r={both}");
        let signed = [self.bare.as_bytes(), b",", challenge.as_bytes(), b",", without_proof.as_bytes()];
        let mut proof = mac(&Sha256::digest(client_key), &signed);
        for (a, b) in proof.iter_mut().zip(client_key) {
            *a ^= b;
        }
        let signature = mac(&mac(&key, &[b"Server Key"]), &signed);
        Some(Proof {
            last: format!("{without_proof},p={}", STANDARD.encode(proof)),
            expected: format!("v={}", STANDARD.encode(signature)),
        })
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// `Hi` of RFC 5802: PBKDF2 with one block.
fn hash(password: &[u8], salt: &[u8], rounds: u32) -> [u8; 32] {
    let keyed = <Hmac<Sha256> as Mac>::new_from_slice(password).expect("HMAC takes keys of any length");
    let mut last = mac(password, &[salt, &1_u32.to_be_bytes()]);
    let mut sum = last;
    for _ in 1..rounds {
        let mut round = keyed.clone();
        round.update(&last);
        last = round.finalize().into_bytes().into();
        for (a, b) in sum.iter_mut().zip(last) {
            *a ^= b;
        }
    }
    sum
}

fn salted(password: &Secret, salt: &[u8], rounds: u32, kept: &Salt) -> [u8; 32] {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = kept.as_ref()
        && kept.salt == salt
        && kept.rounds == rounds
    {
        return kept.key;
    }
    let password = password.expose();
    // If SASLprep (RFC 4013) rejects the password, it is used unchanged, as servers do.
    let prepared = stringprep::saslprep(password).unwrap_or(password.into());
    let key = hash(prepared.as_bytes(), salt, rounds);
    *kept = Some(Salted { salt: salt.to_vec(), rounds, key });
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn proofs_are_those_of_the_rfc() {
        let nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
        let scram = Scram { bare: format!("n=user,r={nonce}"), nonce };
        let challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let password = Secret::new("pencil");
        for _ in 0..2 {
            let proof = scram.answer(challenge, 4_096, &password, &Salt::default()).unwrap();
            assert!(proof.last.ends_with(",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), "{}", proof.last);
            assert_eq!(proof.expected, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        }
        for odd in [
            &challenge[2..],
            b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4",
            b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999",
            b"r=rOprNGfwEbeRWgbNEkqOx,s=?,i=4096",
            b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            b"\xff",
        ] {
            assert!(scram.answer(odd, 4_096, &password, &Salt::default()).is_none(), "{}", odd.escape_ascii());
        }
    }
}
