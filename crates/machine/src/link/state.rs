//! The faults of a link.

use std::num::NonZeroU64;
use std::time::Duration;

/// The faults of one direction of a link. The default has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OneWay {
    /// How much later bytes arrive than they were sent. A round trip takes the sum of both directions longer.
    pub latency: Duration,
    /// How far the delay may deviate from `latency`, up or down, uniformly distributed. It is never negative. Bytes
    /// keep their order: those that would overtake arrive together with the bytes before them.
    pub jitter: Duration,
    /// Bytes per second for all connections together, after a burst of 20 ms.
    pub bandwidth: Option<NonZeroU64>,
    /// Data and connection ends sent in this direction are lost, as if a middlebox had forgotten the connection. This
    /// affects every connection that is open at any time while it is set, even afterwards. The sender is not notified.
    /// A connection opened meanwhile never reaches the server.
    pub half_open: bool,
}

/// The faults of a link. The default has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkState {
    /// From the client to the server.
    pub to_server: OneWay,
    /// From the server to the client.
    pub to_client: OneWay,
    /// Nothing is forwarded. Data waits and arrives when the stall ends. New connections are accepted, and reach the
    /// server when it ends.
    pub stall: bool,
    /// New connections are refused, as if nothing listened.
    pub refuse: bool,
    /// The seed for jitter.
    pub seed: u64,
}

impl LinkState {
    /// Adds this much to a round trip, half of it in each direction.
    pub fn round_trip(latency: Duration) -> Self {
        let to_server = latency / 2;
        Self {
            to_server: OneWay { latency: to_server, ..OneWay::default() },
            // Keeps the sum exact for odd values.
            to_client: OneWay { latency: latency - to_server, ..OneWay::default() },
            ..Self::default()
        }
    }

    pub(super) fn way(&self, way: usize) -> &OneWay {
        if way == TO_SERVER { &self.to_server } else { &self.to_client }
    }
}

pub(super) const TO_SERVER: usize = 0;
pub(super) const TO_CLIENT: usize = 1;

impl OneWay {
    /// Whether bytes are forwarded at once.
    pub(super) fn is_plain(&self) -> bool {
        self.latency.is_zero() && self.jitter.is_zero() && self.bandwidth.is_none()
    }

    /// The latency of the next bytes, in ns.
    pub(super) fn draw_ns(&self, random: &mut fastrand::Rng) -> u64 {
        let (latency, jitter) = (ns(self.latency), ns(self.jitter));
        (latency + random.u64(..=2 * jitter)).saturating_sub(jitter)
    }
}

/// A duration in ns, capped at 100 years, so that the sum of a few fits into 64 bits.
pub(super) fn ns(duration: Duration) -> u64 {
    const CENTURY: u64 = 100 * 365 * 86_400 * 1_000_000_000;
    u64::try_from(duration.as_nanos()).unwrap_or(CENTURY).min(CENTURY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_around_the_latency_and_the_same_for_the_same_seed() {
        let way =
            OneWay { latency: Duration::from_nanos(1_000), jitter: Duration::from_nanos(400), ..OneWay::default() };
        let draw = |seed: u64| {
            let mut random = fastrand::Rng::with_seed(seed);
            (0..10_000).map(|_| way.draw_ns(&mut random)).collect::<Vec<_>>()
        };
        let drawn = draw(7);
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&600), Some(&1_400)));
        let mean = drawn.iter().sum::<u64>() / 10_000;
        assert!((990..=1_010).contains(&mean), "{mean}");
        assert_eq!(drawn, draw(7));
        assert_ne!(drawn, draw(8));
        let more = OneWay { jitter: Duration::from_nanos(5_000), ..way };
        let mut random = fastrand::Rng::with_seed(1);
        assert!((0..1_000).map(|_| more.draw_ns(&mut random)).any(|ns| ns == 0), "never less than nothing");
        let longest = OneWay { latency: Duration::MAX, jitter: Duration::MAX, ..way };
        assert!(longest.draw_ns(&mut random) > 0, "nothing overflows");
    }

    #[test]
    fn a_round_trip_is_halved() {
        let state = LinkState::round_trip(Duration::from_nanos(5));
        assert_eq!(state.to_server.latency + state.to_client.latency, Duration::from_nanos(5));
        assert!(state.to_server.latency < state.to_client.latency);
    }
}
