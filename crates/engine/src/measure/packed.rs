//! A compact, serialized form of a recorder, for storage.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

use super::recorder;
use super::tally::{Answered, TIMES, Tally, histogram};
use crate::store::SessionCounters;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Packed {
    counts: Vec<u64>,
    answered_at: Answered,
    times: [Times; TIMES],
}

/// A histogram in the format V2 of HdrHistogram; nothing if it is empty. In files it is base64.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Times(#[serde(with = "base64_text")] Vec<u8>);

/// A packed [`Recorder`](super::Recorder).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Recorder {
    ops: Vec<Packed>,
    send_delay: Times,
    cpu_ns: u64,
    spin_ns: u64,
    run_queue_ns: u64,
    connections: SessionCounters,
}

fn pack_times(times: &Histogram<u64>) -> Times {
    let mut bytes = Vec::new();
    if !times.is_empty() {
        V2Serializer::new().serialize(times, &mut bytes).expect("a Vec takes every byte");
        bytes.shrink_to_fit();
    }
    Times(bytes)
}

fn unpack_times(Times(bytes): &Times) -> Histogram<u64> {
    let mut times = histogram();
    if !bytes.is_empty() {
        let packed: Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes[..]).expect("`base64_text` lets only histograms through");
        super::tally::merge(&mut times, &packed);
    }
    times
}

pub(super) fn pack(record: &recorder::Recorder) -> Recorder {
    Recorder {
        ops: record
            .ops
            .iter()
            .map(|tally| Packed {
                counts: tally.counts().collect(),
                answered_at: tally.answered_at,
                times: tally.times().map(pack_times),
            })
            .collect(),
        send_delay: pack_times(&record.send_delay),
        cpu_ns: record.cpu_ns,
        spin_ns: record.spin_ns,
        run_queue_ns: record.run_queue_ns,
        connections: record.connections,
    }
}

pub(super) fn unpack(packed: &Recorder) -> recorder::Recorder {
    let ops = packed
        .ops
        .iter()
        .map(|op| {
            let mut tally = Tally { answered_at: op.answered_at, ..Tally::default() };
            for (count, kept) in tally.counts_mut().zip(&op.counts) {
                *count = *kept;
            }
            for (times, kept) in tally.times_mut().into_iter().zip(&op.times) {
                *times = unpack_times(kept);
            }
            tally
        })
        .collect();
    recorder::Recorder {
        ops,
        send_delay: unpack_times(&packed.send_delay),
        cpu_ns: packed.cpu_ns,
        spin_ns: packed.spin_ns,
        run_queue_ns: packed.run_queue_ns,
        connections: packed.connections,
    }
}

/// Bytes of a histogram as base64. Damaged ones are refused, so that they cannot fail later.
mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer as OfHistograms;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD_NO_PAD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let bytes = STANDARD_NO_PAD.decode(String::deserialize(from)?).map_err(de::Error::custom)?;
        if !bytes.is_empty() {
            let read: Result<Histogram<u64>, _> = OfHistograms::new().deserialize(&mut &bytes[..]);
            read.map_err(|e| de::Error::custom(format!("damaged histogram: {e}")))?;
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_in_packing() {
        let mut record = recorder::Recorder::new(2);
        record.ops[1].succeeded = 7;
        record.ops[1].failed[5] = 3;
        record.ops[1].wrong = 9;
        record.ops[1].answered_at.at(77);
        for value in [1, 1_000, 123_456_789, 7_200_000_000_000] {
            record.ops[1].response.record(value).unwrap();
            record.send_delay.record(value / 2 + 1).unwrap();
        }
        record.spin_ns = 5;
        record.connections = SessionCounters { disconnects: 2, splits: 3 };
        let back = unpack(&pack(&record));
        assert!(back.ops[1].counts().eq(record.ops[1].counts()));
        assert_eq!(back.ops[1].response, record.ops[1].response);
        assert_eq!(back.send_delay, record.send_delay);
        assert_eq!(back.ops[1].answered_at, record.ops[1].answered_at);
        assert!(back.ops[0].service.is_empty() && !back.ops[0].answered_at.ever());
        assert_eq!((back.spin_ns, back.connections), (5, record.connections));
    }
}
