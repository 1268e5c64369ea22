//! Authentication: SCRAM-SHA-256 ([RFC 7677](https://www.rfc-editor.org/rfc/rfc7677)) and X.509.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use storebench_engine::store::StoreError;

use super::bson::{self, Members};
use super::wire::{self, Connection};
use crate::net::{Host, Secret};

/// How a client authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mechanism {
    /// With a user and a password.
    Scram,
    /// With the certificate of its TLS connection.
    X509,
}

/// The user, and how the user authenticates.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) mechanism: Mechanism,
    pub(super) user: String,
    pub(super) password: Secret,
    /// The database that authenticates the user.
    pub(super) source: String,
    /// The last salt and iteration count, with the salted password, so that further connections avoid thousands of
    /// hashes.
    pub(super) salted: Mutex<Option<Salted>>,
}

/// A password salted with `salt` over `rounds` iterations.
#[derive(Debug)]
pub(super) struct Salted {
    salt: Vec<u8>,
    rounds: u32,
    key: [u8; 32],
}

/// The most iterations accepted. RFC 7677 requires at least 4,096; more than this would make the client hang.
const MOST_ROUNDS: u32 = 10_000_000;

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// `Hi` of RFC 5802: PBKDF2 with one block.
fn salt(password: &[u8], salt: &[u8], rounds: u32) -> [u8; 32] {
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

impl Login {
    /// Logs in on this connection.
    ///
    /// # Errors
    /// `Unreachable`, with the server's message and what to check.
    pub(super) async fn log_in(&self, connection: &mut Connection, within: Duration) -> Result<(), StoreError> {
        match self.mechanism {
            Mechanism::Scram => self.scram(connection, within).await,
            Mechanism::X509 => {
                let command = |out: &mut Vec<u8>| {
                    bson::int32(out, "authenticate", 1);
                    bson::text(out, "mechanism", "MONGODB-X509");
                };
                self.ask(connection, within, command).await.map(drop)
            }
        }
    }

    async fn ask<'c>(
        &self,
        connection: &'c mut Connection,
        within: Duration,
        command: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Members<'c>, StoreError> {
        let mut message = wire::message(&self.source, command);
        let host = connection.host().clone();
        let reply = connection.call(&mut message, within).await.map_err(|broken| {
            StoreError::Unreachable(format!(
                "the connection to {host} failed while `{}` was logging in: {broken}",
                self.user
            ))
        })?;
        let reply = Members::of(reply).map_err(|_| self.odd(&host))?;
        if !reply.get("ok").is_some_and(|ok| ok.is_true()) {
            let said = reply.get("errmsg").and_then(|text| text.as_str()).unwrap_or("no reason given");
            return Err(StoreError::Unreachable(format!(
                "{host} rejected the login of `{}`: {}; check the user and the password, and that `{}` is the \
                 database that authenticates the user (authSource=)",
                self.user,
                self.without_password(said),
                self.source
            )));
        }
        Ok(reply)
    }

    /// The server's message, with the password masked in case the server repeats it.
    fn without_password(&self, said: &str) -> String {
        let password = self.password.expose();
        if password.is_empty() { said.to_owned() } else { said.replace(password, "***") }
    }

    fn odd(&self, host: &Host) -> StoreError {
        StoreError::Unreachable(format!(
            "{host} answered the login of `{}` with something other than SCRAM-SHA-256; if this server has \
             no users, leave the user out of the URL",
            self.user
        ))
    }

    async fn scram(&self, connection: &mut Connection, within: Duration) -> Result<(), StoreError> {
        let host = connection.host().clone();
        let mut random = [0; 24];
        rustls::crypto::aws_lc_rs::default_provider()
            .secure_random
            .fill(&mut random)
            .map_err(|_| StoreError::Failed("the operating system returned no random numbers".into()))?;
        let nonce = STANDARD.encode(random);
        let user = self.user.replace('=', "=3D").replace(',', "=2C");
        let first = format!("n={user},r={nonce}");
        let start = |out: &mut Vec<u8>| {
            bson::int32(out, "saslStart", 1);
            bson::text(out, "mechanism", "SCRAM-SHA-256");
            bson::binary(out, "payload", [b"n,,", first.as_bytes()]);
            bson::nested(out, bson::DOCUMENT, "options", |out| bson::boolean(out, "skipEmptyExchange", true));
        };
        let reply = self.ask(connection, within, start).await?;
        let conversation = reply.get("conversationId").and_then(|v| v.as_i64()).unwrap_or(1);
        let challenge = payload(reply).ok_or_else(|| self.odd(&host))?;
        let challenge_text = std::str::from_utf8(challenge).map_err(|_| self.odd(&host))?.to_owned();
        let part = |name: &str| challenge_text.split(',').find_map(|part| part.strip_prefix(name));
        let (Some(both), Some(salt_text), Some(rounds)) = (part("r="), part("s="), part("i=")) else {
            return Err(self.odd(&host));
        };
        let salt_bytes = STANDARD.decode(salt_text).map_err(|_| self.odd(&host))?;
        let rounds =
            rounds.parse().ok().filter(|n| (4_096..=MOST_ROUNDS).contains(n)).ok_or_else(|| self.odd(&host))?;
        if !both.starts_with(&nonce) || both.len() == nonce.len() {
            return Err(self.odd(&host));
        }
        let salted = self.salted(&salt_bytes, rounds);
        let client_key = mac(&salted, &[b"Client Key"]);
        let stored_key = Sha256::digest(client_key);
        let without_proof = format!("c=biws,r={both}");
        let signed = [first.as_bytes(), b",", challenge_text.as_bytes(), b",", without_proof.as_bytes()];
        let mut proof = mac(&stored_key, &signed);
        for (a, b) in proof.iter_mut().zip(client_key) {
            *a ^= b;
        }
        let server_signature = mac(&mac(&salted, &[b"Server Key"]), &signed);
        let last = format!("{without_proof},p={}", STANDARD.encode(proof));
        let go_on = |out: &mut Vec<u8>| {
            bson::int32(out, "saslContinue", 1);
            bson::int32(out, "conversationId", i32::try_from(conversation).unwrap_or(1));
            bson::binary(out, "payload", [last.as_bytes(), b""]);
        };
        let mut reply = self.ask(connection, within, go_on).await?;
        // The server must also prove that it knows the password. Otherwise it may be an impostor.
        let expected = format!("v={}", STANDARD.encode(server_signature));
        if payload(reply) != Some(expected.as_bytes()) {
            return Err(StoreError::Unreachable(format!(
                "{host} could not prove that it knows the password of `{}`; it may not be the server it claims to be",
                self.user
            )));
        }
        if !reply.get("done").is_some_and(|done| done.is_true()) {
            let empty = |out: &mut Vec<u8>| {
                bson::int32(out, "saslContinue", 1);
                bson::int32(out, "conversationId", i32::try_from(conversation).unwrap_or(1));
                bson::binary(out, "payload", [b"", b""]);
            };
            reply = self.ask(connection, within, empty).await?;
            if !reply.get("done").is_some_and(|done| done.is_true()) {
                return Err(self.odd(&host));
            }
        }
        Ok(())
    }

    fn salted(&self, salt_bytes: &[u8], rounds: u32) -> [u8; 32] {
        let mut kept = self.salted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.as_ref()
            && kept.salt == salt_bytes
            && kept.rounds == rounds
        {
            return kept.key;
        }
        let password = self.password.expose();
        // If SASLprep (RFC 4013) rejects the password, it is used unchanged, as servers do.
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let key = salt(prepared.as_bytes(), salt_bytes, rounds);
        *kept = Some(Salted { salt: salt_bytes.to_vec(), rounds, key });
        key
    }
}

fn payload(reply: Members<'_>) -> Option<&[u8]> {
    reply.get("payload")?.as_binary()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn keys_are_those_of_the_rfc() {
        let salted = salt(b"pencil", &STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap(), 4_096);
        let signed = [&b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
               s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"[..]];
        let client_key = mac(&salted, &[b"Client Key"]);
        let mut proof = mac(&Sha256::digest(client_key), &signed);
        proof.iter_mut().zip(client_key).for_each(|(a, b)| *a ^= b);
        assert_eq!(STANDARD.encode(proof), "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let signature = mac(&mac(&salted, &[b"Server Key"]), &signed);
        assert_eq!(STANDARD.encode(signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }
}
