//! Reads and writes of the open database: a read is a read transaction, a write is a write transaction.

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, Table, TableDefinition};
use storebench_engine::store::ordered_map::{self, Documents, KeyRange, Reader, Scope, Stored, Writer};
use storebench_engine::store::{ErrorKind, OpError, Persisted};

use super::backend;
use super::errors::{commit_failed, failed};
use super::file::Handle;

/// An open database.
pub(crate) struct RedbDatabase(pub(super) Handle);

/// The names of a collection's tables.
pub(crate) struct Tables {
    pub(super) documents: String,
    pub(super) indexes: Vec<String>,
}

/// The table of a collection.
pub(super) fn documents(table: &str) -> TableDefinition<'_, &'static str, &'static [u8]> {
    TableDefinition::new(table)
}

/// The table of an index: entries without values.
pub(super) fn entries(table: &str) -> TableDefinition<'_, &'static [u8], ()> {
    TableDefinition::new(table)
}

impl ordered_map::Database for RedbDatabase {
    const NAME: &'static str = "redb";

    type Tables = Tables;
    type Reader<'d> = Reading<'d>;
    type Writer<'w> = Writing<'w>;

    fn read<'d>(&'d self, tables: &'d Tables) -> Result<Reading<'d>, OpError> {
        let transaction = self.0.begin_read().map_err(failed)?;
        let documents = transaction.open_table(documents(&tables.documents)).map_err(failed)?;
        Ok(Reading { transaction, documents, tables })
    }

    fn write<T>(
        &self,
        tables: &Tables,
        scope: Scope<'_>,
        persisted: Persisted,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, OpError>,
    ) -> Result<T, OpError> {
        // A single insert looks up the document first. A bulk insert assumes that documents are new.
        let look_first = matches!(scope, Scope::Key(_));
        self.transaction(&[tables], look_first, persisted, |writers| work(&mut writers[0]))
    }

    fn transact<T>(
        &self,
        tables: &[&Tables],
        persisted: Persisted,
        work: impl FnOnce(&mut [Writing<'_>]) -> Result<T, OpError>,
    ) -> Result<T, OpError> {
        self.transaction(tables, true, persisted, work)
    }
}

impl RedbDatabase {
    /// Runs `work` in a transaction. If it fails, the transaction is dropped and thereby rolled back.
    fn transaction<T>(
        &self,
        tables: &[&Tables],
        look_first: bool,
        persisted: Persisted,
        work: impl FnOnce(&mut [Writing<'_>]) -> Result<T, OpError>,
    ) -> Result<T, OpError> {
        let Handle::Write(database) = &self.0 else {
            return Err(OpError::new(ErrorKind::Refused, "the store was opened read-only"));
        };
        let run = || {
            let mut transaction = database.begin_write().map_err(failed)?;
            if persisted == Persisted::None {
                transaction
                    .set_durability(redb::Durability::None)
                    .map_err(|e| OpError::new(ErrorKind::Failed, format!("redb: {e}")))?;
            }
            let value = {
                let mut writers = Vec::with_capacity(tables.len());
                for tables in tables {
                    let documents = transaction.open_table(documents(&tables.documents)).map_err(failed)?;
                    let mut indexes = Vec::with_capacity(tables.indexes.len());
                    for table in &tables.indexes {
                        indexes.push(transaction.open_table(entries(table)).map_err(failed)?);
                    }
                    writers.push(Writing { documents, indexes, look_first, replaced: Vec::new() });
                }
                work(&mut writers)?
            };
            transaction.commit().map_err(commit_failed)?;
            Ok(value)
        };
        if persisted == Persisted::Os { backend::unsynced(run) } else { run() }
    }
}

pub(crate) struct Reading<'d> {
    transaction: ReadTransaction,
    documents: ReadOnlyTable<&'static str, &'static [u8]>,
    tables: &'d Tables,
}

impl Documents for Reading<'_> {
    fn get<T>(&self, key: &str, show: impl FnOnce(Stored<'_>) -> T) -> Result<Option<T>, OpError> {
        Ok(self.documents.get(key).map_err(failed)?.map(|body| show(body.value().into())))
    }
}

impl Reader for Reading<'_> {
    fn range(
        &self,
        range: KeyRange<'_>,
        mut each: impl FnMut(&str, &[u8]) -> Result<bool, OpError>,
    ) -> Result<(), OpError> {
        let (bounds, prefix) = range.bounds();
        for row in self.documents.range::<&str>(bounds).map_err(failed)? {
            let (key, body) = row.map_err(failed)?;
            if !key.value().starts_with(prefix) || each(key.value(), body.value())? {
                break;
            }
        }
        Ok(())
    }

    fn entries(
        &self,
        index: usize,
        prefix: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<bool, OpError>,
    ) -> Result<(), OpError> {
        let table = self.transaction.open_table(entries(&self.tables.indexes[index])).map_err(failed)?;
        for row in table.range(prefix..).map_err(failed)? {
            let (entry, ()) = row.map(|(entry, _)| (entry, ())).map_err(failed)?;
            if !entry.value().starts_with(prefix) || each(entry.value())? {
                break;
            }
        }
        Ok(())
    }
}

/// The tables of a collection in a write transaction.
pub(crate) struct Writing<'w> {
    documents: Table<'w, &'static str, &'static [u8]>,
    indexes: Vec<Table<'w, &'static [u8], ()>>,
    /// Whether an insert looks up the document first. A batch that finds one existing document is likely to find more,
    /// and restoring a document costs more than a lookup.
    look_first: bool,
    replaced: Vec<u8>,
}

impl Documents for Writing<'_> {
    fn get<T>(&self, key: &str, show: impl FnOnce(Stored<'_>) -> T) -> Result<Option<T>, OpError> {
        Ok(self.documents.get(key).map_err(failed)?.map(|body| show(body.value().into())))
    }
}

impl Writer for Writing<'_> {
    fn put(&mut self, key: &str, body: &[u8]) -> Result<(), OpError> {
        self.documents.insert(key, body).map_err(failed).map(drop)
    }

