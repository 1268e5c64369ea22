//! The store: its capabilities, and its control calls.

use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{
    Account, Capabilities, CollectionId, CollectionLayout, Description, Durability, Holdings, Isolation, Layout,
    LocalFuture, OpKind, Prepare, ReadConsistency, RowStream, Rows, RowsKind, Runtime, SameKeys, SessionOptions,
    Site as _, Stats, Store, StoreError, StoreSettings, Support, Transactions, prepare, remove,
};
use storebench_study::workload::Body;

use super::SCHEME;
use super::dialect::DynamoDialect;
use super::errors::Consumed;
use super::server::{Found, Kind, Server};
use super::site::Tables;
use super::table::{EXPIRES, Table};
use super::target::Target;
use super::walk::{self, SEGMENTS, Walk};
use crate::http::HttpSession;
use crate::net::{self, Control, Memo};
use crate::refusals::check_guaranteed;
use crate::registry::Options;

/// The timeout of a control call.
const PATIENCE: Duration = Duration::from_secs(60);
const UNORDERED: &str = "DynamoDB hashes keys, so they have no order";

/// The DynamoDB store.
pub(crate) struct DynamoStore {
    target: Target,
    control: Control,
    kind: Memo<Kind>,
    ready: Memo<Ready>,
    consumed: Arc<Consumed>,
}

/// What `prepare` found out.
#[derive(Clone)]
struct Ready {
    tables: Arc<[Table]>,
    read_only: bool,
}

impl DynamoStore {
    /// Reads the URL. Does not connect.
    ///
    /// # Errors
    /// `BadUrl`.
    pub(crate) fn new(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let target = Target::read(url, options)?;
        let (control, kind, ready, consumed) = Default::default();
        Ok(Self { target, control, kind, ready, consumed })
    }

    fn shown(&self) -> &str {
        &self.target.address.shown
    }

    fn ready(&self) -> Result<Ready, StoreError> {
        self.ready.prepared(self.shown())
    }

    /// What the server is, as far as it is known.
    fn known(&self) -> Option<Kind> {
        self.kind.get().or(self.target.is_aws.then_some(Kind::Aws))
    }

    /// Identifies the server. It does so each time, because the server may have been replaced. `existing` is a table
    /// of which the user knows.
    async fn greeted(&self, patience: Duration, existing: Option<&str>) -> Result<Server, StoreError> {
        let (server, ready) = (self.target.server(patience), self.ready().ok());
        let known = ready.as_ref().and_then(|ready| ready.tables.first()).map(|table| table.name.as_str());
        self.kind.set(server.kind(self.target.is_aws, existing.or(known)).await?);
        Ok(server)
    }

    fn site<'s>(&'s self, server: &'s Server) -> Tables<'s> {
        Tables { server, native: self.target.native, shown: self.shown() }
    }

    async fn make_ready(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        crate::existing::refuse_fields("DynamoDB", layout)?;
        let existing = layout.collections.iter().find_map(|collection| collection.existing.as_ref());
        let server = self.greeted(PATIENCE, existing.map(|existing| existing.name.as_str())).await?;
        let mut site = self.site(&server);
        if !how.makes_nothing() {
            prepare(&mut site, layout, how).await?;
        } else if layout.collections.iter().any(|collection| collection.existing.is_none()) {
            site.look().await?.check_made(&site, layout)?;
        }
        let mut tables = Vec::new();
        for collection in &layout.collections {
            tables.push(match &collection.existing {
                Some(existing) => self.theirs(&server, &existing.name, collection.body, how).await?,
                None => ours(&server, site.table(collection)).await?,
            });
        }
        self.ready.set(Ready { tables: tables.into(), read_only: how == Prepare::ReadOnly });
        Ok(())
    }

    /// A table that the user names.
    async fn theirs(&self, server: &Server, name: &str, body: Body, how: Prepare) -> Result<Table, StoreError> {
        let no = |text: String| Err(StoreError::NotSupported(format!("{}: {text}", self.shown())));
        let Some(told) = server.rested(name).await? else {
            return no(format!("there is no table `{name}`; name one that exists, or load it first"));
        };
        if how == Prepare::WriteExisting && matches!(server.mark_of(name).await?, Found::Marked(_)) {
            return Err(Holdings::default().not_theirs(self.shown(), name));
        }
        if how == Prepare::WriteExisting && body != Body::Json {
            return no(format!("`{name}` holds items; bytes and counters require tables that Storebench created"));
        }
        let expires = server.expires(name).await?;
        match Table::theirs(name.to_owned(), &told, expires) {
            Some(table) => Ok(table),
            None => no(format!("the server does not describe the keys of `{name}`")),
        }
    }

    fn table(&self, collection: CollectionId) -> Result<Table, StoreError> {
        net::collection(&self.ready()?.tables, collection).cloned()
    }
}

