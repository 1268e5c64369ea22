//! Which indexes a batch holds already.

use storebench_study::mix64;

/// A set of key indexes that is emptied and filled again for every batch: open addressing in one table, whose memory is
/// kept and grows with the largest batch, whatever the number of keys.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Indexes plus one; 0 is free. At least twice as many places as indexes; a power of two.
    table: Vec<u64>,
}

impl Seen {
    /// Empties it, and makes room for so many indexes.
    pub fn clear(&mut self, room: usize) {
        let places = (room.max(1) * 2).next_power_of_two();
        self.table.clear();
        self.table.resize(places, 0);
    }

    /// Adds an index below 2^53; false where it was there already. No more than there is room for may be added.
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
