//! What all sessions do with their links.

use storebench_engine::store::Completions;

use super::{Link, Turn};

/// The most reads from one connection in one turn of its worker. Each is of up to 256 KiB.
pub(crate) const READS_PER_TURN: usize = 32;

/// A session over one or more links, addressed by number.
pub(crate) trait Answers {
    /// The type of an awaited answer.
    type Awaited;

    fn link(&mut self, number: usize) -> &mut Link<Self::Awaited>;

    /// Processes all complete answers.
    ///
    /// # Errors
    /// Why the connection can no longer be used, such as an invalid answer.
    fn take(&mut self, number: usize, out: &mut dyn Completions) -> Result<(), String>;

    /// Fails the operations in flight on a lost link.
    fn lose(&mut self, number: usize, why: &str, out: &mut dyn Completions);

    /// Called when a link has reconnected.
    fn connected(&mut self, _number: usize) {}

    /// Drives a link until it makes no more progress, or has read so much that others must have their turn.
    fn advance(&mut self, number: usize, out: &mut dyn Completions) {
        for _ in 0..READS_PER_TURN {
            match self.link(number).turn() {
                Turn::Nothing => return,
                Turn::Connected => self.connected(number),
                Turn::Input => {
                    out.arrived();
                    if let Err(why) = self.take(number, out) {
                        self.link(number).give_up();
                        self.lose(number, &why, out);
                    }
                }
                Turn::Lost(why) => {
                    out.arrived();
                    self.lose(number, &why, out);
                }
            }
        }
        self.link(number).wake();
    }

    /// Whether requests can be sent on a link. If the link is down, this also drives its reconnection.
    #[inline]
    fn is_ready(&mut self, number: usize, out: &mut dyn Completions) -> bool {
        let link = self.link(number);
        if link.is_up() {
            return true;
        }
        if link.was_woken() {
            self.advance(number, out);
        }
        self.link(number).is_up()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use storebench_engine::store::{OpError, Reply, Token};

    use super::super::link::tests::{pair, runtime};
    use super::*;

    /// Each byte answers a request.
    struct Bytes(Link<u32>);

    impl Answers for Bytes {
        type Awaited = u32;

        fn link(&mut self, _: usize) -> &mut Link<u32> {
            &mut self.0
        }

        fn take(&mut self, _: usize, out: &mut dyn Completions) -> Result<(), String> {
            while !self.0.pipe.input().is_empty() {
                self.0.pipe.consume(1);
                let what = self.0.pipe.pop().ok_or("nothing was asked")?;
                out.complete(Token(what.into()), Ok(Reply::written(1)));
            }
            Ok(())
        }

        fn lose(&mut self, _: usize, _: &str, out: &mut dyn Completions) {
            for (what, _) in self.0.pipe.lose() {
                out.complete(Token(what.into()), Err(OpError::not_found()));
            }
        }
    }

    /// What was said, in order.
    #[derive(Default)]
    struct Said(Vec<String>);

    impl Completions for Said {
        fn complete(&mut self, token: Token, result: Result<Reply<'_>, OpError>) {
            self.0.push(format!("{} {}", token.0, if result.is_ok() { "done" } else { "lost" }));
        }

        fn arrived(&mut self) {
            self.0.push("read".to_owned());
        }
    }

    /// An operation gets the time of the read that completed it, so that time is taken before the answers are passed on.
    /// The same holds for the operations that end with a lost connection.
    #[test]
    fn each_read_is_told_before_its_answers() {
        runtime().block_on(async {
            let (link, there) = pair(Duration::from_secs(9)).await;
            let (mut session, mut said) = (Bytes(link), Said::default());
            let mut until = async |session: &mut Bytes, last: &str| {
                while said.0.last().is_none_or(|said| said != last) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    session.advance(0, &mut said);
                }
                std::mem::take(&mut said.0)
            };
            for what in 1..=4 {
                session.0.pipe.request(what, true).extend_from_slice(b"?");
            }
            session.0.flush();
            there.try_write(b"!!").unwrap();
            assert_eq!(until(&mut session, "2 done").await, ["read", "1 done", "2 done"]);
            there.try_write(b"!").unwrap();
            assert_eq!(until(&mut session, "3 done").await, ["read", "3 done"]);
            drop(there);
            assert_eq!(until(&mut session, "4 lost").await, ["read", "4 lost"]);
        });
    }
}