/// One of Storebench's tables, with the indexes that it has.
async fn ours(server: &Server, mut table: Table) -> Result<Table, StoreError> {
    let told = server.rested(&table.name).await?.unwrap_or_default();
    table.expires = server.expires(&table.name).await?.filter(|name| name == EXPIRES);
    match table.take_indexes(&told) {
        None => Ok(table),
        Some(field) => Err(StoreError::NotSupported(format!(
            "the table `{}` has no index over `{field}`, and its documents were written without one; load them again",
            table.name
        ))),
    }
}

impl Store for DynamoStore {
    type Session = HttpSession<DynamoDialect>;

    fn describe(&self) -> Description {
        let version = self.known().map_or("DynamoDB, not yet contacted", Kind::version).to_owned();
        Description { scheme: SCHEME.name, url: self.shown().to_owned(), version }
    }

    fn capabilities(&self) -> Capabilities {
        let durability = match self.known().unwrap_or(Kind::Unknown) {
            Kind::Aws => vec![
                (Durability::FSYNC, "AWS stores each write on disks in more than one zone before it answers"),
                (Durability::MAJORITY, "the same"),
            ],
            Kind::Alternator => vec![(Durability::MAJORITY, "LOCAL_QUORUM; commit logs are synced every 10 seconds")],
            Kind::Dynalite | Kind::Unknown => vec![(Durability::MEMORY, "what this server promises is not known")],
        };
        let ready = self.ready().ok();
        let reads_theirs = ready.as_ref().is_some_and(|ready| ready.tables.iter().any(Table::is_theirs));
        let writes_theirs = reads_theirs && ready.as_ref().is_some_and(|ready| !ready.read_only);
        let touches = ready.as_ref().map_or(self.known() != Some(Kind::Dynalite), |ready| {
            ready.tables.iter().all(|table| !table.is_theirs() && table.expires.is_some())
        });
        let native = self.target.native || reads_theirs;
        let transacts = !reads_theirs && self.known().unwrap_or(Kind::Unknown).has_transactions();
        Capabilities {
            operations: operations(writes_theirs, touches, transacts),
            transactions: Transactions {
                isolation: vec![(Isolation::Serializable, "reads, then writes if what was read is unchanged")],
                steps: Transactions::STEPS,
                rolls_back: true,
                ..Transactions::default()
            },
            why_not: vec![
                (OpKind::Scan, UNORDERED),
                (OpKind::Prefix, UNORDERED),
                (OpKind::Transaction, "this server has no TransactWriteItems, or the table is not Storebench's"),
                (OpKind::Touch, "the table has no time to live in an attribute of Storebench"),
            ],
            shipped_durability: durability[0].0,
            durability,
            consistency: vec![
                (ReadConsistency::StaleOk, "eventually consistent reads, at half the price"),
                (ReadConsistency::Session, "same as strong"),
                (ReadConsistency::Strong, "ConsistentRead; pages by a field are eventually consistent all the same"),
            ],
            indexes: true,
            gives_up_at_timeout: true,
            reserved_members: if native && !writes_theirs { &["sb_*"] } else { &[] },
            unique_names: native,
            expires_late_by: Some(Duration::from_secs(48 * 3600)),
            rows: &[RowsKind::Walk],
            notes: vec![
                "A document larger than 400 KB is refused; so is a key longer than 2048 bytes, and an empty one.",
                "Each index stores an item once more, which has 50 bytes besides its document. DynamoDB bills that.",
                "An index over several fields serves pages by the first one. Arrays and objects are not indexed.",
                "Bytes are sent as base64, which makes requests a third larger.",
                "An expired document is removed within days, and is read until then. moto removes none.",
                "A table that is made or removed takes seconds at AWS; the driver waits for it.",
                "Tested against dynalite 4.0 and moto 5.2 only, and neither with DynamoDB itself nor with ScyllaDB.",
            ],
            ..Capabilities::default()
        }
    }

    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }

    fn answers(&self) -> Result<(), StoreError> {
        self.control.block_on(self.greeted(PATIENCE, None)).map(drop)
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        self.control.block_on(async { self.site(&self.greeted(PATIENCE, None).await?).look().await })
    }

    fn full_name(&self, collection: &CollectionLayout) -> String {
        let ours = || format!("{}{}", self.target.prefix, collection.name);
        collection.existing.as_ref().map_or_else(ours, |existing| existing.name.clone())
    }

    fn collections(&self) -> Result<Vec<String>, StoreError> {
        self.control.block_on(async {
            let server = self.greeted(PATIENCE, None).await?;
            let mut names = server.tables().await?;
            names.retain(|name| !name.starts_with(&self.target.prefix));
            names.extend(self.site(&server).look().await?.names());
            Ok(names)
        })
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        self.control.block_on(self.make_ready(layout, how))
    }

    async fn open(&self, options: &SessionOptions) -> Result<Self::Session, StoreError> {
        let ready = self.ready()?;
        self.greeted(options.timeout.max(Duration::from_secs(1)), None).await?;
        if !ready.read_only {
            check_guaranteed(options.durability, &self.capabilities(), &self.describe().version)?;
        }
        let dialect = DynamoDialect {
            tables: ready.tables,
            signer: self.target.signer.clone(),
            read_only: ready.read_only,
            strong: options.consistency != ReadConsistency::StaleOk,
            consumed: Arc::clone(&self.consumed),
            random: fastrand::Rng::new(),
            scratch: Vec::new(),
        };
        HttpSession::open(dialect, self.target.http.clone(), options).await
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        let names = ["consumed_read_units_total", "consumed_write_units_total"].map(str::to_owned);
        Ok(names.into_iter().zip(self.consumed.units()).collect())
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        let mut settings = StoreSettings::default();
        let server = self.target.server(PATIENCE);
        for Table { name, .. } in self.ready()?.tables.iter() {
            let told = self.control.block_on(server.describe(name))?.unwrap_or_default();
            for setting in [
                "BillingModeSummary/BillingMode",
                "TableClassSummary/TableClass",
                "ProvisionedThroughput/ReadCapacityUnits",
                "ProvisionedThroughput/WriteCapacityUnits",
            ] {
                if let Some(value) = told.pointer(&format!("/{setting}")) {
                    settings.add(format!("{name}/{setting}"), value.to_string().trim_matches('"'), None);
                }
            }
        }
        Ok(settings)
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        let table = self.table(collection)?;
        self.control.block_on(async { walk::sample(&self.target.server(PATIENCE), &table, at_most, seed).await })
    }

    /// Keys have no order, so there is nothing to cut.
    fn cuts(&self, _collection: CollectionId, _ranges: usize) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    fn account(&self, collection: CollectionId) -> Result<Account, StoreError> {
        let theirs = Some(self.table(collection)?).filter(Table::is_theirs);
        let evicts = theirs.and_then(|table| table.expires).map(|name| format!("TimeToLive on `{name}`"));
        Ok(Account { evicts, ..Account::default() })
    }

    fn same_keys(&self, collection: CollectionId) -> SameKeys {
        let is_number = |table: Table| table.keys.len() == 1 && table.keys[0].kind == 'N';
        if self.table(collection).is_ok_and(is_number) { SameKeys::Number } else { SameKeys::Exact }
    }

    fn key_members(&self, collection: CollectionId) -> Vec<String> {
        let theirs = self.table(collection).ok().filter(Table::is_theirs);
        theirs.map(|table| table.keys.into_iter().map(|key| key.name).collect()).unwrap_or_default()
    }

    fn parts(&self) -> Result<Vec<String>, StoreError> {
        Ok((0..SEGMENTS).map(|segment| format!("segment {segment} of {SEGMENTS}")).collect())
    }

    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Box::pin(async move {
            let Rows::Walk { collection, part } = rows else {
                return Err(StoreError::NotSupported("DynamoDB streams only whole tables".into()));
            };
            let unknown = || StoreError::Failed(format!("`{part}` is not a segment of this version"));
            let segment = self.parts()?.iter().position(|segment| segment == part).ok_or_else(unknown)?;
            let (server, table) = (self.target.server(PATIENCE), self.table(collection)?);
            Ok(Box::new(Walk::new(server, table, segment, Arc::clone(&self.consumed))) as Box<dyn RowStream>)
        })
    }

    fn close(&self) -> Result<(), StoreError> {
        self.ready.take();
        Ok(())
    }

    fn remove(&self) -> Result<(), StoreError> {
        self.ready.take();
        self.control.block_on(async {
            let server = self.greeted(PATIENCE, None).await?;
            remove(&mut self.site(&server)).await
        })
    }
}

