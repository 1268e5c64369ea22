//! Transactions: all steps or none.

use serde_json::{Value, json};

use super::Subject;
use super::client::{Answers, Client};
use super::json::same_json;
use super::queries;
use super::races::together;
use super::suite::{Check, Stop, ensure};
use storebench_engine::store::{CollectionId, ErrorKind, Isolation, Op, OpKind, OwnedReply, Request, Step, Token};

const NEEDS: &[OpKind] = &[OpKind::Transaction, OpKind::Upsert, OpKind::Read];

pub(super) const CHECKS: &[Check] = &[
    Check { name: "transaction: all steps are done, and each is counted", needs: NEEDS, run: commits },
    Check { name: "transaction: a step sees what an earlier one wrote", needs: NEEDS, run: sees_itself },
    Check { name: "transaction: steps in several collections, with indexes", needs: NEEDS, run: collections },
    Check { name: "transaction: only reads", needs: NEEDS, run: reads },
    Check { name: "transaction: one that is rolled back leaves nothing", needs: NEEDS, run: rolls_back },
    Check { name: "transaction: a step that fails undoes the others", needs: NEEDS, run: fails },
    Check { name: "transaction: a query among the steps", needs: NEEDS, run: asks },
    Check { name: "transaction: the session works on after one that was abandoned", needs: NEEDS, run: abandoned },
    Check { name: "race: documents written together are read together", needs: NEEDS, run: together_or_not },
];

fn step(collection: CollectionId, kind: OpKind, key: &str, body: &Value) -> Step {
    let body = if matches!(kind, OpKind::Read | OpKind::Delete) { Vec::new() } else { body.to_string().into_bytes() };
    Step { collection, kind: Some(kind), key: key.to_owned(), body, ..Step::default() }
}

fn strongest(s: &Subject<'_>) -> Result<Isolation, Stop> {
    let strongest = s.capabilities.transactions.strongest();
    strongest.map(|(isolation, _)| isolation).ok_or_else(|| Stop::failed("it has transactions, but no isolation"))
}

fn needs_step(s: &Subject<'_>, kind: OpKind) -> Result<(), Stop> {
    match s.capabilities.transactions.steps.contains(&kind) {
        true => Ok(()),
        false => Err(Stop::NotSupported(format!("{kind} in a transaction"))),
    }
}

fn run(c: &mut Client, s: &Subject<'_>, steps: &[Step], rolls_back: bool) -> Result<OwnedReply, Stop> {
    let isolation = strongest(s)?;
    c.ok(steps[0].collection, Op::Transaction { isolation, steps, rolls_back })
}

fn commits(s: &Subject<'_>) -> Result<(), Stop> {
    use OpKind::{Delete, Read, Replace, Upsert};
    let mut c = s.client()?;
    let d = s.documents;
    ensure!(!s.capabilities.transactions.isolation.is_empty(), "it has transactions, but no isolation");
    for (isolation, _) in s.capabilities.transactions.isolation.clone() {
        c.wrote(d, Op::Upsert { key: "old", body: b"{\"n\":0}" })?;
        c.wrote(d, Op::Upsert { key: "gone", body: b"{}" })?;
        let n = json!({ "n": 1, "isolation": isolation.name() });
        let steps = [
            step(d, Read, "old", &n),
            step(d, Upsert, "new", &n),
            step(d, Replace, "old", &n),
            step(d, Delete, "gone", &n),
            step(d, Read, "never", &n),
            step(d, Replace, "never", &n),
            step(d, Delete, "never", &n),
        ];
        let op = Op::Transaction { isolation, steps: &steps, rolls_back: false };
        for contents in [true, false] {
            let reply = c.call_request(&Request { collection: d, op, contents })?;
            let reply = reply.map_err(|error| Stop::failed(format!("at {isolation}: {error}")))?;
            let reply = reply.as_reply();
            // The second time, the deleted document is not there.
            let gone = u32::from(contents);
            ensure!(reply.steps == [1, 1, 1, gone, 0, 0, 0], "at {isolation}, its steps found {:?}", reply.steps);
            ensure!(reply.documents == 3 + gone, "at {isolation}: {} documents", reply.documents);
            match reply.rows.filter(|_| contents) {
                Some(rows) => {
                    ensure!(rows.len() == 1, "at {isolation}, one read found {} documents", rows.len());
                    same_json(&json!({ "n": 0 }), rows.get(0).unwrap_or_default().1).map_err(Stop::failed)?;
                }
                None => ensure!(!contents, "at {isolation}: the contents of reads are missing"),
            }
        }
        c.holds(d, "new", &n)?;
        c.holds(d, "old", &n)?;
        c.lacks(d, "gone")?;
        c.lacks(d, "never")?;
        c.wrote(d, Op::Delete { key: "new" })?;
    }
    Ok(())
}

