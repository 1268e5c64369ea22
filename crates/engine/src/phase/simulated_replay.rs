//! Recorded traffic under a fake clock: the order of each client's operations, and what is late, by arithmetic.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::clock::{Clock, FakeClock};
use super::simulated::{Run, simulate_in};
use crate::store::{Completions, Op, OpKind, Reply, Request, Session, Token};

const MS: u64 = 1_000_000;

/// When each operation was sent, in ms after the start: kind and key.
type Sent = Arc<Mutex<Vec<(u64, OpKind, String)>>>;

/// A store that takes this long for each operation, whatever else is in flight.
struct Takes {
    clock: FakeClock,
    ns: u64,
    began_ns: u64,
    sent: Sent,
    flying: Vec<(u64, Token)>,
}

impl Session for Takes {
    fn submit(&mut self, request: &Request<'_>, token: Token, _: &mut dyn Completions) {
        let key = match request.op {
            Op::Read { key } | Op::Upsert { key, .. } | Op::Insert { key, .. } | Op::Delete { key } => key,
            _ => "?",
        };
        if let Op::Upsert { body, .. } = request.op
            && key == "with-body"
        {
            assert_eq!(body, b"{\"recorded\":true}");
        }
        let now = self.clock.now_ns();
        let at_ms = (now - self.began_ns) / MS;
        self.sent.lock().unwrap().push((at_ms, request.op.kind(), key.to_owned()));
        self.flying.push((now + self.ns, token));
    }

    fn poll(&mut self, _: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        let now = self.clock.now_ns();
        let (ended, flying) = std::mem::take(&mut self.flying).into_iter().partition(|(at, _)| *at <= now);
        self.flying = flying;
        let ended: Vec<(u64, Token)> = ended;
        for (_, token) in ended {
            out.complete(token, Ok(Reply::written(1)));
        }
        Poll::Pending
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.flying.iter().map(|(at, _)| *at).min()
    }
}

/// Replays lines of `milliseconds operation key client` on a store that takes `ns` for each operation.
fn replay(lines: &[&str], overrides: &[&str], ns: u64) -> (Run, Vec<(u64, OpKind, String)>) {
    let folder = tempfile::tempdir().unwrap();
    let csv: String = lines
        .iter()
        .map(|line| {
            let [at, op, key, client] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let body = if key == "with-body" { "\"{\"\"recorded\"\":true}\"" } else { "" };
            format!("{},{op},{key},{client},{body}\n", at.parse::<f64>().unwrap() / 1e3)
        })
        .collect();
    std::fs::write(folder.path().join("ops.csv"), format!("time,op,key,client,body\n{csv}")).unwrap();
    let study = "title = \"t\"\n[collections.docs]\ntrace = \"ops.csv\"\n\
                 [[phases]]\nname = \"phase\"\nworkers = 1\ntrace = \"ops.csv\"";
    let (clock, sent) = (FakeClock::new(), Sent::default());
    let began_ns = 1_000_000;
    let session = Takes { clock: clock.clone(), ns, began_ns, sent: Arc::clone(&sent), flying: Vec::new() };
    let run = simulate_in(folder.path(), &clock, study, overrides, |_, _| session);
    let sent = std::mem::take(&mut *sent.lock().unwrap());
    (run, sent)
}

fn times(sent: &[(u64, OpKind, String)]) -> Vec<(u64, &str)> {
    sent.iter().map(|(at, _, key)| (*at, key.as_str())).collect()
}

const TWO_CLIENTS: [&str; 5] = ["0 read a x", "10 upsert b x", "15 read c y", "40 insert d x", "100 delete a y"];

#[test]
fn operations_are_sent_at_their_times_and_late_ones_count_from_them() {
    // Each takes 25 ms, so b waits until a has ended, but the other client does not.
    let (run, sent) = replay(&TWO_CLIENTS, &["phases.phase.in_flight=2"], 25 * MS);
    assert_eq!(times(&sent), [(0, "a"), (15, "c"), (25, "b"), (50, "d"), (100, "a")]);
    let by_kind = |kind: OpKind| sent.iter().filter(|(_, sent, _)| *sent == kind).count();
    assert_eq!([OpKind::Read, OpKind::Upsert, OpKind::Insert, OpKind::Delete].map(by_kind), [2, 1, 1, 1]);
    // The labels are in the order of the trace's kinds: read, insert, upsert, delete.
    let ops = &run.record.ops;
    let response_ms = |at: usize| (ops[at].response.max() as f64 / 1e6).round() as u64;
    assert_eq!([0, 1, 2, 3].map(response_ms), [25, 35, 40, 25], "insert: 40 to 75; upsert: 10 to 50");
    let service_ms = |at: usize| (ops[at].service.max() as f64 / 1e6).round() as u64;
    assert_eq!([0, 1, 2, 3].map(service_ms), [25; 4]);
    assert_eq!(ops.iter().map(|op| op.succeeded).sum::<u64>(), 5);
    // The wait for the answer is not the client's delay.
    assert!(run.record.send_delay.max() <= 1_000, "{}", run.record.send_delay.max());
    assert_eq!((ops[2].client_queueing.max() as f64 / 1e6).round() as u64, 15);
}

#[test]
fn with_one_lane_all_clients_wait_for_each_other_in_the_order_of_their_times() {
    let (run, sent) = replay(&TWO_CLIENTS, &[], 25 * MS);
    assert_eq!(times(&sent), [(0, "a"), (25, "b"), (50, "c"), (75, "d"), (100, "a")]);
    assert_eq!((run.record.ops[0].response.max() as f64 / 1e6).round() as u64, 60, "c: 15 to 75");
}

/// Whichever slots there are, a client waits for a slot only if all are taken.
#[test]
fn clients_do_not_wait_for_each_other_while_a_lane_is_free() {
    let early = ["0 read a 0", "0 read a 1", "0 read a 2", "0 read a 3"];
    let later = ["100 read b 0", "105 read c 2", "140 read d 2", "145 read e 0"];
    let (run, sent) = replay(&[early, later].concat(), &["phases.phase.in_flight=2"], 25 * MS);
    assert_eq!(times(&sent)[4..], [(100, "b"), (105, "c"), (140, "d"), (145, "e")]);
    assert_eq!((run.record.ops[0].client_queueing.max() as f64 / 1e6).round() as u64, 25, "two of the first four wait");
}

#[test]
fn speed_divides_the_times_and_at_full_speed_there_are_none() {
    let (_, sent) = replay(&TWO_CLIENTS, &["phases.phase.speed=2", "phases.phase.in_flight=2"], MS);
    assert_eq!(times(&sent), [(0, "a"), (5, "b"), (7, "c"), (20, "d"), (50, "a")]);
    let (run, sent) = replay(&TWO_CLIENTS, &["phases.phase.speed=max", "phases.phase.in_flight=2"], 10 * MS);
    assert_eq!(times(&sent), [(0, "a"), (0, "c"), (10, "b"), (10, "a"), (20, "d")]);
    assert!(run.record.ops.iter().all(|op| op.response.is_empty()), "a closed loop has no response times");
    assert!(run.report.partial.is_none() && !run.report.ended_early);
}

#[test]
fn recorded_documents_are_sent_as_they_are() {
    let (run, sent) = replay(&["0 upsert with-body x", "1 upsert other x"], &[], MS);
    assert_eq!((sent.len(), run.record.ops[0].succeeded), (2, 2));
}
