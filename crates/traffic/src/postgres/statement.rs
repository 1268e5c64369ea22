//! What an SQL statement does.

use sqlparser::ast::{
    AssignmentTarget, BinaryOperator, Delete, Expr, FromTable, Ident, InTarget, Insert, ObjectName, OnConflictAction,
    OnInsert, Query, Select, SelectItem, SetExpr, Statement as Sql, TableFactor, TableObject, TableWithJoins, Update,
    Value,
};
use sqlparser::dialect::{Dialect, MySqlDialect, PostgreSqlDialect};
use sqlparser::parser::Parser;

/// How columns are called that an INSERT does not name.
pub(super) const NAMELESS: &str = "column ";

/// Whose statements they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
}

impl Server {
    /// The name of a table. PostgreSQL takes it in lower case, unless it is quoted.
    fn table(self, name: &Ident) -> String {
        let folds = self == Self::Postgres && name.quote_style.is_none();
        if folds { name.value.to_lowercase() } else { name.value.clone() }
    }

    /// The name of a column. MySQL ignores its case, even if it is quoted.
    fn column(self, name: &Ident) -> String {
        if self == Self::Mysql { name.value.to_lowercase() } else { self.table(name) }
    }

    /// Whether a table is one of the server's own.
    fn owns(self, table: &str) -> bool {
        let (schema, name) = table.rsplit_once('.').unwrap_or(("", table));
        match self {
            Self::Postgres => name.starts_with("pg_") || schema == "information_schema",
            Self::Mysql => ["information_schema", "performance_schema", "mysql", "sys"]
                .iter()
                .any(|own| schema.eq_ignore_ascii_case(own)),
        }
    }
}

/// What a statement does to documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Does {
    /// An operation of a trace.
    Operation(&'static str),
    /// Something else, in words.
    Other(String),
}

/// A value in a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Term {
    Text(String),
    /// The number of a parameter, from 1.
    Parameter(usize),
    Other,
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(super) does: Does,
    /// Its table, with its schema if it names one.
    pub(crate) table: String,
    /// Columns and their values: of each row that is inserted, or those that are compared and set.
    pub(super) rows: Vec<Vec<(String, Term)>>,
    /// How many columns are compared: the first ones. 0 for rows that are inserted.
    pub(super) compared: usize,
    /// Whether the key is compared with a list of keys.
    pub(super) is_list: bool,
}

impl Statement {
    fn other(what: impl Into<String>) -> Self {
        Self { does: Does::Other(what.into()), table: String::new(), rows: Vec::new(), compared: 0, is_list: false }
    }

    fn other_of(table: String, what: &str) -> Self {
        Self { table: table.clone(), ..Self::other(format!("{what} of {table} that is not by one key")) }
    }

    /// Statements about the catalog are all alike.
    pub(crate) fn unless_catalog(self, server: Server) -> Self {
        let whose = if server == Server::Postgres { "PostgreSQL" } else { "the server" };
        if server.owns(&self.table) { Self::other(format!("a statement about {whose}'s own tables")) } else { self }
    }

    fn operation(op: &'static str, table: String, compared: Compared, set: Vec<(String, Term)>) -> Self {
        let (is_list, count) = (compared.is_list, compared.columns.len());
        let keys = std::iter::once(compared.columns).chain(compared.more.into_iter().map(|key| vec![key]));
        let rows = keys.map(|key| key.into_iter().chain(set.iter().cloned()).collect()).collect();
        Self { does: Does::Operation(op), table, rows, compared: count, is_list }
    }
}

/// The statements of a text.
pub(crate) fn parse(sql: &str, server: Server) -> Vec<Statement> {
    let dialect: &dyn Dialect = if server == Server::Postgres { &PostgreSqlDialect {} } else { &MySqlDialect {} };
    let word = || sql.split_whitespace().next().unwrap_or_default().trim_end_matches(';').to_uppercase();
    match Parser::parse_sql(dialect, sql) {
        Ok(all) => {
            let known = |one: &Sql| of(one, server).unwrap_or_else(|| Statement::other(word())).unless_catalog(server);
            all.iter().map(known).collect()
        }
        Err(_) => vec![Statement::other(format!("a statement that cannot be parsed: {}", word()))],
    }
}

fn of(sql: &Sql, server: Server) -> Option<Statement> {
    match sql {
        Sql::Query(query) => select(query, server),
        Sql::Insert(insert) => inserted(insert, server),
        Sql::Update(update) => updated(update, server),
        Sql::Delete(delete) => deleted(delete, server),
        _ => None,
    }
}

/// The columns that a condition compares with one value each.
#[derive(Debug, Default)]
struct Compared {
    columns: Vec<(String, Term)>,
    is_list: bool,
    /// The second and further keys of an IN.
    more: Vec<(String, Term)>,
}

