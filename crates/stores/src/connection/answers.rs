//! What every session does with its links.

use storebench_engine::store::Completions;

use super::{Link, Turn};

/// A session over one link or several, by their numbers.
pub(crate) trait Answers {
    /// What is awaited on a link.
    type Awaited;

    fn link(&mut self, number: usize) -> &mut Link<Self::Awaited>;

    /// Takes all answers that are whole.
    ///
    /// # Errors
    /// Why the connection is of no use any more, such as an answer that makes no sense.
    fn take(&mut self, number: usize, out: &mut dyn Completions) -> Result<(), String>;

    /// Ends what was in flight on a link that was lost.
    fn lose(&mut self, number: usize, why: &str, out: &mut dyn Completions);

    /// A link is connected again.
    fn connected(&mut self, _number: usize) {}

    /// Moves a link on until it gives nothing more.
    fn advance(&mut self, number: usize, out: &mut dyn Completions) {
        loop {
            match self.link(number).turn() {
                Turn::Nothing => return,
                Turn::Connected => self.connected(number),
                Turn::Input => {
                    if let Err(why) = self.take(number, out) {
                        self.link(number).give_up();
                        self.lose(number, &why, out);
                    }
                }
                Turn::Lost(why) => self.lose(number, &why, out),
            }
        }
    }

    /// Whether a link can be sent to; one that is down is looked after on the way.
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
