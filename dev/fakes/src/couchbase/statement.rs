//! The SQL++ statements that Storebench's driver and the SDK send, and no others.

/// Bucket, scope and collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keyspace {
    pub bucket: String,
    pub scope: String,
    pub collection: String,
}

/// The criterion of a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum By {
    /// A field that equals `$value`.
    Field(String),
    /// Keys from `$start`, and if `end` up to `$end`.
    Keys { end: bool },
    /// All keys from the `$offset`-th.
    Offset,
    /// The query of the conformance suite: documents of `$user` whose `n` is at least `$n`, in the order of `n`.
    UserAndNumber,
}

/// A selection of documents by index or by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Select {
    pub collection: String,
    pub bodies: bool,
    pub by: By,
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    CreateIndex {
        name: String,
        on: Keyspace,
        fields: Vec<String>,
    },
    CreatePrimary {
        name: String,
        on: Keyspace,
    },
    DropIndex {
        name: String,
        on: Keyspace,
    },
    /// `system:indexes` of a collection.
    Indexes(Keyspace),
    Select(Select),
    Explain(Select),
    /// The number of documents in a collection.
    Count(String),
}

/// Parses a statement. `None` if it is not a supported one.
pub(super) fn parse(text: &str) -> Option<Statement> {
    let mut at = Reader(text.trim());
    let statement = if at.eat("CREATE PRIMARY INDEX ") {
        let name = at.name()?;
        at.then(" ON ")?;
        Statement::CreatePrimary { name, on: at.keyspace()? }
    } else if at.eat("CREATE INDEX ") {
        let name = at.name()?;
        at.then(" ON ")?;
        let on = at.keyspace()?;
        at.then(" (")?;
        let mut fields = vec![at.name()?];
        while at.eat(",") {
            fields.push(at.name()?);
        }
        at.then(")")?;
        Statement::CreateIndex { name, on, fields }
    } else if at.eat("DROP INDEX ") {
        let name = at.name()?;
        at.then(" ON ")?;
        Statement::DropIndex { name, on: at.keyspace()? }
    } else if at.eat("SELECT `idx`.* FROM system:indexes AS idx WHERE (bucket_id=") {
        let bucket = at.text()?;
        at.then(" AND scope_id=")?;
        let scope = at.text()?;
        at.then(" AND keyspace_id=")?;
        let collection = at.text()?;
        at.then(") AND `using`=\"gsi\" ORDER BY is_primary DESC, name ASC")?;
        Statement::Indexes(Keyspace { bucket, scope, collection })
    } else if at.eat("SELECT COUNT(*) AS n FROM ") {
        let collection = at.name()?;
        at.then(" AS d")?;
        Statement::Count(collection)
    } else if at.eat("EXPLAIN ") {
        Statement::Explain(at.select()?)
    } else {
        Statement::Select(at.select()?)
    };
    at.0.is_empty().then_some(statement)
}

struct Reader<'t>(&'t str);

impl Reader<'_> {
    fn eat(&mut self, text: &str) -> bool {
        let rest = self.0.strip_prefix(text);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn then(&mut self, text: &str) -> Option<()> {
        self.eat(text).then_some(())
    }

    fn name(&mut self) -> Option<String> {
        self.quoted('`')
    }

    fn text(&mut self) -> Option<String> {
        self.quoted('"')
    }

    fn quoted(&mut self, quote: char) -> Option<String> {
        let (name, rest) = self.0.strip_prefix(quote)?.split_once(quote)?;
        self.0 = rest;
        Some(name.to_owned())
    }

    fn keyspace(&mut self) -> Option<Keyspace> {
        let bucket = self.name()?;
        self.then(".")?;
        let scope = self.name()?;
        self.then(".")?;
        Some(Keyspace { bucket, scope, collection: self.name()? })
    }

    fn select(&mut self) -> Option<Select> {
        if self.eat("SELECT RAW d FROM ") {
            let collection = self.name()?;
            self.then(" AS d WHERE d.`user` = $user AND d.n >= $n ORDER BY d.n")?;
            return Some(Select { collection, bodies: true, by: By::UserAndNumber });
        }
        self.then("SELECT META(d).id AS k")?;
        let bodies = self.eat(", d AS v");
        self.then(" FROM ")?;
        let collection = self.name()?;
        self.then(" AS d WHERE ")?;
        let by = if self.eat("META(d).id >= \"\" ORDER BY META(d).id LIMIT $limit OFFSET $offset") {
            return Some(Select { collection, bodies, by: By::Offset });
        } else if self.eat("META(d).id >= $start") {
            let end = self.eat(" AND META(d).id < $end");
            self.then(" ORDER BY META(d).id")?;
            By::Keys { end }
        } else {
            self.then("d.")?;
            let field = self.name()?;
            self.then(" = $value")?;
            By::Field(field)
        };
        self.then(" LIMIT $limit")?;
        Some(Select { collection, bodies, by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_statements_are_read_and_others_refused() {
        let select = |bodies, by| Statement::Select(Select { collection: "c".into(), bodies, by });
        assert_eq!(
            parse("SELECT META(d).id AS k, d AS v FROM `c` AS d WHERE d.`f` = $value LIMIT $limit"),
            Some(select(true, By::Field("f".into())))
        );
        assert_eq!(
            parse("SELECT META(d).id AS k FROM `c` AS d WHERE META(d).id >= $start ORDER BY META(d).id LIMIT $limit"),
            Some(select(false, By::Keys { end: false }))
        );
        let keyspace = Keyspace { bucket: "b".into(), scope: "s".into(), collection: "c".into() };
        assert_eq!(
            parse("CREATE INDEX `i` ON `b`.`s`.`c` (`f`,`g`)"),
            Some(Statement::CreateIndex { name: "i".into(), on: keyspace, fields: vec!["f".into(), "g".into()] })
        );
        for other in ["", "DELETE FROM `c`", "SELECT * FROM `c`", "CREATE INDEX `i` ON `b`.`s`.`c` (`f`) WHERE x"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
