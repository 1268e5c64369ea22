//! Transactions of a study: MULTI, the commands of the steps, and EXEC, in one write.

use storebench_engine::store::{Completions, ErrorKind, OpError, OpKind, Reply, Request, Step, StepsFound, Token};

use super::answers::{document, effect};
use super::errors::op_error;
use super::request::{self, Expect};
use super::resp::{Garbage, Item, Value, full_command};
use super::session::{Awaited, Redis, RedisSession};
use crate::connection::Answers as _;
use crate::document::collection_of;

/// What a step can do. Redis does not undo commands, so a step must not depend on a condition.
pub(super) const STEPS: &[OpKind] = &[OpKind::Read, OpKind::Upsert, OpKind::Replace, OpKind::Delete];

/// A step of a transaction in flight: what it does, and the answer that it expects.
pub(super) type Sent = (OpKind, Expect);

/// A transaction in flight.
#[derive(Debug, Default)]
pub(super) struct Begun {
    steps: Vec<Sent>,
    /// Why the server refused MULTI or a command: the first reason.
    refused: Option<OpError>,
    /// Whether it refused MULTI, so that the commands ran alone.
    alone: bool,
}

impl Redis {
    /// The server has refused MULTI, or a command, of the oldest transaction in flight.
    pub(super) fn refuse_transaction(&mut self, alone: bool, error: OpError) {
        if let Some(begun) = self.transactions.front_mut() {
            begun.alone |= alone;
            begun.refused.get_or_insert(error);
        }
    }
}

impl RedisSession {
    pub(super) fn begin_transaction(
        &mut self,
        request: &Request<'_>,
        steps: &[Step],
        rolls_back: bool,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let refused = |why: &'static str| Err(OpError::new(ErrorKind::Refused, why));
        if rolls_back {
            return refused("Redis does not undo commands; use transactions that are not rolled back");
        }
        if self.dialect.acknowledge.is_some() {
            return refused("a transaction does not wait for replicas; use another durability");
        }
        if !self.is_ready(0, out) {
            return Err(self.links[0].not_connected());
        }
        let mut commands = Vec::new();
        let mut sent = Vec::with_capacity(steps.len());
        for step in steps {
            let step = step.request(request.contents)?;
            let kind = step.op.kind();
            if !STEPS.contains(&kind) {
                return Err(OpError::unsupported());
            }
            let collection = collection_of(&step, &self.collections, self.read_only)?;
            let names = &self.dialect.names;
            let largest_bytes = self.dialect.largest_bytes;
            let begun = commands.len();
            let expect = request::single(&step.op, collection, names, largest_bytes, &mut commands)?;
            sent.push((kind, expect, commands.len() - begun));
        }
        let pipe = &mut self.links[0].pipe;
        full_command(pipe.request(Awaited::own(Expect::Begun), false), &[b"MULTI"]);
        let mut rest = commands.as_slice();
        for (_, _, length) in &sent {
            let (text, after) = rest.split_at(*length);
            pipe.request(Awaited::own(Expect::Queued), false).extend_from_slice(text);
            rest = after;
        }
        let exec = Awaited { expect: Expect::Steps, ..Self::awaited(request, token) };
        full_command(pipe.request(exec, true), &[b"EXEC"]);
        let steps = sent.into_iter().map(|(kind, expect, _)| (kind, expect)).collect();
        self.dialect.transactions.push_back(Begun { steps, ..Begun::default() });
        self.in_flight += 1;
        Ok(())
    }

    /// Completes the transaction whose EXEC was answered.
    pub(super) fn executed(
        &mut self,
        link: usize,
        awaited: &Awaited,
        answer: &Value,
        out: &mut dyn Completions,
    ) -> Result<(), Garbage> {
        let begun = self.dialect.transactions.pop_front().unwrap_or_default();
        let mut found = std::mem::take(&mut self.dialect.found);
        found.begin(awaited.contents);
        let done = results(&begun, answer, &mut found)?;
        let lacks_script = |answer: &Value| matches!(answer, Value::Error(line) if line.starts_with("NOSCRIPT"));
        if matches!(answer, Value::Array(answers) if answers.iter().any(lacks_script)) {
            self.load_scripts(link);
        }
        awaited.complete(done.map(|()| found.reply(false)), &mut self.works, &mut self.in_flight, out);
        self.dialect.found = found;
        Ok(())
    }
}

