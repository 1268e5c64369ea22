//! Transactions of a study: their steps between BEGIN and COMMIT.

use std::sync::Arc;

use storebench_engine::store::{Completions, OpError, OpKind, Reply, Request, Step, Token};

use super::session::{BUSY, SqliteSession};
use crate::document;

impl SqliteSession {
    /// Does the steps in one transaction. Transactions that write come one after another.
    pub(super) fn steps(
        &mut self,
        steps: &[Step],
        rolls_back: bool,
        contents: bool,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let writer = Arc::clone(&self.writer);
        let writes = steps.iter().any(Step::writes);
        let _turn = if writes { Some(writer.acquire(self.timeout).ok_or(BUSY)?) } else { None };
        let mut found = std::mem::take(&mut self.steps);
        found.begin(contents);
        let mut all = |session: &mut Self| {
            for step in steps {
                let request = step.request(contents)?;
                let kind = request.op.kind();
                let mut ended = Ok(());
                let mut add = |_: Token, result: Result<Reply<'_>, OpError>| ended = found.add(kind, result);
                if let Err(error) = session.step(&request, kind, &mut add) {
                    ended = found.add(kind, Err(error));
                }
                ended?;
            }
            Ok(())
        };
        let done = self.transaction(writes, !rolls_back, &mut all);
        self.steps = found;
        done?;
        out.complete(token, Ok(self.steps.reply(rolls_back)));
        Ok(())
    }

    /// Does one step. If it fails, it has not completed.
    fn step(&mut self, request: &Request<'_>, kind: OpKind, out: &mut dyn Completions) -> Result<(), OpError> {
        if !kind.writes() {
            return self.run(request, Token(0), out);
        }
        document::collection_of(request, &self.collections, false)?;
        let reply = self.write_now(request.collection.position(), &request.op)?;
        out.complete(Token(0), Ok(reply));
        Ok(())
    }
}