/// The equalities of a condition that are joined by AND; `None` if there is anything else.
fn compared(condition: &Expr, server: Server) -> Option<Compared> {
    let mut all = Compared::default();
    let mut left = vec![condition];
    while let Some(expr) = left.pop() {
        match expr {
            Expr::Nested(inner) => left.push(inner),
            Expr::BinaryOp { left: a, op: BinaryOperator::And, right: b } => left.extend([&**b, &**a]),
            Expr::BinaryOp { left: a, op: BinaryOperator::Eq, right: b } => {
                let (column, value) = match (column(a, server), column(b, server)) {
                    (Some(column), None) => (column, b),
                    (None, Some(column)) => (column, a),
                    _ => return None,
                };
                all.columns.push((column, term(value)));
            }
            Expr::AnyOp { left: a, compare_op: BinaryOperator::Eq, right: b, .. } => {
                all.is_list = true;
                all.columns.push((column(a, server)?, term(b)));
            }
            Expr::In { expr, target: InTarget::List(list), negated: false, .. } => {
                let (name, (first, rest)) = (column(expr, server)?, list.split_first()?);
                all.more.extend(rest.iter().map(|value| (name.clone(), term(value))));
                all.columns.push((name, term(first)));
            }
            _ => return None,
        }
    }
    ((!all.is_list && all.more.is_empty()) || all.columns.len() == 1).then_some(all)
}

fn column(expr: &Expr, server: Server) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(server.column(name)),
        Expr::CompoundIdentifier(names) => names.last().map(|name| server.column(name)),
        Expr::Nested(inner) => column(inner, server),
        _ => None,
    }
}

fn term(expr: &Expr) -> Term {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => {
                name.strip_prefix('$').and_then(|number| number.parse().ok()).map_or(Term::Other, Term::Parameter)
            }
            Value::Number(number, _) => Term::Text(number.clone()),
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                Term::Text(text.clone())
            }
            Value::DollarQuotedString(text) => Term::Text(text.value.clone()),
            _ => Term::Other,
        },
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => term(inner),
        _ => Term::Other,
    }
}

/// A name of several parts, each as `part` gives it.
fn name(name: &ObjectName, part: impl Fn(&Ident) -> String) -> String {
    let parts: Vec<String> = name.0.iter().map(|one| one.as_ident().map_or_else(|| one.to_string(), &part)).collect();
    parts.join(".")
}

/// The only table of a FROM.
fn table(from: &[TableWithJoins], server: Server) -> Option<String> {
    match from {
        [TableWithJoins { relation: TableFactor::Table { name: of, args: None, .. }, joins }] if joins.is_empty() => {
            Some(name(of, |part| server.table(part)))
        }
        _ => None,
    }
}

fn select(query: &Query, server: Server) -> Option<Statement> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let Select { projection, from, selection, having: None, .. } = &**select else { return None };
    let Some(table) = table(from, server) else { return Some(Statement::other("SELECT that is not of one table")) };
    let by_key = selection.as_ref().and_then(|all| compared(all, server)).filter(|_| query.with.is_none());
    let aggregates = projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => matches!(expr, Expr::Function(_)),
        _ => false,
    });
    let Some(by_key) = by_key.filter(|_| !aggregates) else {
        return Some(Statement::other_of(table, "SELECT"));
    };
    let constant = projection.iter().all(|item| matches!(item, SelectItem::UnnamedExpr(Expr::Value(_))));
    Some(Statement::operation(if constant { "exists" } else { "read" }, table, by_key, Vec::new()))
}

fn inserted(insert: &Insert, server: Server) -> Option<Statement> {
    let TableObject::TableName(table) = &insert.table else { return None };
    let table = name(table, |part| server.table(part));
    let rows = match insert.source.as_deref().map(|query| &*query.body) {
        Some(SetExpr::Values(values)) => &values.rows,
        _ => return Some(Statement::other(format!("INSERT into {table} from a query"))),
    };
    let op = match &insert.on {
        Some(OnInsert::OnConflict(conflict)) => match conflict.action {
            OnConflictAction::DoNothing => "insert",
            OnConflictAction::DoUpdate(_) => "upsert",
        },
        Some(OnInsert::DuplicateKeyUpdate(_)) => "upsert",
        _ if insert.replace_into => "upsert",
        _ => "insert",
    };
    let named = |column: &ObjectName| name(column, |part| server.column(part));
    let column = |at: usize| insert.columns.get(at).map_or_else(|| format!("{NAMELESS}{}", at + 1), named);
    let rows = rows
        .iter()
        .map(|row| row.content.iter().enumerate().map(|(at, value)| (column(at), term(value))).collect())
        .collect();
    Some(Statement { does: Does::Operation(op), table, rows, compared: 0, is_list: false })
}

fn updated(update: &Update, server: Server) -> Option<Statement> {
    let table = table(std::slice::from_ref(&update.table), server)?;
    let by_key = update.selection.as_ref().and_then(|all| compared(all, server));
    let Some(by_key) = by_key.filter(|_| update.from.is_none()) else {
        return Some(Statement::other_of(table, "UPDATE"));
    };
    let set = update.assignments.iter().filter_map(|assignment| match &assignment.target {
        AssignmentTarget::ColumnName(column) => {
            Some((name(column, |part| server.column(part)), term(&assignment.value)))
        }
        AssignmentTarget::Tuple(_) => None,
    });
    Some(Statement::operation("replace", table, by_key, set.collect()))
}

fn deleted(delete: &Delete, server: Server) -> Option<Statement> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let table = table(from, server)?;
    match delete.selection.as_ref().and_then(|all| compared(all, server)).filter(|_| delete.using.is_none()) {
        Some(by_key) => Some(Statement::operation("delete", table, by_key, Vec::new())),
        None => Some(Statement::other_of(table, "DELETE")),
    }
}
