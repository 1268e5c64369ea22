//! The contents of a database: who owns what, and making and removing what is ours.
//!
//! The marker is a comment that begins with `storebench: `. It is on the schema, if Storebench made it, and on each
//! table and function that Storebench made. The comment of a table ends with its owner. Nothing is ever dropped with
//! CASCADE.
//!
//! Making and removing take turns through an advisory lock of the schema. They do nothing if the schema has changed
//! since the last look.

use storebench_engine::store::{Holdings, Layout, Marked, Removal, Site, SiteOutcome, StoreError, Wanted, several};
use storebench_study::workload::Body;
use xxhash_rust::xxh3::xxh3_64;

use super::channel::Fault;
use super::durability::{FACTS, Facts};
use super::login::{Connected, Target};
use super::sql::{self, MARK, MERGE, Table, identifier, literal};

/// The SQLSTATE with which a transaction ends if the schema has changed since the last look.
const CHANGED: &str = "SB001";

/// A schema, and what the last look found in it.
pub(super) struct Schema<'s> {
    server: &'s mut Connected,
    schema: &'s str,
    /// Whether it exists.
    exists: bool,
    /// Whether the merge function exists and is ours.
    merge: bool,
    /// Objects of other programs in it. Names of functions end with `()`.
    theirs: Vec<String>,
    /// A digest of the schema's objects and their comments.
    digest: String,
}

impl<'s> Schema<'s> {
    pub(super) fn new(server: &'s mut Connected, schema: &'s str) -> Self {
        Self { server, schema, exists: false, merge: false, theirs: Vec::new(), digest: String::new() }
    }

    /// A query for relations and functions with their comments, and for a digest of those in the schema. Objects of
    /// extensions belong to the server, not to a user.
    fn contents(&self) -> String {
        let name = literal(self.schema);
        format!(
            "WITH there (kind, name, comment) AS (\
             SELECT 's', n.nspname::text, coalesce(obj_description(n.oid, 'pg_namespace'), '') \
               FROM pg_namespace n WHERE n.nspname = {name} \
             UNION ALL \
             SELECT CASE WHEN n.nspname = {name} THEN 't' ELSE 'e' END, \
                    CASE WHEN n.nspname = {name} THEN c.relname ELSE n.nspname || '.' || c.relname END, \
                    coalesce(obj_description(c.oid, 'pg_class'), '') \
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
              WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND c.relpersistence <> 't' \
                AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' \
                AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass \
                                AND d.objid = c.oid AND d.deptype IN ('e', 'i', 'a')) \
             UNION ALL \
             SELECT 'f', p.proname, coalesce(obj_description(p.oid, 'pg_proc'), '') \
               FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
              WHERE n.nspname = {name} \
                AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass \
                                AND d.objid = p.oid AND d.deptype = 'e')) \
             SELECT * FROM there UNION ALL \
             SELECT 'd', md5(string_agg(there::text, ',' ORDER BY there)), '' FROM there WHERE kind <> 'e' ORDER BY 1, 2"
        )
    }

    /// Runs statements in a transaction, if the schema has not changed since the last look.
    async fn if_unchanged(&mut self, doing: &str, statements: &str) -> Result<SiteOutcome, StoreError> {
        let check = format!(
            "BEGIN IF (SELECT name FROM ({}) AS found WHERE kind = 'd') IS DISTINCT FROM {} THEN \
             RAISE EXCEPTION 'changed' USING ERRCODE = '{CHANGED}'; END IF; END",
            self.contents(),
            if self.digest.is_empty() { "NULL".to_owned() } else { literal(&self.digest) }
        );
        let turn = xxh3_64(self.schema.as_bytes()).cast_signed();
        let sql = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({turn});\nDO {};\n{statements}COMMIT",
            literal(&check)
        );
        match self.server.channel.query(&sql).await {
            Ok(_) => Ok(SiteOutcome::Done),
            Err(Fault::Server(error)) if error.code == CHANGED => {
                self.server.query(doing, "ROLLBACK").await?;
                Ok(SiteOutcome::Changed)
            }
            Err(fault) => Err(self.server.target.fault(doing, &fault)),
        }
    }

    /// Describes what belongs to other programs. A database with their tables is not ours to write into, unless the
    /// schema in it already carries the marker.
    fn foreign(&self, marked: bool, elsewhere: &[String]) -> Option<String> {
        let place = format!("the database `{}`", self.server.target.database);
        let within = several("object", &self.theirs);
        match (within, several("object", elsewhere)) {
            (Some(theirs), _) => Some(format!("{place} with {theirs} in the schema `{}`", self.schema)),
            (None, _) if self.exists && marked => None,
            (None, _) if self.exists => Some(format!("{place} with the schema `{}`", self.schema)),
            (None, Some(elsewhere)) => Some(format!("{place} with {elsewhere}")),
            (None, None) => None,
        }
    }

    /// The statements that create the objects and their marks, and those that create indexes of existing tables.
    async fn statements(&mut self, wanted: &Wanted<'_>) -> Result<(String, String), StoreError> {
        let schema = identifier(self.schema);
        let (mut sql, mut later) = (String::new(), String::new());
        if !self.exists {
            sql += &format!("CREATE SCHEMA {schema};\nCOMMENT ON SCHEMA {schema} IS '{MARK}schema';\n");
        }
        if !self.merge {
            let name = format!("{schema}.{MERGE}");
            sql += &sql::create_merge("CREATE", &name);
            sql += &sql::mark_merge(&name);
            sql.push('\n');
        }
        for planned in &wanted.collections {
            let (name, body) = (planned.name(), planned.layout.body);
            let table = Table::ours(self.schema, name, body, false);
            if planned.is_new() {
                let (column, ..) = Table::column(body);
                sql += &format!(
                    "CREATE TABLE {} (key text COLLATE \"C\" PRIMARY KEY, doc {column} NOT NULL);\n",
                    table.place
                );
            }
            if planned.marks() {
                sql += &format!("COMMENT ON TABLE {} IS '{MARK}{}';\n", table.place, planned.mark);
            }
            for fields in &planned.layout.indexes {
                let (index, create) = sql::create_index(name, &table.place, fields);
                if planned.is_new() {
                    sql += &format!("{create};\n");
                } else if !self.has_index(name, &index).await? {
                    later += &format!("{create};\n");
                }
            }
        }
        Ok((sql, later))
    }

    async fn has_index(&mut self, table: &str, index: &str) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT 1 FROM pg_indexes WHERE schemaname = {} AND tablename = {} AND indexname = {}",
            literal(self.schema),
            literal(table),
            literal(index)
        );
        Ok(!self.server.query("read its indexes", &sql).await?.is_empty())
    }
}

