//! Corrupts answers, determined by a seed.

/// How answers are corrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garbage {
    /// Random bytes replace each answer.
    Noise,
    /// One to four random bytes of each answer are changed.
    Flipped,
    /// Each answer is truncated, so that the next one starts in the middle of it.
    Cut,
    /// Lengths and status in the header are random. The body is unchanged.
    Header,
    /// The framing is valid. The contents are random.
    Body,
}

impl Garbage {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Noise, Self::Flipped, Self::Cut, Self::Header, Self::Body];

    /// Corrupts one packet. Keeps the announced length below 1 MiB, so that no client waits for gigabytes.
    pub(super) fn spoil(self, random: &mut Random, packet: &mut Vec<u8>) {
        match self {
            Self::Noise => packet.iter_mut().for_each(|byte| *byte = random.next() as u8),
            Self::Flipped => {
                for _ in 0..=random.below(3) {
                    let at = random.below(packet.len());
                    packet[at] ^= 1 << random.below(8);
                }
            }
            Self::Cut => {
                let to = 1 + random.below(packet.len());
                packet.truncate(to);
            }
            Self::Header => {
                for at in 2..10.min(packet.len()) {
                    packet[at] = random.next() as u8;
                }
            }
            Self::Body => packet.iter_mut().skip(super::packet::HEADER_BYTES).for_each(|b| *b = random.next() as u8),
        }
        // The two upper bytes of the body's length.
        for byte in packet.iter_mut().skip(8).take(1) {
            *byte = 0;
        }
        if let Some(byte) = packet.get_mut(9) {
            *byte &= 0x0f;
        }
    }

    /// Corrupts the body of an HTTP answer. Its length header stays correct.
    pub(super) fn spoil_body(self, random: &mut Random, body: &mut Vec<u8>) {
        match self {
            Self::Cut | Self::Header => body.truncate(random.below(body.len() + 1)),
            Self::Flipped if !body.is_empty() => {
                let at = random.below(body.len());
                body[at] ^= 1 << random.below(8);
            }
            _ => body.iter_mut().for_each(|byte| *byte = random.next() as u8),
        }
    }
}

/// xorshift64*. The same seed gives the same garbage.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 24
    }

    /// A random number less than `bound`; 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { self.next() as usize % bound }
    }
}
