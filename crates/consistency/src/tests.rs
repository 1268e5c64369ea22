//! Histories whose answer is known: by hand, by trying all orders, and from simulated stores with known faults.

use proptest::prelude::*;

use super::*;

fn op(client: u32, sent_ns: u64, answered_ns: u64, action: Action) -> Operation {
    Operation { sent_ns, answered_ns, action, client }
}

use Action::{Delete, Differs, Read, Swap, Write};

/// Whether some order explains a small history: tries all of them.
fn by_all_orders(operations: &[Operation], initial: Value) -> bool {
    fn go(operations: &[Operation], done: u32, value: Value) -> bool {
        let open = |at: usize| done & (1 << at) == 0;
        if (0..operations.len()).all(|at| !open(at) || operations[at].answered_ns == UNKNOWN) {
            return true;
        }
        (0..operations.len()).filter(|at| open(*at)).any(|at| {
            let of = &operations[at];
            // Everything that was answered before it was sent comes first.
            let first = (0..operations.len()).all(|other| !open(other) || operations[other].answered_ns >= of.sent_ns);
            first && of.action.fits(value) && go(operations, done | 1 << at, of.action.leaves().unwrap_or(value))
        })
    }
    go(operations, 0, initial)
}

fn linearizable(operations: &[Operation]) -> bool {
    match judge(operations, ABSENT, BUDGET) {
        Verdict::Linearizable => true,
        Verdict::Broken(_) => false,
        Verdict::Undecided => panic!("undecided: {operations:?}"),
    }
}

#[test]
fn histories_by_hand() {
    let stale = [op(1, 0, 10, Write(1)), op(1, 20, 30, Write(2)), op(2, 40, 50, Read(1))];
    assert!(!linearizable(&stale));
    // The read is concurrent with the second write.
    assert!(linearizable(&[op(1, 0, 10, Write(1)), op(1, 20, 45, Write(2)), op(2, 40, 50, Read(1))]));
    // Ends and begins at the same moment: concurrent.
    assert!(linearizable(&[op(1, 0, 10, Write(1)), op(2, 10, 20, Read(0))]));
    assert!(!linearizable(&[op(1, 0, 10, Write(1)), op(2, 11, 20, Read(0))]));
    // Two readers see two concurrent writes in different orders.
    let crossed = [
        op(1, 0, 100, Write(1)),
        op(2, 0, 100, Write(2)),
        op(3, 10, 20, Read(1)),
        op(3, 30, 40, Read(2)),
        op(4, 50, 60, Read(1)),
    ];
    assert!(!linearizable(&crossed));
    assert!(linearizable(&crossed[..4]));
    // A write without an answer takes effect late, or never, but not twice.
    let late = [op(1, 0, UNKNOWN, Write(1)), op(2, 10, 20, Read(0)), op(2, 30, 40, Read(1))];
    assert!(linearizable(&late));
    assert!(!linearizable(&[late[0], late[2], op(2, 50, 60, Read(0))]));
    // A value that nobody wrote.
    assert!(!linearizable(&[op(1, 0, 10, Read(7))]));
    // A lost update: both replaced the same value.
    let lost = [op(1, 0, 10, Write(1)), op(1, 20, 60, Swap(1, 2)), op(2, 20, 60, Swap(1, 3))];
    assert!(!linearizable(&lost) && linearizable(&lost[..2]));
    assert!(linearizable(&[lost[0], lost[1], op(2, 20, 60, Differs(1))]));
    // Comes back after it was deleted.
    let back = [op(1, 0, 10, Write(1)), op(1, 20, 30, Delete), op(2, 40, 50, Read(0)), op(2, 60, 70, Read(1))];
    assert!(!linearizable(&back) && linearizable(&back[..3]));
    // Created twice.
    assert!(!linearizable(&[op(1, 0, 10, Swap(ABSENT, 1)), op(2, 20, 30, Swap(ABSENT, 2))]));
}