fn sees_itself(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, d) = (s.client()?, s.documents);
    let n = json!({ "n": 7 });
    let steps = [step(d, OpKind::Upsert, "a", &n), step(d, OpKind::Read, "a", &n), step(d, OpKind::Delete, "a", &n)];
    let reply = run(&mut c, s, &steps, false)?;
    let reply = reply.as_reply();
    ensure!(reply.steps == [1, 1, 1], "its steps found {:?}", reply.steps);
    same_json(&n, reply.rows.unwrap_or_default().get(0).unwrap_or_default().1).map_err(Stop::failed)?;
    c.lacks(d, "a")
}

fn collections(s: &Subject<'_>) -> Result<(), Stop> {
    let mut c = s.client()?;
    let body = json!({ "user": "anna", "n": 3, "flag": true });
    for key in ["a", "b"] {
        let steps = [
            step(s.documents, OpKind::Upsert, key, &body),
            step(s.indexed, OpKind::Upsert, key, &body),
            step(s.documents, OpKind::Read, key, &body),
        ];
        run(&mut c, s, &steps, false)?;
    }
    run(&mut c, s, &[step(s.indexed, OpKind::Delete, "a", &body)], false)?;
    c.holds(s.documents, "a", &body)?;
    c.holds(s.indexed, "b", &body)?;
    c.lacks(s.indexed, "a")?;
    if s.capabilities.supports(OpKind::Page).is_some() && s.capabilities.indexes {
        c.until(|c| {
            let reply = c.ok(s.indexed, Op::Page { field: "user", value: "\"anna\"", limit: 10 })?;
            let found = reply.as_reply().documents;
            ensure!(found == 1, "the index finds {found} documents instead of the one that is left");
            Ok(())
        })?;
    }
    Ok(())
}

fn reads(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, d) = (s.client()?, s.documents);
    let n = json!({ "n": 1 });
    for key in ["a", "b"] {
        c.wrote(d, Op::Upsert { key, body: n.to_string().as_bytes() })?;
    }
    let steps = ["a", "never", "b"].map(|key| step(d, OpKind::Read, key, &n));
    let reply = run(&mut c, s, &steps, false)?;
    let reply = reply.as_reply();
    ensure!(reply.steps == [1, 0, 1] && reply.documents == 2, "{:?}, {} documents", reply.steps, reply.documents);
    ensure!(reply.bytes > 0 && reply.rows.is_some_and(|rows| rows.len() == 2), "the two documents are missing");
    Ok(())
}

fn rolls_back(s: &Subject<'_>) -> Result<(), Stop> {
    if !s.capabilities.transactions.rolls_back {
        return Err(Stop::NotSupported("transactions that are rolled back".into()));
    }
    let (mut c, d) = (s.client()?, s.documents);
    let (old, new) = (json!({ "n": 0 }), json!({ "n": 1 }));
    c.wrote(d, Op::Upsert { key: "old", body: old.to_string().as_bytes() })?;
    let steps = [
        step(d, OpKind::Read, "old", &new),
        step(d, OpKind::Replace, "old", &new),
        step(d, OpKind::Upsert, "new", &new),
    ];
    for _ in 0..2 {
        let reply = run(&mut c, s, &steps, true)?;
        let reply = reply.as_reply();
        ensure!(reply.steps == [1, 1, 1], "its steps found {:?}", reply.steps);
        ensure!(reply.documents == 1, "{} documents; what was rolled back is not written", reply.documents);
        c.holds(d, "old", &old)?;
        c.lacks(d, "new")?;
    }
    // Nothing is left that a later transaction could commit.
    run(&mut c, s, &[step(d, OpKind::Upsert, "other", &new)], false)?;
    c.lacks(d, "new")
}

fn fails(s: &Subject<'_>) -> Result<(), Stop> {
    needs_step(s, OpKind::Insert)?;
    let (mut c, d) = (s.client()?, s.documents);
    let (old, new) = (json!({ "n": 0 }), json!({ "n": 1 }));
    c.wrote(d, Op::Upsert { key: "old", body: old.to_string().as_bytes() })?;
    let isolation = strongest(s)?;
    for position in 0..3 {
        let mut steps = vec![step(d, OpKind::Upsert, "new", &new), step(s.indexed, OpKind::Insert, "more", &new)];
        steps.insert(position, step(d, OpKind::Insert, "old", &new));
        let op = Op::Transaction { isolation, steps: &steps, rolls_back: false };
        c.fails(ErrorKind::Conflict, d, op)?;
        c.lacks(d, "new")?;
        c.lacks(s.indexed, "more")?;
        c.holds(d, "old", &old)?;
    }
    run(&mut c, s, &[step(d, OpKind::Insert, "new", &new)], false)?;
    c.holds(d, "new", &new)
}

