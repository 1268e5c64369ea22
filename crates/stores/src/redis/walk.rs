//! Reads all documents of a collection, node by node: `SCAN`, then `GET` and `PTTL` of each key, in one write.
//!
//! Redis guarantees that a key that exists during the whole scan is returned at least once. It may return a key twice,
//! and the walk then does too. Keys that vanish meanwhile are skipped. A value that is not a string cannot be a
//! document and is reported.

use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{BadRow, LocalFuture, RowPage, RowStream, StoreError};

use super::control::{Connection, PATIENCE};
use super::reach::Slots;
use super::resp::{self, Value};
use super::sample::escaped;
use super::settings::Settings;
use crate::connection::Collection;
use crate::net::Host;

/// The target size of a page.
const PAGE_BYTES: usize = 1 << 20;
/// The number of keys scanned for a page: initial, minimum and maximum.
const FIRST: u32 = 100;
const FEWEST: usize = 10;
const MOST: usize = 5_000;

/// A walk over one node.
pub(super) struct Walk {
    settings: Arc<Settings>,
    host: Host,
    connection: Option<Connection>,
    prefix: Vec<u8>,
    pattern: Vec<u8>,
    /// The server process that the cursor belongs to. A restart changes the order of the keys.
    run_id: String,
    /// The position of the scan; `None` at its end.
    cursor: Option<u64>,
    count: u32,
    /// Where the slots of the cluster were at the beginning of the copy.
    slots: Option<Slots>,
}

impl Walk {
    /// Starts at the first key.
    pub(super) fn new(
        settings: Arc<Settings>,
        connection: Connection,
        collection: &Collection,
        slots: Option<Slots>,
    ) -> Self {
        let prefix = collection.prefix.clone();
        let pattern = [escaped(&prefix).as_slice(), b"*"].concat();
        Self {
            settings,
            host: connection.host.clone(),
            connection: Some(connection),
            prefix,
            pattern,
            run_id: String::new(),
            cursor: Some(0),
            count: FIRST,
            slots,
        }
    }

    async fn page(&mut self, page: &mut RowPage) -> Result<bool, StoreError> {
        let Some(mut cursor) = self.cursor else { return Ok(false) };
        let mut connection = match self.connection.take() {
            Some(connection) if !self.run_id.is_empty() => connection,
            known => {
                let mut connection = match known {
                    Some(connection) => connection,
                    None => Connection::open(&self.settings, &self.host, PATIENCE).await?,
                };
                let run_id = run_id(&mut connection).await?;
                if self.run_id != run_id {
                    // The caller skips the rows that it already has.
                    (self.run_id, cursor) = (run_id, 0);
                }
                connection
            }
        };
        // If this fails, the connection is dropped. The next try continues from the same cursor on a new one.
        let (next, keys) = connection.scan(cursor, &self.pattern, self.count, false).await?;
        let mut requests = Vec::new();
        for key in &keys {
            resp::full_command(&mut requests, &[b"GET", key]);
            resp::full_command(&mut requests, &[b"PTTL", key]);
        }
        let answers = connection.answers(&requests, 2 * keys.len()).await?;
        page.clear();
        let mut bytes = 0;
        for (key, answer) in keys.iter().zip(answers.chunks_exact(2)) {
            let Some(rest) = key.strip_prefix(self.prefix.as_slice()) else { continue };
            let bad = |why: String| BadRow::of(rest, why);
            match (&answer[0], std::str::from_utf8(rest)) {
                // The key vanished meanwhile.
                (Value::Nil, _) => {}
                (Value::Bulk(_), Err(_)) => page.bad.push(bad("its key is not UTF-8".to_owned())),
                (Value::Bulk(body), Ok(key)) => {
                    match answer[1].number() {
                        Some(-1) => {}
                        // It vanished between the two commands.
                        Some(-2) => continue,
                        Some(left_ms) if left_ms >= 0 => {
                            let left = Duration::from_millis(left_ms.unsigned_abs());
                            page.expiring.push((page.rows.len(), left));
                        }
                        _ => return Err(connection.unexpected("PTTL", &answer[1])),
                    }
                    bytes += body.len();
                    page.rows.push(key, body);
                }
                (Value::Error(line), _) if line.starts_with("WRONGTYPE") => {
                    let kind = connection.ask(&[b"TYPE", key]).await?;
                    let kind = if let Value::Simple(kind) = kind { kind } else { "something else".to_owned() };
                    page.bad.push(bad(format!("its key holds a {kind}; only strings are copied")));
                }
                (Value::Error(line), _) if line.starts_with("MOVED") || line.starts_with("ASK") => {
                    return Err(StoreError::Failed(format!(
                        "{}: keys are moving to another node, so a copy could miss some; retry after resharding",
                        self.host
                    )));
                }
                (Value::Error(line), _) => {
                    return Err(StoreError::Failed(format!("{}: cannot read a key (Redis: {line})", self.host)));
                }
                (other, _) => return Err(connection.unexpected("GET", other)),
            }
        }
        // A scan does not see keys that arrive at this node after it passed them, nor those that left before.
        if let (Some(slots), None) = (&self.slots, next)
            && *slots != Slots::ask(&mut connection).await?
        {
            return Err(StoreError::Failed(format!(
                "{}: slots moved between the nodes of the cluster during the copy, so it may have missed keys, or copied \
                 some twice; copy again with --restart when resharding has ended",
                self.host
            )));
        }
        let mean = (bytes / page.rows.len().max(1)).max(1);
        self.count = (PAGE_BYTES / mean).clamp(FEWEST, MOST) as u32;
        self.cursor = next;
        self.connection = Some(connection);
        Ok(true)
    }
}

impl RowStream for Walk {
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.page(page))
    }
}

/// The id of the server process.
async fn run_id(connection: &mut Connection) -> Result<String, StoreError> {
    let info = connection.info("server").await?;
    info.get("run_id")
        .map(str::to_owned)
        .ok_or_else(|| StoreError::Failed("the server does not report its run_id, so a copy could miss keys".into()))
}