impl Site for Schema<'_> {
    const ANOTHER: &'static str = "another database or another ?schema=";

    fn shown(&self) -> String {
        self.server.target.place()
    }

    fn form(&self, body: Body) -> String {
        let what = if body == Body::Counter { "counters" } else { body.name() };
        format!("collection of {what}")
    }

    fn check(&self, layout: &Layout) -> Result<(), StoreError> {
        layout.collections.iter().try_for_each(|collection| sql::check_name(&collection.name))
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let sql = self.contents();
        let rows = self.server.query("list its tables", &sql).await?;
        let (mut marked, mut elsewhere) = (false, Vec::new());
        (self.exists, self.merge, self.theirs, self.digest) = (false, false, Vec::new(), String::new());
        let mut found = Holdings::default();
        for row in rows {
            let [Some(kind), Some(name), Some(comment)] = &row[..] else { continue };
            match (kind.as_str(), comment.strip_prefix(MARK)) {
                ("d", _) => self.digest.clone_from(name),
                ("s", mark) => (self.exists, marked) = (true, mark.is_some()),
                ("t", Some(mark)) => found.marked.push(Marked::new(name, mark)),
                ("t", None) => {
                    self.theirs.push(name.clone());
                    found.theirs.push(format!("{}.{name}", self.schema));
                }
                ("f", Some(_)) if name == MERGE => self.merge = true,
                ("f", _) => self.theirs.push(format!("{name}()")),
                // Our tables in another schema, made with another `?schema=`, are not foreign.
                ("e", None) => elsewhere.push(name.clone()),
                _ => {}
            }
        }
        found.absent = !self.exists && elsewhere.is_empty();
        found.foreign = self.foreign(marked, &elsewhere);
        found.made = (marked || self.merge || !found.marked.is_empty()).then_some(marked);
        found.theirs.append(&mut elsewhere);
        Ok(found)
    }

    async fn taken(&mut self, _found: &Holdings, names: &[&str]) -> Result<Option<String>, StoreError> {
        let merge = format!("{MERGE}()");
        let taken = |theirs: &&String| names.contains(&theirs.as_str()) || (!self.merge && **theirs == merge);
        let theirs = self.theirs.iter().find(taken);
        Ok(theirs.map(|name| format!("`{name}` in the schema `{}`", self.schema)))
    }

    /// Uses one transaction, except for indexes of existing tables, which may take long.
    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        let (statements, later) = self.statements(wanted).await?;
        let doing = format!("create the collections in the schema `{}`", self.schema);
        let made = self.if_unchanged(&doing, &statements).await?;
        if made == SiteOutcome::Done && !later.is_empty() {
            self.server.query(&doing, &later).await?;
        }
        Ok(made)
    }

    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        let schema = identifier(self.schema);
        let mut sql = String::new();
        for Marked { name, .. } in &removal.going {
            sql += &format!("DROP TABLE {schema}.{};\n", identifier(name));
        }
        // A schema that will be filled again keeps its privileges.
        if self.merge && removal.left.is_empty() && !removal.again {
            sql += &format!("DROP FUNCTION {schema}.{MERGE}(jsonb, jsonb);\n");
        }
        if removal.whole && !removal.again {
            sql += &format!("DROP SCHEMA {schema};\n");
        }
        let doing = format!("remove Storebench's tables from the schema `{}`", self.schema);
        self.if_unchanged(&doing, &sql).await
    }
}

/// Logs in and reads the server's version and settings.
pub(super) async fn enter(target: &Target) -> Result<(Connected, Facts), StoreError> {
    let mut connected = target.login().await?;
    let sql = format!("SET lock_timeout = '60s'; SET default_transaction_isolation = 'read committed'; {FACTS}");
    let doing = "read its version and settings";
    let rows = target.ask(doing, connected.channel.query(&sql)).await?;
    let facts = Facts::read(&rows).ok_or_else(|| {
        StoreError::Unreachable(format!(
            "{}: the server speaks PostgreSQL's protocol, but is not PostgreSQL",
            target.place()
        ))
    })?;
    facts.check(&target.place())?;
    Ok((connected, facts))
}
