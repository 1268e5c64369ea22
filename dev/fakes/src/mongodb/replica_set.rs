//! A replica set of one that stores documents in memory and has transactions, as far as the driver's commands need it.
//!
//! Transactions see the moment of their first command (snapshot isolation). Of two that write the same document, the
//! second is aborted; a write outside of transactions waits. Each document keeps all its versions.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bson::{Bson, Document, doc};

use super::{Reply, serve, single};

/// How long a write waits for transactions that have written the same document.
const PATIENCE: Duration = Duration::from_secs(30);

/// Collection and key.
type Place = (String, String);

/// The running set.
pub struct ReplicaSet {
    /// Its port on the loopback interface.
    pub port: u16,
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    port: OnceLock<u16>,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    now: u64,
    collections: Vec<String>,
    documents: BTreeMap<Place, Vec<(u64, Option<Document>)>>,
    transactions: HashMap<Vec<u8>, Transaction>,
    commands: Vec<Document>,
    cut: Option<String>,
    silence: Vec<String>,
}

/// An open transaction of a session.
struct Transaction {
    number: i64,
    snapshot: u64,
    writes: BTreeMap<Place, Option<Document>>,
}

/// Why a command fails: code, text, and whether the transaction may be tried again.
struct Refused(i32, &'static str, bool);

impl ReplicaSet {
    /// Starts it, with no documents.
    ///
    /// # Errors
    /// If no port is available.
    pub fn start() -> std::io::Result<Self> {
        let inner = Arc::new(Inner::default());
        let answering = Arc::clone(&inner);
        let port = serve(move |name, command| {
            let answer = answering.answer(name, command);
            let mut state = answering.state();
            match () {
                () if state.cut.take_if(|cut| cut == name).is_some() => Reply::Close,
                () if state.falls_silent(name) => Reply::Silence,
                () => Reply::Answer(answer),
            }
        })?;
        let _ = inner.port.set(port);
        Ok(Self { port, inner })
    }

    /// How many transactions are open.
    pub fn open_transactions(&self) -> usize {
        self.inner.state().transactions.len()
    }

    /// Does the next such command, and closes its connection instead of answering.
    pub fn cut_at(&self, name: &str) {
        self.inner.state().cut = Some(name.to_owned());
    }

    /// Does not answer the next such command.
    pub fn silence_at(&self, name: &str) {
        self.inner.state().silence.push(name.to_owned());
    }

    /// All commands so far.
    pub fn commands(&self) -> Vec<Document> {
        self.inner.state().commands.clone()
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, name: &str, command: &Document) -> Document {
        let mut state = self.state();
        state.commands.push(command.clone());
        let session = command.get_document("lsid").ok().and_then(session_of);
        let number = command.get_i64("txnNumber").unwrap_or(0);
        let within = session.filter(|_| is(command, "autocommit") == Some(false));
        let answer = match (name, &within) {
            ("commitTransaction" | "abortTransaction", Some(session)) => {
                let answer = state.end(session, number, name == "commitTransaction");
                self.ended.notify_all();
                answer
            }
            (_, Some(session)) => {
                if is(command, "startTransaction") == Some(true) {
                    let snapshot = state.now;
                    state
                        .transactions
                        .insert(session.clone(), Transaction { number, snapshot, writes: BTreeMap::new() });
                }
                let answer = match state.transactions.get(session) {
                    Some(known) if known.number == number => state.run(name, command, Some(session)),
                    _ => Err(Refused(251, "the transaction is not known", true)),
                };
                let failed = answer.as_ref().map_or(true, |answer| answer.contains_key("writeErrors"));
                if failed {
                    state.transactions.remove(session);
                    self.ended.notify_all();
                }
                answer
            }
            (_, None) => {
                let waiting = |state: &mut State| state.is_written(name, command);
                let waited = self.ended.wait_timeout_while(state, PATIENCE, waiting);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                match name {
                    "hello" => Ok(self.hello()),
                    _ => state.run(name, command, None),
                }
            }
        };
        answer.unwrap_or_else(|Refused(code, text, again)| {
            let labels: &[&str] = if again { &["TransientTransactionError"] } else { &[] };
            doc! { "ok": 0.0, "code": code, "errmsg": text, "errorLabels": labels }
        })
    }

    fn hello(&self) -> Document {
        let here = format!("127.0.0.1:{}", self.port.get().copied().unwrap_or_default());
        let mut hello = single();
        hello.extend(doc! { "setName": "rs", "hosts": [here.clone()], "primary": here });
        hello
    }
}

impl State {
    /// Whether this command is the one that gets no answer.
    fn falls_silent(&mut self, name: &str) -> bool {
        let place = self.silence.iter().position(|silence| silence == name);
        place.map(|place| self.silence.remove(place)).is_some()
    }

    fn end(&mut self, session: &[u8], number: i64, commits: bool) -> Result<Document, Refused> {
        if self.transactions.get(session).is_none_or(|known| known.number != number) {
            return Err(Refused(251, "the transaction is not known", true));
        }
        let ended = self.transactions.remove(session);
        if let Some(ended) = ended.filter(|_| commits) {
            self.now += 1;
            for (place, document) in ended.writes {
                self.documents.entry(place).or_default().push((self.now, document));
            }
        }
        Ok(doc! { "ok": 1.0 })
    }

    /// Whether a transaction has written a document that this command is about to write.
    fn is_written(&self, name: &str, command: &Document) -> bool {
        let collection = command.get_str(name).unwrap_or_default();
        let writes = |key: &str| {
            let place = (collection.to_owned(), key.to_owned());
            self.transactions.values().any(|open| open.writes.contains_key(&place))
        };
        let list = |of: &str| command.get_array(of).cloned().unwrap_or_default();
        let keys = list("documents").into_iter().chain(list("updates")).chain(list("deletes"));
        keys.filter_map(|item| key_of(item.as_document()?)).any(|key| writes(&key))
    }

    fn run(&mut self, name: &str, command: &Document, session: Option<&Vec<u8>>) -> Result<Document, Refused> {
        let collection = command.get_str(name).unwrap_or_default().to_owned();
        let items = |of: &str| -> Vec<Document> {
            let all = command.get_array(of).cloned().unwrap_or_default();
            all.into_iter().filter_map(|item| item.as_document().cloned()).collect()
        };
        let listed = |documents: Vec<Document>| {
            let ns = format!("d.{collection}");
            Ok(doc! { "ok": 1.0, "cursor": { "id": 0_i64, "ns": ns, "firstBatch": documents } })
        };
        match name {
            "killSessions" => {
                let killed: Vec<_> = items(name).iter().filter_map(session_of).collect();
                self.transactions.retain(|session, _| !killed.contains(session));
                Ok(doc! { "ok": 1.0 })
            }
            "create" => {
                if self.collections.contains(&collection) {
                    return Err(Refused(48, "it exists", false));
                }
                self.collections.push(collection);
                Ok(doc! { "ok": 1.0 })
            }
            "drop" => {
                self.collections.retain(|known| *known != collection);
                self.documents.retain(|(of, _), _| *of != collection);
                Ok(doc! { "ok": 1.0 })
            }
            "listCollections" => listed(self.collections.iter().map(|name| doc! { "name": name }).collect()),
            "find" => {
                let filter = command.get_document("filter").cloned().unwrap_or_default();
                let mut found = self.matching(&collection, &filter, session);
                let limit = command.get("limit").and_then(number).unwrap_or(0.0);
                if limit > 0.0 {
                    found.truncate(limit as usize);
                }
                listed(found)
            }
            "aggregate" => {
                let stages = items("pipeline");
                let filter = stages.iter().find_map(|stage| stage.get_document("$match").ok().cloned());
                listed(self.matching(&collection, &filter.unwrap_or_default(), session))
            }
            "insert" => {
                let mut written = 0;
                let mut errors = Vec::new();
                self.know(&collection);
                for (index, document) in items("documents").into_iter().enumerate() {
                    let key = document.get_str("_id").unwrap_or_default().to_owned();
                    if self.seen(&(collection.clone(), key.clone()), session).is_some() {
                        errors.push(doc! { "index": index as i32, "code": 11_000, "errmsg": "duplicate key" });
                        continue;
                    }
                    self.write((collection.clone(), key), Some(document), session)?;
                    written += 1;
                }
                Ok(counted(written, errors))
            }
            "update" => {
                let mut written = 0;
                self.know(&collection);
                for update in items("updates") {
                    let filter = update.get_document("q").cloned().unwrap_or_default();
                    let new = update.get_document("u").cloned().unwrap_or_default();
                    let found = self.matching(&collection, &filter, session);
                    let upserts = is(&update, "upsert") == Some(true);
                    let Some(key) = key_of(&update).filter(|_| upserts || !found.is_empty()) else { continue };
                    let document = match new.get_document("$set") {
                        Ok(set) => {
                            let mut changed = found.first().cloned().unwrap_or_default();
                            changed.extend(set.clone());
                            changed
                        }
                        Err(_) => new,
                    };
                    self.write((collection.clone(), key), Some(document), session)?;
                    written += 1;
                }
                Ok(counted(written, vec![]))
            }
            "delete" => {
                let mut written = 0;
                for delete in items("deletes") {
                    let filter = delete.get_document("q").cloned().unwrap_or_default();
                    for document in self.matching(&collection, &filter, session) {
                        let key = document.get_str("_id").unwrap_or_default().to_owned();
                        self.write((collection.clone(), key), None, session)?;
                        written += 1;
                    }
                }
                Ok(counted(written, vec![]))
            }
            _ => Ok(super::usual(name, &single())),
        }
    }

    fn know(&mut self, collection: &str) {
        if !self.collections.iter().any(|known| known == collection) {
            self.collections.push(collection.to_owned());
        }
    }

    /// The document there, as this session sees it.
    fn seen(&self, place: &Place, session: Option<&Vec<u8>>) -> Option<&Document> {
        let open = session.and_then(|session| self.transactions.get(session));
        if let Some(own) = open.and_then(|open| open.writes.get(place)) {
            return own.as_ref();
        }
        let until = open.map_or(u64::MAX, |open| open.snapshot);
        self.documents.get(place)?.iter().rev().find(|(at, _)| *at <= until)?.1.as_ref()
    }

    fn matching(&self, collection: &str, filter: &Document, session: Option<&Vec<u8>>) -> Vec<Document> {
        let open = session.and_then(|session| self.transactions.get(session));
        let own = open.into_iter().flat_map(|open| open.writes.keys());
        let mut places: Vec<&Place> = self.documents.keys().chain(own).filter(|(of, _)| of == collection).collect();
        places.sort_unstable();
        places.dedup();
        let seen = places.into_iter().filter_map(|place| self.seen(place, session));
        seen.filter(|document| filter.iter().all(|(name, wanted)| fits(document.get(name), wanted))).cloned().collect()
    }

    fn write(&mut self, place: Place, document: Option<Document>, session: Option<&Vec<u8>>) -> Result<(), Refused> {
        let Some(session) = session else {
            self.now += 1;
            self.documents.entry(place).or_default().push((self.now, document));
            return Ok(());
        };
        let conflict = Err(Refused(112, "write conflict", true));
        let another = self.transactions.iter().any(|(of, open)| of != session && open.writes.contains_key(&place));
        let latest = self.documents.get(&place).and_then(|versions| versions.last()).map_or(0, |(at, _)| *at);
        match self.transactions.get_mut(session) {
            Some(open) if !another && latest <= open.snapshot => {
                open.writes.insert(place, document);
                Ok(())
            }
            _ => conflict,
        }
    }
}

/// The key of a document, or of what an update or delete looks for.
fn key_of(item: &Document) -> Option<String> {
    let of = item.get_document("q").unwrap_or(item);
    of.get_str("_id").ok().map(str::to_owned)
}

fn counted(written: i32, errors: Vec<Document>) -> Document {
    let mut answer = doc! { "ok": 1.0, "n": written };
    if !errors.is_empty() {
        answer.insert("writeErrors", errors);
    }
    answer
}

fn session_of(lsid: &Document) -> Option<Vec<u8>> {
    match lsid.get("id")? {
        Bson::Binary(id) => Some(id.bytes.clone()),
        _ => None,
    }
}

fn is(document: &Document, name: &str) -> Option<bool> {
    document.get_bool(name).ok()
}

fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        _ => None,
    }
}

/// Whether a member has the value, or fulfils the operators, of a filter.
fn fits(found: Option<&Bson>, wanted: &Bson) -> bool {
    let Some(found) = found else { return false };
    let order = |than: &Bson| match (found, than) {
        (Bson::String(found), Bson::String(than)) => Some(found.cmp(than)),
        _ => number(found)?.partial_cmp(&number(than)?),
    };
    match wanted {
        Bson::Document(operators) if operators.keys().any(|name| name.starts_with('$')) => {
            operators.iter().all(|(operator, than)| match operator.as_str() {
                "$gte" => order(than).is_some_and(std::cmp::Ordering::is_ge),
                "$lt" => order(than).is_some_and(std::cmp::Ordering::is_lt),
                "$in" => than.as_array().is_some_and(|all| all.contains(found)),
                _ => false,
            })
        }
        wanted => found == wanted || order(wanted) == Some(std::cmp::Ordering::Equal),
    }
}
