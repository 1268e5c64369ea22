//! Tests of the window of concurrent requests.

use storebench_engine::store::{CollectionLayout, Layout, MemoryStore, OwnedReply, Prepare, Reject};
use storebench_study::workload::Body;

use super::*;
use crate::records::Origin;
use crate::session::{self, SessionRequest};

/// The state after a request with ten records, of which some were rejected.
fn after<T>(rejects: &[(usize, ErrorKind)], see: impl FnOnce(WriteSession<'_>) -> T) -> T {
    let memory = MemoryStore::new();
    let store: &dyn AnyStore = &memory;
    let layout = CollectionLayout {
        name: "books".into(),
        body: Body::Json,
        indexes: Vec::new(),
        existing: None,
        uses: storebench_engine::store::Uses::ALL,
    };
    store.prepare(&Layout { collections: vec![layout] }, Prepare::Fresh).unwrap();
    let durability =
        store.capabilities().durability.first().map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d));
    let options = StoreSinkOptions { in_flight: 8, durability, ..StoreSinkOptions::new("books") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = SessionRequest { durability, access: options.access, in_flight: 8 };
    let (session, clock) = runtime.block_on(session::open(store, &request)).unwrap();
    let mut write_session = WriteSession::new(store, session, clock, &options, false);
    let mut records = Records::new();
    (0..10).for_each(|n| records.push(&format!("k{n}"), b"{}", Origin::default()));
    write_session.window = 2.0;
    write_session.batches.push(Some(Batch {
        ended: Ended { records, ..Ended::default() },
        pieces: 1,
        verb: RecordOp::Upsert,
    }));
    let rejects: Vec<Reject> =
        rejects.iter().map(|(item, kind)| Reject { item: *item, error: OpError::new(*kind, "so") }).collect();
    let written = 10 - rejects.len() as u32;
    let piece = Piece::of(0, Part::All, Step::Over);
    let reply = OwnedReply::documents(written).rejects(rejects);
    write_session.measure(&piece, OpKind::BulkUpsert, 0, &Ok(reply.clone()));
    write_session.written(piece, &reply).unwrap();
    see(write_session)
}

fn window_after(rejects: &[(usize, ErrorKind)]) -> f64 {
    after(rejects, |write_session| write_session.window)
}

#[test]
fn what_was_rejected_is_not_measured_as_written() {
    let measured = after(&[(1, ErrorKind::Temporary), (8, ErrorKind::Refused)], |mut write_session| {
        let mut requests = Vec::new();
        write_session.requests(&mut requests);
        requests.iter().map(|request| (request.records, request.bytes)).collect::<Vec<_>>()
    });
    assert_eq!(measured, [(8, 8 * "k0{}".len() as u64)]);
}

#[test]
fn the_window_widens_only_where_nothing_fails() {
    assert_eq!(window_after(&[]), 2.5);
    // A record that the store refuses or already has says nothing about the store's load.
    assert_eq!(window_after(&[(3, ErrorKind::Refused), (4, ErrorKind::Conflict)]), 2.5);
    assert_eq!(window_after(&[(3, ErrorKind::Failed)]), 2.0);
    assert_eq!(window_after(&[(3, ErrorKind::Refused), (9, ErrorKind::Temporary)]), 1.0);
    assert_eq!(window_after(&[(0, ErrorKind::OutcomeUnknown)]), 1.0);
}