fn operations(writes_theirs: bool, touches: bool, transacts: bool) -> Vec<(OpKind, Support)> {
    let of_revisions = [OpKind::Append, OpKind::Prepend, OpKind::MergePatch, OpKind::Counter, OpKind::CompareAndSwap];
    let supports = |kind| match kind {
        OpKind::Prefix | OpKind::Scan | OpKind::View | OpKind::Query => None,
        OpKind::Touch if !touches => None,
        OpKind::Transaction if !transacts => None,
        OpKind::Transaction => Some(Support::Approximated("TransactGetItems, then conditional TransactWriteItems")),
        kind if writes_theirs && of_revisions.contains(&kind) => None,
        OpKind::Append | OpKind::Prepend | OpKind::MergePatch => {
            Some(Support::Approximated("reads the document, and writes it if its revision is the same; else again"))
        }
        OpKind::BulkUpsert => Some(Support::Approximated("BatchWriteItem: 25 documents, one request after another")),
        OpKind::BulkRead => Some(Support::Approximated("BatchGetItem: 100 documents, one request after another")),
        OpKind::BulkInsert => Some(Support::Approximated("PutItem, one by one: BatchWriteItem takes no conditions")),
        OpKind::BulkDelete => Some(Support::Approximated("DeleteItem, one by one: BatchWriteItem tells no outcome")),
        OpKind::Page => Some(Support::Approximated("Query of a global secondary index, which AWS updates later")),
        _ => Some(Support::Native),
    };
    OpKind::ALL.into_iter().filter_map(|kind| supports(kind).map(|support| (kind, support))).collect()
}
