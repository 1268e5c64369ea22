//! A compact, serialized form of a recorder, for storage.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use super::recorder;
use super::tally::{Answered, COUNTS, TIMES, Tally, histogram};
use crate::store::SessionCounters;

#[derive(Debug, Clone)]
struct Packed {
    counts: [u64; COUNTS],
    answered_at: Answered,
    times: [Vec<u8>; TIMES],
}

/// A packed [`Recorder`](super::Recorder).
#[derive(Debug, Clone)]
pub(super) struct Recorder {
    ops: Vec<Packed>,
    send_delay: Vec<u8>,
    cpu_ns: u64,
    spin_ns: u64,
    run_queue_ns: u64,
    connections: SessionCounters,
}

fn pack_times(times: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !times.is_empty() {
        V2Serializer::new().serialize(times, &mut bytes).expect("a Vec takes every byte");
        bytes.shrink_to_fit();
    }
    bytes
}

fn unpack_times(bytes: &[u8]) -> Histogram<u64> {
    let mut times = histogram();
    if !bytes.is_empty() {
        let packed: Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes[..]).expect("these bytes were made by `pack_times`");
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
                counts: tally.counts(),
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
            for (count, kept) in tally.counts_mut().into_iter().zip(op.counts) {
                *count = kept;
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
        assert_eq!(back.ops[1].counts(), record.ops[1].counts());
        assert_eq!(back.ops[1].response, record.ops[1].response);
        assert_eq!(back.send_delay, record.send_delay);
        assert_eq!(back.ops[1].answered_at, record.ops[1].answered_at);
        assert!(back.ops[0].service.is_empty() && !back.ops[0].answered_at.ever());
        assert_eq!((back.spin_ns, back.connections), (5, record.connections));
    }
}