/// What each step has found.
fn results(begun: &Begun, answer: &Value, found: &mut StepsFound) -> Result<Result<(), OpError>, Garbage> {
    let Begun { steps, refused, alone } = begun;
    if let Some(error) = refused.as_ref().filter(|_| *alone) {
        let why = format!("the server refused MULTI, so each command ran alone: {}", error.message);
        return Ok(Err(OpError::new(ErrorKind::OutcomeUnknown, why)));
    }
    let answers = match answer {
        // EXEC only says that a command was refused; the command's answer said why.
        Value::Error(line) => return Ok(Err(refused.clone().unwrap_or_else(|| op_error(line.as_bytes())))),
        Value::Array(answers) if answers.len() == steps.len() => answers,
        other => return Err(Garbage(format!("{other:?}").chars().take(60).collect())),
    };
    let mut failed = None;
    for ((kind, expect), answer) in steps.iter().zip(answers) {
        let item = match answer {
            Value::Simple(text) => Item::Simple(text.as_bytes()),
            Value::Error(line) => Item::Error(line.as_bytes()),
            Value::Integer(number) => Item::Integer(*number),
            Value::Bulk(bytes) => Item::Bulk(bytes),
            Value::Nil => Item::Nil,
            Value::Array(all) => Item::Array(all.len()),
        };
        let result = match (expect, item) {
            (Expect::Value, item) => {
                document(item)?.map(|body| Reply { bytes: body.len() as u64, body: Some(body), ..Reply::written(1) })
            }
            (expect, item) => effect(*expect, item)?.map(|_| Reply::written(1)),
        };
        if let Err(error) = found.add(*kind, result) {
            failed.get_or_insert(error);
        }
    }
    // Redis has done the other commands.
    Ok(match failed {
        None => Ok(()),
        Some(error) => Err(OpError::new(
            ErrorKind::OutcomeUnknown,
            format!("a command of the transaction failed, and Redis does not undo the others: {}", error.message),
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Begun {
        let steps =
            vec![(OpKind::Read, Expect::Value), (OpKind::Upsert, Expect::Stored), (OpKind::Delete, Expect::Hit)];
        Begun { steps, ..Begun::default() }
    }

    #[test]
    fn a_command_that_fails_leaves_the_others_done() {
        let mut found = StepsFound::default();
        let answer = |last| Value::Array(vec![Value::Bulk(b"{}".to_vec()), Value::Simple("OK".into()), last]);
        found.begin(true);
        results(&begun(), &answer(Value::Integer(0)), &mut found).unwrap().unwrap();
        assert_eq!(found.reply(false).steps, [1, 1, 0]);
        found.begin(true);
        let error = results(&begun(), &answer(Value::Error("WRONGTYPE x".into())), &mut found).unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutcomeUnknown);
        assert!(results(&begun(), &Value::Nil, &mut found).is_err());
        assert!(results(&begun(), &answer(Value::Nil), &mut found).is_err());
    }

    #[test]
    fn why_the_server_refused_a_transaction_is_what_it_said_to_the_command() {
        let mut found = StepsFound::default();
        let discarded = Value::Error("EXECABORT Transaction discarded because of previous errors.".into());
        let oom = op_error(b"OOM command not allowed when used memory > 'maxmemory'.");
        let refused = Begun { refused: Some(oom.clone()), ..begun() };
        assert_eq!(results(&refused, &discarded, &mut found).unwrap(), Err(oom.clone()));
        assert_ne!(oom.kind, ErrorKind::OutcomeUnknown);
        let alone = Begun { alone: true, ..refused };
        let without = Value::Error("ERR EXEC without MULTI".into());
        assert_eq!(results(&alone, &without, &mut found).unwrap().unwrap_err().kind, ErrorKind::OutcomeUnknown);
    }
}
