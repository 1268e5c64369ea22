//! Transactions of a study: MULTI, the commands of the steps, and EXEC, in one write.

use storebench_engine::store::{Completions, ErrorKind, OpError, OpKind, Reply, Step, StepsFound, Token};

use super::answers::effect;
use super::errors::op_error;
use super::request::{self, Expect};
use super::resp::{Garbage, Item, Value, command, word};
use super::session::{Awaited, RedisSession, own, rows};
use crate::connection::{Answers as _, NONE, Role};
use crate::document;

/// What a step can do. Redis does not undo commands, so a step must not depend on a condition.
pub(super) const STEPS: &[OpKind] = &[OpKind::Read, OpKind::Upsert, OpKind::Replace, OpKind::Delete];

/// A step of a transaction in flight: what it does, and the answer that it expects.
pub(super) type Sent = (OpKind, Expect);

impl RedisSession {
    pub(super) fn begin_transaction(
        &mut self,
        steps: &[Step],
        rolls_back: bool,
        contents: bool,
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
            let request = step.request(contents)?;
            let kind = request.op.kind();
            if !STEPS.contains(&kind) {
                return Err(OpError::unsupported());
            }
            let collection = document::collection_of(&request, &self.collections, self.read_only)?;
            let names = &self.dialect.names;
            let largest_bytes = self.dialect.largest_bytes;
            let begun = commands.len();
            let expect = request::single(&request.op, collection, names, largest_bytes, &mut commands)?;
            sent.push((kind, expect, commands.len() - begun));
        }
        let pipe = &mut self.links[0].pipe;
        let multi = pipe.request(own(Expect::Ignored), false);
        command(multi, 1);
        word(multi, b"MULTI");
        let mut rest = commands.as_slice();
        for (_, _, length) in &sent {
            let (text, after) = rest.split_at(*length);
            pipe.request(own(Expect::Ignored), false).extend_from_slice(text);
            rest = after;
        }
        let awaited = Awaited { role: Role::Whole, ..rows(NONE, token, OpKind::Transaction, contents, Expect::Steps) };
        let exec = pipe.request(awaited, true);
        command(exec, 1);
        word(exec, b"EXEC");
        self.dialect.transactions.push_back(sent.into_iter().map(|(kind, expect, _)| (kind, expect)).collect());
        self.in_flight += 1;
        Ok(())
    }

    /// Completes the transaction whose EXEC was answered.
    pub(super) fn executed(
        &mut self,
        awaited: &Awaited,
        answer: &Value,
        out: &mut dyn Completions,
    ) -> Result<(), Garbage> {
        let steps = self.dialect.transactions.pop_front().unwrap_or_default();
        let mut found = std::mem::take(&mut self.dialect.found);
        found.begin(awaited.contents);
        let done = results(&steps, answer, &mut found)?;
        if !awaited.abandoned {
            self.in_flight -= 1;
            out.complete(awaited.token, done.map(|()| found.reply(false)));
        }
        self.dialect.found = found;
        Ok(())
    }
}

/// What each step has found.
fn results(steps: &[Sent], answer: &Value, found: &mut StepsFound) -> Result<Result<(), OpError>, Garbage> {
    let answers = match answer {
        Value::Error(line) => return Ok(Err(op_error(line.as_bytes()))),
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
            (Expect::Value, Item::Bulk(body)) => {
                Ok(Reply { bytes: body.len() as u64, body: Some(body), ..Reply::written(1) })
            }
            (Expect::Value, Item::Nil) => Err(OpError::not_found()),
            (Expect::Value, Item::Error(line)) => Err(op_error(line)),
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

    #[test]
    fn a_command_that_fails_leaves_the_others_done() {
        let steps = [(OpKind::Read, Expect::Value), (OpKind::Upsert, Expect::Stored), (OpKind::Delete, Expect::Hit)];
        let mut found = StepsFound::default();
        let answer = |last| Value::Array(vec![Value::Bulk(b"{}".to_vec()), Value::Simple("OK".into()), last]);
        found.begin(true);
        results(&steps, &answer(Value::Integer(0)), &mut found).unwrap().unwrap();
        assert_eq!(found.reply(false).steps, [1, 1, 0]);
        found.begin(true);
        let error = results(&steps, &answer(Value::Error("WRONGTYPE x".into())), &mut found).unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutcomeUnknown);
        let discarded = Value::Error("EXECABORT Transaction discarded because of previous errors.".into());
        assert_ne!(results(&steps, &discarded, &mut found).unwrap().unwrap_err().kind, ErrorKind::OutcomeUnknown);
        assert!(
            results(&steps, &Value::Nil, &mut found).is_err()
                && results(&steps, &answer(Value::Nil), &mut found).is_err()
        );
    }
}