#[test]
fn the_shortest_sequence_is_shown() {
    let mut long: Vec<Operation> = (0..200)
        .flat_map(|n| {
            let at = u64::from(n) * 100;
            [op(1, at, at + 10, Write(n + 1)), op(2, at + 20, at + 30, Read(n + 1))]
        })
        .collect();
    assert!(linearizable(&long));
    long[301].action = Read(140);
    let Verdict::Broken(shortest) = judge(&long, ABSENT, BUDGET) else { panic!() };
    // The write of the value, a later version, and the read. The later version is the one just before, or any other.
    let actions: Vec<Action> = shortest.iter().map(|at| long[*at].action).collect();
    assert!(matches!(actions[..], [Write(140), Write(141..=151), Read(140)]), "{actions:?}");
    // A delete that would explain a read is not left out before it.
    let deleted = [op(1, 0, 10, Delete), op(1, 20, 30, Write(2)), op(2, 40, 50, Read(0))];
    let Verdict::Broken(shortest) = judge(&deleted, 1, BUDGET) else { panic!() };
    assert_eq!(shortest, [1, 2]);
    // A delete that reads depend on is not left out alone.
    let deleted = [
        op(1, 0, 10, Write(1)),
        op(1, 20, 30, Delete),
        op(2, 40, 50, Read(0)),
        op(1, 60, 70, Write(2)),
        op(2, 80, 90, Read(1)),
    ];
    let Verdict::Broken(shortest) = judge(&deleted, ABSENT, BUDGET) else { panic!() };
    assert_eq!(shortest.len(), 3, "{shortest:?}");
    assert!(shortest.contains(&0) && shortest.contains(&4));
}

