//! What is in a database: whose it is, making and removing what is ours.
//!
//! The marker is a comment that begins with `storebench: `, on the schema where Storebench made it,
//! and on each table and function that it made; that of a table ends with its owner. Nothing is ever dropped with CASCADE.

use storebench_core::store::{Holdings, Layout, Namespace, Owner, Prepare, StoreError};
use storebench_core::workload::Body;

use super::channel::Channel;
use super::durability::{FACTS, Facts};
use super::login::{Connected, Target};
use super::sql::{self, MARK, MERGE, Table, identifier, literal};

/// What a look at the database found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Whether the schema exists.
    schema: bool,
    /// Whether it carries the marker.
    marked: bool,
    /// Tables of ours in the schema, with what their comments say of their form, and their owners.
    ours: Vec<(String, String, Owner)>,
    /// Whether the function that merges is there and ours.
    merge: bool,
    /// What others have in the schema.
    theirs: Vec<String>,
    /// What others have elsewhere in the database, with its schema.
    elsewhere: Vec<String>,
}

impl Found {
    /// Tables as a copy names them: those of others with their schema.
    pub(super) fn names(&self, schema: &str) -> Vec<String> {
        let theirs = self.theirs.iter().filter(|name| !name.ends_with("()")).map(|name| format!("{schema}.{name}"));
        self.ours.iter().map(|(name, ..)| name.clone()).chain(theirs).chain(self.elsewhere.iter().cloned()).collect()
    }

    pub(super) fn namespace(&self, target: &Target, schema: &str) -> Namespace {
        self.holdings(target, schema).namespace()
    }

    /// Whose the namespace is. A database that holds somebody else's tables is not ours to write
    /// into, unless the schema there carries the marker already.
    pub(super) fn holdings(&self, target: &Target, schema: &str) -> Holdings {
        Holdings {
            absent: !self.schema && self.elsewhere.is_empty(),
            foreign: self.foreign(target, schema),
            marked: self.ours.iter().map(|(name, _, owner)| (name.clone(), *owner)).collect(),
        }
    }

    fn foreign(&self, target: &Target, schema: &str) -> Option<String> {
        let place = format!("the database `{}`", target.database);
        if self.schema && self.marked && self.theirs.is_empty() || !self.schema && self.elsewhere.is_empty() {
            return None;
        }
        let what = if !self.theirs.is_empty() {
            format!("{place} with {} in the schema `{schema}`", several(&self.theirs))
        } else if self.schema {
            format!("{place} with the schema `{schema}`")
        } else {
            format!("{place} with {}", several(&self.elsewhere))
        };
        Some(what)
    }
}

fn several(names: &[String]) -> String {
    match names {
        [one] => format!("`{one}`"),
        [first, .., last] => format!("{} tables and the like (`{first}` to `{last}`)", names.len()),
        [] => "nothing".into(),
    }
}

/// Logs in and asks the server about itself.
pub(super) async fn enter(target: &Target) -> Result<(Connected, Facts), StoreError> {
    let mut connected = target.login().await?;
    let sql = format!("SET lock_timeout = '60s'; SET default_transaction_isolation = 'read committed'; {FACTS}");
    let doing = "ask it about itself";
    let rows = target.ask(doing, connected.channel.query(&sql)).await?;
    let facts = Facts::read(&rows).ok_or_else(|| {
        StoreError::Unreachable(format!("{}: it speaks PostgreSQL's protocol, but is not PostgreSQL", target.place()))
    })?;
    facts.check(&target.place())?;
    Ok((connected, facts))
}

/// Looks at what is there, changing nothing.
pub(super) async fn look(target: &Target, channel: &mut Channel, schema: &str) -> Result<Found, StoreError> {
    let name = literal(schema);
    // Relations and functions; those of extensions belong to the server, not to a user.
    let sql = format!(
        "SELECT 's', n.nspname, coalesce(obj_description(n.oid, 'pg_namespace'), '') \
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
                            AND d.objid = p.oid AND d.deptype = 'e') \
         ORDER BY 1, 2"
    );
    let rows = channel.query(&sql).await.map_err(|fault| target.fault("look at what is there", &fault))?;
    let mut found = Found::default();
    for row in rows {
        let [Some(kind), Some(name), Some(comment)] = &row[..] else { continue };
        let marked = comment.starts_with(MARK);
        match (kind.as_str(), marked) {
            ("s", _) => (found.schema, found.marked) = (true, marked),
            ("t", true) => {
                let (form, owner) = Owner::read(comment);
                found.ours.push((name.clone(), form.to_owned(), owner));
            }
            ("t", false) => found.theirs.push(name.clone()),
            ("f", true) if name == MERGE => found.merge = true,
            ("f", _) => found.theirs.push(format!("{name}()")),
            // Tables of ours in another schema, made with another `?schema=`, are not theirs.
            ("e", false) => found.elsewhere.push(name.clone()),
            _ => {}
        }
    }
    Ok(found)
}