    fn remove(&mut self, key: &str) -> Result<(), OpError> {
        self.documents.remove(key).map_err(failed).map(drop)
    }

    fn enter(&mut self, index: usize, entry: &[u8]) -> Result<(), OpError> {
        self.indexes[index].insert(entry, ()).map_err(failed).map(drop)
    }

    fn leave(&mut self, index: usize, entry: &[u8]) -> Result<(), OpError> {
        self.indexes[index].remove(entry).map_err(failed).map(drop)
    }

    /// Inserts a new document in one descent. If the insert replaced a document, restores that document.
    fn insert(&mut self, key: &str, body: &[u8]) -> Result<bool, OpError> {
        if self.look_first {
            return Ok(!self.contains(key)? && self.put(key, body).map(|()| true)?);
        }
        match self.documents.insert(key, body).map_err(failed)? {
            None => return Ok(true),
            Some(old) => self.replaced.extend_from_slice(old.value()),
        }
        self.look_first = true;
        self.documents.insert(key, self.replaced.as_slice()).map_err(failed)?;
        Ok(false)
    }

    fn take(&mut self, key: &str) -> Result<bool, OpError> {
        Ok(self.documents.remove(key).map_err(failed)?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use redb::backends::InMemoryBackend;
    use redb::{Builder, StorageBackend};
    use storebench_engine::store::document::EXISTS;
    use storebench_engine::store::ordered_map::{Collection, Indexes, Opened, OrderedSession};
    use storebench_engine::store::{BatchBuf, BulkWrite, CollectionId, Op, Reply, Request, Session, Token};
    use storebench_study::workload::Body;

    use super::*;

    /// Storage that counts how often it is synced.
    #[derive(Debug)]
    struct Counting(InMemoryBackend, Arc<AtomicU32>);

    impl StorageBackend for Counting {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }
        fn sync_data(&self) -> io::Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.sync_data()
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.write(offset, data)
        }
    }

    fn submit(session: &mut OrderedSession<RedbDatabase>, op: Op<'_>) -> Result<u32, OpError> {
        let mut answer = None;
        let request = Request { collection: CollectionId(0), op, contents: true };
        session.submit(&request, Token(1), &mut |_: Token, result: Result<Reply<'_>, OpError>| {
            answer = Some(result.map(|reply| reply.documents));
        });
        answer.unwrap()
    }

    #[test]
    fn nothing_is_synced_at_os_also_where_the_file_grows_and_every_commit_at_fsync() {
        let syncs = Arc::new(AtomicU32::new(0));
        let backend = backend::SyncedOnDemand(Counting(InMemoryBackend::new(), Arc::clone(&syncs)));
        let database = Builder::new().create_with_backend(backend).unwrap();
        let tables = Tables { documents: "documents".to_owned(), indexes: Vec::new() };
        let transaction = database.begin_write().unwrap();
        transaction.open_table(documents(&tables.documents)).unwrap();
        transaction.commit().unwrap();
        let database = RedbDatabase(Handle::Write(database));
        let collections = vec![Collection { body: Body::Bytes, indexes: Indexes::default(), tables }];
        let opened = Arc::new(Opened::new(database, collections));
        let mut os = OrderedSession::new(Arc::clone(&opened), Persisted::Os);
        let mut fsync = OrderedSession::new(opened, Persisted::Disk);
        // Each round ends with a failing insert, which must also reset the thread's setting.
        let load = |session: &mut OrderedSession<RedbDatabase>, round: u32| {
            let before = syncs.load(Ordering::Relaxed);
            let mut items = BatchBuf::new();
            (0..1_000).for_each(|n| items.push(&format!("{round}/{n:04}"), &[7; 4_096]));
            let kind = BulkWrite::Insert;
            assert_eq!(submit(session, Op::BulkWrite { kind, items: items.as_batch() }), Ok(1_000));
            let key = format!("{round}/0500");
            assert_eq!(submit(session, Op::Insert { key: &key, body: b"" }), Err(EXISTS));
            syncs.load(Ordering::Relaxed) - before
        };
        for round in 0..6 {
            let synced = load(if round % 2 == 0 { &mut os } else { &mut fsync }, round);
            assert_eq!(synced > 0, round % 2 == 1, "{synced} syncs in round {round}");
        }
    }
}