fn asks(s: &Subject<'_>) -> Result<(), Stop> {
    needs_step(s, OpKind::Query)?;
    let mut c = s.client()?;
    let query = queries::step_of_user(s, "anna", 2)?;
    let body = |n: i64| json!({ "user": "anna", "n": n });
    let steps = [
        query.clone(),
        step(s.indexed, OpKind::Upsert, "a", &body(1)),
        step(s.indexed, OpKind::Upsert, "b", &body(2)),
        query.clone(),
        step(s.indexed, OpKind::Upsert, "c", &body(3)),
        query,
    ];
    let reply = run(&mut c, s, &steps, false)?;
    let reply = reply.as_reply();
    ensure!(reply.steps == [0, 1, 1, 1, 1, 2], "its steps found {:?}", reply.steps);
    ensure!(reply.rows.is_none_or(|rows| rows.is_empty()), "rows of queries are not documents that were read");
    Ok(())
}

fn abandoned(s: &Subject<'_>) -> Result<(), Stop> {
    let (mut c, d) = (s.client()?, s.documents);
    let n = json!({ "n": 1 });
    let steps = [step(d, OpKind::Upsert, "a", &n), step(d, OpKind::Upsert, "b", &n)];
    let isolation = strongest(s)?;
    for round in 0..3 {
        let op = Op::Transaction { isolation, steps: &steps, rolls_back: false };
        let token = Token(1_000_000 + round);
        let mut answers = Answers::default();
        c.submit(&Request { collection: d, op, contents: false }, token, &mut answers);
        if answers.0.is_empty() {
            c.abandon(token);
        }
        let other = json!({ "round": round });
        c.wrote(d, Op::Upsert { key: "other", body: other.to_string().as_bytes() })?;
        c.holds(d, "other", &other)?;
        run(&mut c, s, &[step(d, OpKind::Upsert, "next", &other)], false)?;
    }
    // Both or none.
    let both = [step(d, OpKind::Read, "a", &n), step(d, OpKind::Read, "b", &n)];
    let reply = run(&mut c, s, &both, false)?;
    let found = reply.as_reply().steps;
    ensure!(found[0] == found[1], "one of two documents that were written together is there: {found:?}");
    Ok(())
}

/// At snapshot or above, two reads of one transaction see the same moment, so never one half of another transaction.
fn together_or_not(s: &Subject<'_>) -> Result<(), Stop> {
    const ROUNDS: usize = 60;
    let isolation = strongest(s)?;
    let least = if isolation >= Isolation::Snapshot { ROUNDS / 4 } else { 0 };
    let seen = together(s, |number, c, meeting| {
        let mut seen = 0;
        for round in 0..ROUNDS {
            meeting.meet();
            let body = json!({ "by": number, "round": round });
            let kind = if number % 2 == 0 { OpKind::Upsert } else { OpKind::Read };
            let steps = ["x", "y"].map(|key| step(s.documents, kind, key, &body));
            let op = Op::Transaction { isolation, steps: &steps, rolls_back: false };
            match c.call(s.documents, op)? {
                Ok(reply) if kind == OpKind::Read && least > 0 => {
                    let reply = reply.as_reply();
                    ensure!(reply.steps[0] == reply.steps[1], "only one of two was there: {:?}", reply.steps);
                    let rows: Vec<_> = reply.rows.unwrap_or_default().iter().map(|(_, row)| row.to_vec()).collect();
                    let parsed = |row: &Vec<u8>| serde_json::from_slice::<Value>(row).ok();
                    if let [x, y] = &rows[..] {
                        let same = ["by", "round"].iter().all(|member| {
                            parsed(x).is_some_and(|x| parsed(y).is_some_and(|y| x[*member] == y[*member]))
                        });
                        ensure!(
                            same,
                            "read halves of two transactions: {:?}",
                            rows.iter().map(|row| String::from_utf8_lossy(row)).collect::<Vec<_>>()
                        );
                        seen += 1;
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind == ErrorKind::Aborted => {}
                Err(error) => return Err(Stop::failed(format!("a transaction in a race ended with {error}"))),
            }
        }
        Ok(seen)
    })?;
    ensure!(seen.iter().sum::<usize>() >= least, "too few reads succeeded to see anything: {seen:?}");
    Ok(())
}