/// Makes the layout in one transaction.
pub(super) async fn prepare(
    target: &Target,
    channel: &mut Channel,
    schema: &str,
    layout: &Layout,
    how: Prepare,
    found: &Found,
) -> Result<(), StoreError> {
    let place = target.place();
    found.holdings(target, schema).allow(&place, "another database or another ?schema=", layout, how)?;
    let mut sql = String::from("BEGIN;\n");
    let mut ours: Vec<(String, String, Owner)> = found.ours.clone();
    if how.empties() {
        for (name, ..) in ours.drain(..) {
            sql += &format!("DROP TABLE {}.{};\n", identifier(schema), identifier(&name));
        }
    }
    if !found.schema {
        sql += &format!("CREATE SCHEMA {};\n", identifier(schema));
        sql += &format!("COMMENT ON SCHEMA {} IS '{MARK}schema';\n", identifier(schema));
    }
    if !found.merge {
        if found.theirs.iter().any(|name| *name == format!("{MERGE}()")) {
            return Err(StoreError::NotOurs(format!(
                "{place} has a function `{MERGE}` in the schema `{schema}` without Storebench's marker; nothing was \
                 touched. Rename it, or use another ?schema="
            )));
        }
        let name = format!("{}.{MERGE}", identifier(schema));
        sql += &sql::create_merge("CREATE", &name);
        sql += &sql::mark_merge(&name);
        sql.push('\n');
    }
    let mut indexes = Vec::new();
    for collection in &layout.collections {
        sql::check_name(&collection.name)?;
        let (name, body) = (&collection.name, collection.body);
        let table = Table::ours(schema, name, body, false);
        if found.theirs.contains(name) {
            return Err(StoreError::NotOurs(format!(
                "{place} has `{name}` in the schema `{schema}`, which Storebench did not make; nothing was touched. \
                 Rename the collection, or use another ?schema="
            )));
        }
        let kept = ours.iter().find(|(made, ..)| made == name);
        let before = kept.map(|(.., owner)| *owner);
        let owner = how.owner(before);
        if let Some((_, mark, _)) = kept {
            check_kept(&place, name, mark, body)?;
        } else {
            let (column, ..) = Table::column(body);
            sql +=
                &format!("CREATE TABLE {} (key text COLLATE \"C\" PRIMARY KEY, doc {column} NOT NULL);\n", table.place);
        }
        if before != Some(owner) {
            sql += &format!("COMMENT ON TABLE {} IS '{}';\n", table.place, owner.mark(&Table::mark(body)));
        }
        for fields in &collection.indexes {
            let (index, create) = sql::create_index(name, &table.place, fields);
            if kept.is_some() {
                indexes.push((name.clone(), index, create));
            } else {
                sql += &create;
                sql += ";\n";
            }
        }
    }
    for (table, index, create) in indexes {
        if !has_index(target, channel, schema, &table, &index).await? {
            sql += &create;
            sql += ";\n";
        }
    }
    sql += "COMMIT";
    let doing = format!("make the collections in the schema `{schema}`");
    channel.query(&sql).await.map(drop).map_err(|fault| target.fault(&doing, &fault))
}

async fn has_index(
    target: &Target,
    channel: &mut Channel,
    schema: &str,
    table: &str,
    index: &str,
) -> Result<bool, StoreError> {
    let sql = format!(
        "SELECT 1 FROM pg_indexes WHERE schemaname = {} AND tablename = {} AND indexname = {}",
        literal(schema),
        literal(table),
        literal(index)
    );
    let rows = channel.query(&sql).await.map_err(|fault| target.fault("look at its indexes", &fault))?;
    Ok(!rows.is_empty())
}

fn check_kept(place: &str, name: &str, mark: &str, body: Body) -> Result<(), StoreError> {
    let wanted = Table::mark(body);
    if mark == wanted {
        return Ok(());
    }
    let told = |mark: &str| mark.trim_start_matches(MARK).to_owned();
    Err(StoreError::NotSupported(format!(
        "{place}: `{name}` is a {} there and would be a {} now; load it anew, or rename it",
        told(mark),
        told(&wanted)
    )))
}

/// Checks that what is to be read only is there.
pub(super) fn check_readable(target: &Target, schema: &str, layout: &Layout, found: &Found) -> Result<(), StoreError> {
    for collection in layout.collections.iter().filter(|c| c.existing.is_none()) {
        let name = &collection.name;
        match found.ours.iter().find(|(made, ..)| made == name) {
            Some((_, mark, _)) => check_kept(&target.place(), name, mark, collection.body)?,
            None => {
                return Err(StoreError::Unreachable(format!(
                    "{}: there is no collection `{name}` in the schema `{schema}` to read; load it first, or say with \
                     `existing` which table holds it",
                    target.place()
                )));
            }
        }
    }
    Ok(())
}

/// Removes what studies made in the schema, and the schema if Storebench made it and it is empty.
pub(super) async fn remove(
    target: &Target,
    channel: &mut Channel,
    schema: &str,
    found: &Found,
) -> Result<(), StoreError> {
    if !found.schema {
        return Ok(());
    }
    let schema_name = identifier(schema);
    let mut sql = String::from("BEGIN;\n");
    let holdings = found.holdings(target, schema);
    for name in holdings.removable(false) {
        sql += &format!("DROP TABLE {schema_name}.{};\n", identifier(name));
    }
    let users = found.ours.iter().any(|(.., owner)| owner.is_user());
    if found.merge && !users {
        sql += &format!("DROP FUNCTION {schema_name}.{MERGE}(jsonb, jsonb);\n");
    }
    if found.marked && found.theirs.is_empty() && !users {
        sql += &format!("DROP SCHEMA {schema_name};\n");
    }
    sql += "COMMIT";
    let doing = format!("remove Storebench's tables from the schema `{schema}`");
    channel.query(&sql).await.map(drop).map_err(|fault| target.fault(&doing, &fault))
}
