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
        self.link(number).ring();
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
