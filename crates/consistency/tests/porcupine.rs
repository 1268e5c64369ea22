//! Compares decisions with those of porcupine, an independent checker in Go.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use storebench_consistency::{Action, BUDGET, Operation, UNKNOWN, Verdict, judge};

const HISTORIES: u64 = 10_000;

/// A small history of a few clients, legal or not: half of the reads return what was probably there.
fn history(seed: u64) -> Vec<Operation> {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let clients = 2 + draw(3);
    let mut free = vec![0u64; clients as usize];
    let (mut value, mut written) = (0u32, 0u32);
    (0..3 + draw(10))
        .map(|_| {
            let client = draw(clients);
            let sent_ns = free[client as usize] + draw(12);
            let answered_ns = sent_ns + draw(20);
            free[client as usize] = answered_ns + 1;
            let any = draw(u64::from(written) + 1) as u32;
            let near = if draw(2) == 0 { value } else { any };
            let mut new = || {
                written += 1;
                written
            };
            let action = match draw(10) {
                0..=4 => Action::Read(near),
                5..=6 => Action::Write(new()),
                7 => Action::Delete,
                8 => Action::Swap(near, new()),
                _ => Action::Differs(any),
            };
            value = action.leaves().unwrap_or(value);
            let unknown = action.leaves().is_some() && draw(10) == 0;
            Operation {
                sent_ns,
                answered_ns: if unknown { UNKNOWN } else { answered_ns },
                action,
                client: client as u32,
            }
        })
        .collect()
}

fn line(operations: &[Operation]) -> String {
    let mut out = String::from("{\"initial\":0,\"ops\":[");
    for (number, of) in operations.iter().enumerate() {
        let (kind, a, b) = match of.action {
            Action::Read(value) => (0, value, 0),
            Action::Write(value) => (1, value, 0),
            Action::Delete => (2, 0, 0),
            Action::Swap(from, to) => (3, from, to),
            Action::Differs(from) => (4, from, 0),
        };
        let comma = if number == 0 { "" } else { "," };
        // Porcupine takes an operation that is sent when another is answered as later. Here they are concurrent.
        let answered = if of.answered_ns == UNKNOWN { -1 } else { of.answered_ns as i64 * 2 + 1 };
        let _ = write!(out, "{comma}[{number},{kind},{a},{b},{},{answered}]", of.sent_ns * 2);
    }
    out + "]}\n"
}

#[test]
#[ignore = "soak: needs Go, and builds a checker"]
fn soak_porcupine_agrees_on_10000_histories() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/porcupine");
    let program = tempfile::tempdir().unwrap();
    let program = program.path().join("porcupine");
    let built = Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(folder).status();
    let Ok(built) = built else {
        println!("skipped: no `go` on this machine");
        return;
    };
    assert!(built.success());
    let histories: Vec<Vec<Operation>> = (0..HISTORIES).map(history).collect();
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text: String = histories.iter().map(|of| line(of)).collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let mut broken = 0;
    for (number, (operations, told)) in histories.iter().zip(told.lines()).enumerate() {
        let verdict = judge(operations, 0, BUDGET);
        assert_eq!(verdict == Verdict::Linearizable, told == "true", "history {number}: {verdict:?}\n{operations:#?}");
        broken += u64::from(told == "false");
    }
    assert_eq!(told.lines().count() as u64, HISTORIES);
    println!("soak: porcupine agrees on {HISTORIES} histories, of which {broken} are broken");
    assert!(broken > HISTORIES / 5 && broken < HISTORIES * 4 / 5, "{broken}");
}
