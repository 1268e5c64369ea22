//! Many operations in flight, and several sessions.

use std::collections::HashMap;

use serde_json::json;

use super::Subject;
use super::client::Answers;
use super::json::same_json;
use super::suite::{Check, Stop, ensure};
use storebench_engine::store::{ErrorKind, Op, OpKind, ReadConsistency, Request, Token};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "session: 1,000 operations in flight complete once each, with their own reply",
        needs: &[OpKind::Insert, OpKind::Read],
        run: in_flight,
    },
    Check {
        name: "session: failures in flight reach their own token",
        needs: &[OpKind::Upsert, OpKind::Read],
        run: failures_in_flight,
    },
    Check {
        name: "session: an abandoned operation never completes, the others do",
        needs: &[OpKind::Upsert, OpKind::Read],
        run: abandoned,
    },
    Check { name: "session: nothing in flight when nothing was submitted", needs: &[], run: idle },
    Check {
        name: "session: a collection outside the layout is refused",
        needs: &[OpKind::Upsert, OpKind::Read],
        run: no_collection,
    },
    Check {
        name: "sessions: see each other's acknowledged writes",
        needs: &[OpKind::Upsert, OpKind::Read, OpKind::Delete],
        run: see_each_other,
    },
];

/// Tokens that are neither in order nor close to each other.
fn token(i: usize) -> Token {
    Token((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xABCD)
}

fn in_flight(s: &Subject<'_>) -> Result<(), Stop> {
    const MANY: usize = 1_000;
    let mut c = s.client()?;
    let documents: Vec<_> =
        (0..MANY).map(|i| (format!("key-{i}"), json!({"n": i, "text": "x".repeat(i % 50)}))).collect();
    let numbers: HashMap<Token, usize> = (0..MANY).map(|i| (token(i), i)).collect();
    for write in [true, false] {
        let mut answers = Answers::default();
        for (i, (key, value)) in documents.iter().enumerate() {
            let body = value.to_string();
            let op = if write { Op::Insert { key, body: body.as_bytes() } } else { Op::Read { key } };
            c.submit(&Request { collection: s.documents, op, contents: true }, token(i), &mut answers);
        }
        c.finish(MANY, &mut answers)?;
        ensure!(c.idle(&mut answers), "all {MANY} operations completed, yet the session says some are in flight");
        let mut seen = vec![0; MANY];
        for (token, answer) in &answers.0 {
            let Some(&i) = numbers.get(token) else {
                return Err(Stop::failed(format!("{token:?} was completed but never submitted")));
            };
            seen[i] += 1;
            let reply = answer.as_ref().map_err(|e| Stop::failed(format!("operation {i} of {MANY}: {e}")))?.as_reply();
            if !write {
                let body = reply.body.ok_or_else(|| Stop::failed("contents were wanted but no body came"))?;
                same_json(&documents[i].1, body).map_err(|text| {
                    Stop::failed(format!("the read of `{}` got another reply: {text}", documents[i].0))
                })?;
            }
        }
        let wrong = seen.iter().position(|times| *times != 1);
        ensure!(wrong.is_none(), "operation {wrong:?} did not complete exactly once");
    }
    Ok(())
}

fn failures_in_flight(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    for i in (0..100).step_by(2) {
        c.wrote(s.documents, Op::Upsert { key: &format!("k{i}"), body: b"{}" })?;
    }
    c.holds(s.documents, "k98", &json!({}))?;
    let mut answers = Answers::default();
    for i in 0..100 {
        let key = format!("k{i}");
        let request = Request { collection: s.documents, op: Op::Read { key: &key }, contents: true };
        c.submit(&request, Token(i), &mut answers);
    }
    c.finish(100, &mut answers)?;
    for (token, answer) in answers.0 {
        let expected = token.0 % 2 == 0;
        let got = match &answer {
            Ok(_) => true,
            Err(error) if error.kind == ErrorKind::NotFound => false,
            Err(error) => return Err(Stop::failed(format!("read of k{}: {error}", token.0))),
        };
        ensure!(got == expected, "only even keys exist; the read of k{} ended as {answer:?}", token.0);
    }
    Ok(())
}

fn abandoned(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    c.wrote(s.documents, Op::Upsert { key: "a", body: b"{}" })?;
    let mut answers = Answers::default();
    let request = Request { collection: s.documents, op: Op::Read { key: "a" }, contents: true };
    for i in 0..100 {
        c.submit(&request, Token(i), &mut answers);
    }
    // A store that completes within `submit` has nothing left to abandon.
    let early: Vec<Token> = answers.0.iter().map(|(token, _)| *token).collect();
    let given_up: Vec<Token> = (1..100).step_by(2).map(Token).filter(|token| !early.contains(token)).collect();
    for token in &given_up {
        c.abandon(*token);
    }
    c.finish(100 - given_up.len(), &mut answers)?;
    // Later work shows that the session neither confuses it with abandoned operations, nor answers those.
    for i in 100..200 {
        c.submit(&request, Token(i), &mut answers);
    }
    c.finish(200 - given_up.len(), &mut answers)?;
    ensure!(c.idle(&mut answers), "everything has completed or was abandoned, yet the session says some is in flight");
    let ghost = answers.0.iter().find(|(token, _)| given_up.contains(token));
    ensure!(ghost.is_none(), "abandoned, and completed nevertheless: {ghost:?}");
    let mut tokens: Vec<u64> = answers.0.iter().map(|(token, _)| token.0).collect();
    tokens.sort_unstable();
    tokens.dedup();
    ensure!(tokens.len() == answers.0.len(), "an operation completed twice");
    // A token may be used again.
    if let Some(token) = given_up.first() {
        let mut answers = Answers::default();
        c.submit(&request, *token, &mut answers);
        c.finish(1, &mut answers)?;
    }
    Ok(())
}

fn idle(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let mut answers = Answers::default();
    ensure!(c.idle(&mut answers), "nothing was submitted, yet the session says something is in flight");
    // The loop polls at every wake, even while nothing is in flight. A session that wakes itself would be polled
    // endlessly.
    ensure!(c.comes_to_rest(&mut answers), "nothing was submitted, yet each poll asks for another one at once");
    ensure!(answers.0.is_empty(), "nothing was submitted, yet something completed");
    Ok(())
}

fn no_collection(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let outside = storebench_engine::store::CollectionId(500);
    c.fails(ErrorKind::Refused, outside, Op::Upsert { key: "a", body: b"{}" })?;
    c.fails(ErrorKind::Refused, outside, Op::Read { key: "a" })
}

fn see_each_other(s: &Subject<'_>) -> Result<(), Stop> {
    if s.consistency != ReadConsistency::Strong {
        return Err(Stop::NotSupported("strong reads".into()));
    }
    let (mut a, mut b) = (s.client()?, s.client()?);
    for i in 0..100 {
        let value = json!({ "n": i, "user": format!("u{i}") });
        a.wrote(s.indexed, Op::Upsert { key: "shared", body: value.to_string().as_bytes() })?;
        b.holds(s.indexed, "shared", &value)?;
        if s.can(OpKind::Page) && s.capabilities.indexes {
            let reply = b.ok(s.indexed, Op::Page { field: "n", value: &i.to_string(), limit: 2 })?;
            let documents = reply.as_reply().documents;
            ensure!(
                documents == 1,
                "write {i} was acknowledged to another session; a page finds {documents} documents"
            );
        }
        b.wrote(s.indexed, Op::Delete { key: "shared" })?;
        a.lacks(s.indexed, "shared")?;
    }
    Ok(())
}