/// Some operations of a few clients, legal or not.
fn small(deletes: bool) -> impl Strategy<Value = Vec<Operation>> {
    let kinds = if deletes { 6 } else { 2 };
    prop::collection::vec((0u64..20, 0u64..8, 0..kinds, 0u32..5, 0u32..5, prop::bool::weighted(0.1)), 0..8).prop_map(
        |drawn| {
            let make = |(number, (sent, lasts, kind, a, b, unknown)): (usize, (u64, u64, i32, u32, u32, bool))| {
                let value = number as Value + 1;
                let action = match kind {
                    0 => Read(a),
                    1 => Write(value),
                    2 => Delete,
                    3 => Swap(a, value),
                    4 => Differs(b),
                    _ => Read(b),
                };
                // Reads without an answer are not part of a history.
                let unknown = unknown && action.leaves().is_some();
                op(b, sent, if unknown { UNKNOWN } else { sent + lasts }, action)
            };
            drawn.into_iter().enumerate().map(make).collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_all_orders(operations in small(true)) {
        prop_assert_eq!(explained(&operations, ABSENT, BUDGET), Some(by_all_orders(&operations, ABSENT)));
    }

    #[test]
    fn time_alone_decides_reads_and_writes(operations in small(false)) {
        let expected = by_all_orders(&operations, ABSENT);
        prop_assert_eq!(zones::explained(&operations, ABSENT), expected);
        prop_assert_eq!(orders::explained(&operations, ABSENT, BUDGET), Some(expected));
    }

    #[test]
    fn a_stale_read_is_a_proof(operations in small(true)) {
        if let Some(positions) = stale::proof(&operations, ABSENT) {
            prop_assert!(!by_all_orders(&operations, ABSENT));
            let alone: Vec<Operation> = positions.iter().map(|at| operations[*at]).collect();
            prop_assert!(!by_all_orders(&alone, ABSENT), "{alone:?}");
        }
        // Each stale read of a value is one.
        let stale = staleness(&operations, ABSENT);
        let deletes = operations.iter().any(|of| of.action == Delete);
        prop_assert!(!(deletes && stale.stale > 0) || stale::proof(&operations, ABSENT).is_some());
    }

    #[test]
    fn versions_behind_are_counted(operations in small(false)) {
        let wrote = |of: &&Operation| of.action.leaves().is_some() && of.answered_ns != UNKNOWN;
        let behind = |read: &Operation| {
            let value = read.action.saw()?;
            let writer = operations.iter().find(|of| of.action.leaves() == Some(value));
            if writer.is_none() && value != ABSENT {
                return None;
            }
            let later = |of: &&Operation| of.answered_ns < read.sent_ns && writer.is_none_or(|writer| writer.answered_ns < of.sent_ns);
            let behind: Vec<u64> = operations.iter().filter(wrote).filter(later).map(|of| of.answered_ns).collect();
            Some((behind.len() as u64, behind.iter().min().map_or(0, |first| read.sent_ns - first)))
        };
        let reads: Vec<(u64, u64)> = operations.iter().filter(|of| of.answered_ns != UNKNOWN).filter_map(behind).collect();
        let found = staleness(&operations, ABSENT);
        prop_assert_eq!(found.reads, reads.len() as u64);
        prop_assert_eq!(found.stale, reads.iter().filter(|(count, _)| *count > 0).count() as u64);
        prop_assert_eq!(found.versions_behind_max, reads.iter().map(|(count, _)| *count).max().unwrap_or(0));
        prop_assert_eq!(found.time_behind_max_ns, reads.iter().map(|(_, ns)| *ns).max().unwrap_or(0));
    }

    #[test]
    fn a_shortest_sequence_is_broken_and_needs_all_of_it(operations in small(true)) {
        if let Verdict::Broken(shortest) = judge(&operations, ABSENT, BUDGET) {
            let some = shortest::alone(&operations, ABSENT, &shortest);
            prop_assert!(!by_all_orders(&some, ABSENT));
            // No read in it can be left out.
            for at in 0..shortest.len() {
                let mut fewer = shortest.clone();
                let gone = fewer.remove(at);
                if operations[gone].action.leaves().is_none() {
                    prop_assert!(by_all_orders(&shortest::alone(&operations, ABSENT, &fewer), ABSENT), "{:?}", some);
                }
            }
        }
    }
}

/// A register that does what it is asked at one moment between send and answer, with known faults.
struct Simulated {
    random: u64,
    value: Value,
    before: Value,
    next: Value,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    Stale,
    LostUpdate,
    Resurrection,
}

impl Simulated {
    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    /// The history of some clients on one key. The fault happens at most once, after the middle. Returns whether it did.
    fn history(seed: u64, clients: u32, each: u64, fault: Fault) -> (Vec<Operation>, bool) {
        let mut of = Self { random: seed, value: ABSENT, before: ABSENT, next: 1 };
        // For each client when it is free; the moments of effect are in the order in which operations are drawn.
        let mut out = Vec::new();
        let mut now = 0;
        let mut free = vec![0u64; clients as usize];
        let count = each * u64::from(clients);
        let mut happened = false;
        // When the version before was answered, and the latest one sent and answered: the fault must not be explained by
        // the two being concurrent.
        let (mut before_answered, mut latest) = (0, (0, 0));
        for n in 0..count {
            let client = (0..clients).min_by_key(|client| free[*client as usize]).unwrap_or(0);
            now = free[client as usize].max(now) + 1 + of.draw(40);
            let mut due = fault != Fault::None && n >= count / 2 && !happened && before_answered < latest.0;
            let sent_ns = free[client as usize].max(now.saturating_sub(of.draw(60)));
            let answered_ns = now + of.draw(60);
            let (before, value) = (of.before, of.value);
            let wrong = due && before != value;
            let action = match of.draw(8) {
                0..=3 if wrong && fault == Fault::Stale && before != ABSENT => {
                    due = false;
                    Read(before)
                }
                0..=3 => Read(value),
                4..=5 => of.write(Write),
                6 if wrong && fault == Fault::LostUpdate && before != ABSENT => {
                    due = false;
                    of.write(|to| Swap(before, to))
                }
                6 => of.write(|to| Swap(value, to)),
                _ if value == ABSENT && wrong && fault == Fault::Resurrection => {
                    due = false;
                    of.value = before;
                    Read(before)
                }
                _ => {
                    (of.before, of.value) = (value, ABSENT);
                    Delete
                }
            };
            // A fault shows only if nothing is concurrent with it.
            let wrong = wrong && !due;
            happened |= wrong;
            let (sent_ns, answered_ns) = if wrong { (now + 500, now + 510) } else { (sent_ns, answered_ns) };
            if wrong {
                now += 1_000;
                free.fill(now);
            }
            if action.leaves().is_some() {
                (before_answered, latest) = (latest.1, (sent_ns, answered_ns));
            }
            free[client as usize] = free[client as usize].max(answered_ns + 1);
            out.push(op(client, sent_ns, answered_ns, action));
        }
        (out, happened)
    }

    fn write(&mut self, action: impl FnOnce(Value) -> Action) -> Action {
        (self.before, self.value) = (self.value, self.next);
        self.next += 1;
        action(self.value)
    }
}

#[test]
fn a_correct_store_is_never_accused() {
    for seed in 0..300 {
        let (history, _) = Simulated::history(seed, 8, 60, Fault::None);
        assert_eq!(judge(&history, ABSENT, BUDGET), Verdict::Linearizable, "seed {seed}");
        let found = staleness(&history, ABSENT);
        assert_eq!((found.stale, found.own_write_missed, found.went_back), (0, 0, 0), "seed {seed}: {found:?}");
    }
}

#[test]
fn seeded_faults_are_found() {
    for fault in [Fault::Stale, Fault::LostUpdate, Fault::Resurrection] {
        let mut faulty = 0;
        for seed in 0..200 {
            let (history, happened) = Simulated::history(seed, 4, 60, fault);
            faulty += u64::from(happened);
            match judge(&history, ABSENT, BUDGET) {
                Verdict::Broken(shortest) if happened => {
                    let shown: Vec<Operation> = shortest.iter().map(|at| history[*at]).collect();
                    assert!(shortest.len() <= 8, "{fault:?}, seed {seed}: {shown:#?}");
                }
                verdict => {
                    assert!(verdict == Verdict::Linearizable && !happened, "{fault:?}, seed {seed}: {verdict:?}")
                }
            }
        }
        assert!(faulty >= 100, "{fault:?}: {faulty} of 200");
    }
}

#[test]
fn a_replica_that_is_behind_is_measured() {
    // A write every 100 ns, and reads that return what was current 250 ns ago.
    let mut history: Vec<Operation> =
        (0..50).map(|n| op(1, u64::from(n) * 100, u64::from(n) * 100 + 10, Write(n + 1))).collect();
    history.extend((5..50).map(|n| {
        let at = n * 100 + 60;
        op(2, at, at + 5, Read(((at - 250) / 100) as Value + 1))
    }));
    let found = staleness(&history, ABSENT);
    assert_eq!((found.reads, found.stale, found.versions_behind_max), (45, 45, 2));
    // The next version was answered 250 - 60 - 10 + 100 ns... of its write: 160 ns before the read is sent.
    assert_eq!((found.time_behind_max_ns, found.own_write_missed, found.went_back), (150, 0, 0));
    assert!(matches!(judge(&history, ABSENT, BUDGET), Verdict::Broken(_)));
    let session = [
        op(1, 0, 10, Write(1)),
        op(1, 20, 30, Write(2)),
        op(1, 40, 50, Read(1)),
        op(2, 40, 50, Read(2)),
        op(2, 60, 70, Read(1)),
    ];
    let found = staleness(&session, ABSENT);
    assert_eq!((found.stale, found.own_write_missed, found.went_back), (2, 1, 1));
    // The value at first is older than a write that is sent at once.
    assert_eq!(staleness(&[op(1, 0, 10, Write(1)), op(2, 20, 30, Read(0))], ABSENT).stale, 1);
    // A compare-and-swap without an answer may not have found anything.
    let open = [op(1, 0, 10, Write(1)), op(1, 20, 30, Write(2)), op(1, 40, UNKNOWN, Swap(1, 3))];
    assert_eq!(staleness(&open, ABSENT), Staleness::default());
    // A client saw a long write, then a short one, then an older one.
    let long = [
        op(1, 0, 100, Write(1)),
        op(2, 50, 60, Write(2)),
        op(3, 10, 40, Write(3)),
        op(4, 110, 120, Read(1)),
        op(4, 130, 140, Read(2)),
        op(4, 150, 160, Read(3)),
    ];
    assert_eq!(staleness(&long, ABSENT).went_back, 1);
}

/// A document that was written and is not found, and a value that nobody wrote.
#[test]
fn reads_that_no_version_explains() {
    let lost = [op(1, 0, 10, Write(1)), op(1, 20, 30, Read(0)), op(2, 40, 50, Read(9))];
    let found = staleness(&lost, ABSENT);
    assert_eq!((found.stale, found.own_write_missed, found.never_written), (1, 1, 1), "{found:?}");
    // Something may have been deleted.
    let found = staleness(&[lost[0], op(2, 0, UNKNOWN, Delete), lost[1]], ABSENT);
    assert_eq!((found.stale, found.own_write_missed, found.never_written), (0, 0, 0), "{found:?}");
}

#[test]
fn what_exceeds_its_budget_is_undecided() {
    // Deletes and reads of nothing in every possible order.
    let mut history: Vec<Operation> = (0..40).map(|n| op(n, 0, 1_000, Write(n + 1))).collect();
    history.extend((0..40).map(|n| op(100 + n, 0, 1_000, Delete)));
    history.extend((0..20).map(|n| op(200 + n, 2_000 + u64::from(n), 2_000 + u64::from(n), Read(n % 3))));
    assert_eq!(judge(&history, ABSENT, 10), Verdict::Undecided);
}

#[test]
fn histories_are_read_and_written() {
    let text = r#"{"key":"a","initial":"v0"}
{"client":1,"key":"a","op":"write","value":"v1","sent_ns":10,"answered_ns":20}
{"client":2,"key":"a","op":"cas","expected":"v1","value":{"n":2},"sent_ns":30,"answered_ns":40}

{"client":1,"key":"b","op":"delete","sent_ns":10,"outcome":"unknown"}
{"client":3,"key":"a","op":"read","value":"v1","sent_ns":50,"answered_ns":60}
{"client":3,"key":"b","op":"read","sent_ns":50,"answered_ns":60}
{"client":4,"key":"a","op":"write","value":"never","sent_ns":50,"outcome":"failed"}
"#;
    let history = History::read(text.as_bytes()).unwrap();
    assert_eq!(history.operations(), 5);
    let report = history.report(BUDGET, 2);
    assert_eq!((report.keys, report.linearizable, report.broken.len(), report.unknown), (2, 1, 1, 1));
    let told = report.broken[0].to_string();
    assert_eq!(
        told,
        "`a`, which held \"v0\" at first:\n\
         \x20      0.000 ms to     0.000 ms  client 1 wrote \"v1\"\n\
         \x20      0.000 ms to     0.000 ms  client 2 replaced \"v1\" by {\"n\":2}\n\
         \x20      0.000 ms to     0.000 ms  client 3 read \"v1\"\n"
    );
    let mut written = Vec::new();
    history.write(&mut written).unwrap();
    let again = History::read(&written[..]).unwrap();
    assert_eq!(again.report(BUDGET, 1), report);
    let mut edn = Vec::new();
    history.write_jepsen(&mut edn).unwrap();
    let edn = String::from_utf8(edn).unwrap();
    // What a key held comes first. A client that sends again while one of its writes has no answer is another process.
    assert_eq!(
        edn,
        r#"{:index 0, :type :invoke, :f :write, :process 0, :time 0, :value ["a" 1]}
{:index 1, :type :ok, :f :write, :process 0, :time 0, :value ["a" 1]}
{:index 2, :type :invoke, :f :write, :process 1, :time 10, :value ["a" 2]}
{:index 3, :type :invoke, :f :write, :process 2, :time 10, :value ["b" 0]}
{:index 4, :type :ok, :f :write, :process 1, :time 20, :value ["a" 2]}
{:index 5, :type :invoke, :f :cas, :process 3, :time 30, :value ["a" [2 3]]}
{:index 6, :type :ok, :f :cas, :process 3, :time 40, :value ["a" [2 3]]}
{:index 7, :type :invoke, :f :read, :process 4, :time 50, :value ["a" nil]}
{:index 8, :type :invoke, :f :read, :process 5, :time 50, :value ["b" nil]}
{:index 9, :type :ok, :f :read, :process 4, :time 60, :value ["a" 2]}
{:index 10, :type :ok, :f :read, :process 5, :time 60, :value ["b" 0]}
{:index 11, :type :info, :f :write, :process 2, :time 10, :value ["b" 0]}
"#
    );
    for (line, why) in [
        ("{", "line 1"),
        ("{\"key\":\"a\",\"op\":\"write\",\"client\":1,\"sent_ns\":1,\"answered_ns\":2}", "needs a `value`"),
        ("{\"key\":\"a\",\"op\":\"read\",\"client\":1,\"sent_ns\":3,\"answered_ns\":2}", "before it was sent"),
        ("{\"key\":\"a\",\"op\":\"read\",\"sent_ns\":3,\"answered_ns\":4}", "`client` is missing"),
        ("{\"key\":\"a\",\"op\":\"grow\"}", "unknown variant"),
        ("{\"key\":\"a\",\"initial\":1,\"op\":\"read\",\"client\":1,\"sent_ns\":1}", "a line of its own"),
        (
            "{\"key\":\"a\",\"op\":\"cas\",\"expected\":1,\"outcome\":\"differs\",\"client\":1,\"sent_ns\":1}",
            "has an answer",
        ),
    ] {
        let error = History::read(line.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let twice = "{\"key\":\"a\",\"op\":\"write\",\"value\":1,\"client\":1,\"sent_ns\":1,\"answered_ns\":2}\n".repeat(2);
    assert!(History::read(twice.as_bytes()).unwrap_err().to_string().starts_with("line 2: 1 is written twice"));
    // The same value in another form.
    let reordered = r#"{"key":"a","initial":null}
{"key":"a","op":"write","value":{"a":1,"b":2.0},"client":1,"sent_ns":1,"answered_ns":2}
{"key":"a","op":"read","value":{"b":2,"a":1.0},"client":2,"sent_ns":3,"answered_ns":4}
{"key":"a","op":"cas","expected":7,"outcome":"differs","client":2,"sent_ns":5,"answered_ns":6}
"#;
    let history = History::read(reordered.as_bytes()).unwrap();
    assert_eq!(history.report(BUDGET, 1).linearizable, 1);
    let mut written = Vec::new();
    history.write(&mut written).unwrap();
    assert_eq!(History::read(&written[..]).unwrap().operations(), 3);
}
