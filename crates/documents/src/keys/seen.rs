//! Which indexes a batch already has.

use storebench_study::mix64;

/// A set of key indexes that is cleared and refilled for every batch. It uses open addressing in one table, whose
/// memory is reused. The table grows with the largest batch, not with the number of keys.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Indexes plus one; 0 is a free place. There are at least twice as many places as indexes, a power of two.
    table: Vec<u64>,
}

impl Seen {
    /// Clears the set and makes room for this many indexes.
    pub fn clear(&mut self, room: usize) {
        let places = (room.max(1) * 2).next_power_of_two();
        self.table.clear();
        self.table.resize(places, 0);
    }

    /// Adds an index below 2^53. Returns false if the set already has it. Callers must not add more indexes than there
    /// is room for.
    #[inline]
    pub fn insert(&mut self, index: u64) -> bool {
        let mask = self.table.len() - 1;
        let mut at = mix64(0, index) as usize & mask;
        loop {
            match self.table[at] {
                0 => {
                    self.table[at] = index + 1;
                    return true;
                }
                found if found == index + 1 => return false,
                _ => at = (at + 1) & mask,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_index_is_new_once_until_it_is_emptied() {
        let mut seen = Seen::default();
        for room in [1, 7, 1_000, 3] {
            seen.clear(room);
            for index in 0..room as u64 {
                assert!(seen.insert(index * 1_024) && !seen.insert(index * 1_024) && !seen.insert(0));
            }
        }
    }
}
