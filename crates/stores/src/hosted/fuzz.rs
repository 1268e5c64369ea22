//! Fuzz tests of the frame parser.

use std::sync::LazyLock;

use storebench_engine::store::{Batch, BatchBuf, CollectionId, Op, Reply, Request, Stats, StoreError};

use super::wire::{self, Answer, Ask, Ended, Hello, outcome};

static GOOD: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut batch = BatchBuf::new();
    batch.push("a", b"{}");
    batch.push("b", b"words");
    let framed = |fill: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        fill(&mut out);
        out
    };
    let ask = |op: Op<'_>| {
        framed(&|out| wire::push(&Ask::of(&Request { collection: CollectionId(1), op, contents: true }), out).unwrap())
    };
    let rows = Reply { documents: 2, bytes: 7, rows: Some(batch.as_batch()), counter: Some(-3), ..Reply::default() };
    vec![
        ask(Op::Upsert { key: "key", body: b"{\"a\":1}" }),
        ask(Op::BulkRead { keys: batch.as_batch() }),
        ask(Op::Scan { start: "a", end: Some("b"), limit: 7 }),
        framed(&|out| wire::push(&Ended::Ok(Answer::of(&rows)), out).unwrap()),
        framed(&|out| wire::push(&Ok::<_, StoreError>(vec!["a", "b"]), out).unwrap()),
        framed(&|out| wire::push(&Ok::<_, StoreError>(vec![("bytes", 0.5)]), out).unwrap()),
    ]
});

fn take(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((frame, length))) = wire::frame(rest) {
        assert!((4..=rest.len()).contains(&length), "a frame of {length} bytes in {}", rest.len());
        understand(frame);
        rest = &rest[length..];
    }
    // Ignore the length.
    understand(bytes.get(4..).unwrap_or_default());
}

fn understand(frame: &[u8]) {
    let (mut batch, mut rejects) = (BatchBuf::new(), Vec::new());
    if let Ok(ask) = postcard::from_bytes::<Ask<'_>>(frame) {
        let _: Batch<'_> = match ask.request(&mut batch, &mut Vec::new()).op {
            Op::BulkRead { keys } => keys,
            _ => Batch::default(),
        };
    }
    if let Ok(Ok(answer)) = postcard::from_bytes::<Ended<'_>>(frame) {
        let _ = answer.reply(&mut batch, &mut rejects).documents;
    }
    drop((outcome::<Vec<String>>(frame), outcome::<Stats>(frame), outcome::<()>(frame)));
    drop(postcard::from_bytes::<Hello>(frame));
}

crate::fuzz::fuzzed!("hosted", &GOOD.iter().map(Vec::as_slice).collect::<Vec<_>>(), take);
