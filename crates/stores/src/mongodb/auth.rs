//! Authentication: SCRAM-SHA-256 ([RFC 7677](https://www.rfc-editor.org/rfc/rfc7677)) and X.509.

use std::time::Duration;

use ::bson::spec::BinarySubtype;
use ::bson::{Binary, Document, doc};
use storebench_engine::store::StoreError;

use super::bson::Members;
use super::wire::{self, Connection};
use crate::net::scram::{Salt, Scram};
use crate::net::{Host, Secret};

/// RFC 7677 requires at least this many iterations.
const LEAST_ROUNDS: u32 = 4_096;

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
    pub(super) salted: Salt,
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
                let command = doc! { "authenticate": 1, "mechanism": "MONGODB-X509" };
                self.ask(connection, within, command).await.map(drop)
            }
        }
    }

    async fn ask<'c>(
        &self,
        connection: &'c mut Connection,
        within: Duration,
        command: Document,
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
        let scram = Scram::new(&self.user)?;
        let binary = |text: &str| Binary { subtype: BinarySubtype::Generic, bytes: text.as_bytes().to_vec() };
        let start = doc! {
            "saslStart": 1,
            "mechanism": "SCRAM-SHA-256",
            "payload": binary(&scram.first()),
            "options": { "skipEmptyExchange": true },
        };
        let reply = self.ask(connection, within, start).await?;
        let conversation = reply.get("conversationId").and_then(|v| i32::try_from(v.as_i64()?).ok()).unwrap_or(1);
        let challenge = payload(reply).ok_or_else(|| self.odd(&host))?;
        let proof =
            scram.answer(challenge, LEAST_ROUNDS, &self.password, &self.salted).ok_or_else(|| self.odd(&host))?;
        let go_on = |text: &str| doc! { "saslContinue": 1, "conversationId": conversation, "payload": binary(text) };
        let mut reply = self.ask(connection, within, go_on(&proof.last)).await?;
        // The server must also prove that it knows the password. Otherwise it may be an impostor.
        if payload(reply) != Some(proof.expected.as_bytes()) {
            return Err(StoreError::Unreachable(format!(
                "{host} could not prove that it knows the password of `{}`; it may not be the server it claims to be",
                self.user
            )));
        }
        if !reply.get("done").is_some_and(|done| done.is_true()) {
            reply = self.ask(connection, within, go_on("")).await?;
            if !reply.get("done").is_some_and(|done| done.is_true()) {
                return Err(self.odd(&host));
            }
        }
        Ok(())
    }
}

fn payload(reply: Members<'_>) -> Option<&[u8]> {
    reply.get("payload")?.as_binary()
}
