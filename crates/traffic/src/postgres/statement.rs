//! What an SQL statement does.

use sqlparser::ast::{
    AssignmentTarget, BinaryOperator, Delete, Expr, FromTable, Ident, InTarget, Insert, ObjectName, OnConflictAction,
    OnInsert, Query, Select, SelectItem, SetExpr, Statement as Sql, TableFactor, TableObject, TableWithJoins, Update,
    Value,
};
use sqlparser::dialect::Dialect;
use sqlparser::parser::Parser;

/// How columns are called that an INSERT does not name.
pub(super) const NAMELESS: &str = "column ";

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
    fn unless_catalog(self, whose: &str) -> Self {
        let name = self.table.rsplit('.').next().unwrap_or_default();
        if name.starts_with("pg_") || self.table.starts_with("information_schema.") {
            Self::other(format!("a statement about {whose}'s own tables"))
        } else {
            self
        }
    }

    fn operation(op: &'static str, table: String, compared: Compared, set: Vec<(String, Term)>) -> Self {
        let (is_list, count) = (compared.is_list, compared.columns.len());
        let keys = std::iter::once(compared.columns).chain(compared.more.into_iter().map(|key| vec![key]));
        let rows = keys.map(|key| key.into_iter().chain(set.iter().cloned()).collect()).collect();
        Self { does: Does::Operation(op), table, rows, compared: count, is_list }
    }
}

/// The statements of a text, for the server of this name.
pub(crate) fn parse(sql: &str, dialect: &dyn Dialect, server: &str) -> Vec<Statement> {
    let word = || sql.split_whitespace().next().unwrap_or_default().trim_end_matches(';').to_uppercase();
    match Parser::parse_sql(dialect, sql) {
        Ok(all) => {
            let known = |one: &Sql| of(one).unwrap_or_else(|| Statement::other(word())).unless_catalog(server);
            all.iter().map(known).collect()
        }
        Err(_) => vec![Statement::other(format!("a statement that cannot be parsed: {}", word()))],
    }
}

fn of(sql: &Sql) -> Option<Statement> {
    match sql {
        Sql::Query(query) => select(query),
        Sql::Insert(insert) => inserted(insert),
        Sql::Update(update) => updated(update),
        Sql::Delete(delete) => deleted(delete),
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
fn compared(condition: &Expr) -> Option<Compared> {
    let mut all = Compared::default();
    let mut left = vec![condition];
    while let Some(expr) = left.pop() {
        match expr {
            Expr::Nested(inner) => left.push(inner),
            Expr::BinaryOp { left: a, op: BinaryOperator::And, right: b } => left.extend([&**b, &**a]),
            Expr::BinaryOp { left: a, op: BinaryOperator::Eq, right: b } => {
                let (column, value) = match (column(a), column(b)) {
                    (Some(column), None) => (column, b),
                    (None, Some(column)) => (column, a),
                    _ => return None,
                };
                all.columns.push((column, term(value)));
            }
            Expr::AnyOp { left: a, compare_op: BinaryOperator::Eq, right: b, .. } => {
                all.is_list = true;
                all.columns.push((column(a)?, term(b)));
            }
            Expr::In { expr, target: InTarget::List(list), negated: false, .. } => {
                let (name, (first, rest)) = (column(expr)?, list.split_first()?);
                all.more.extend(rest.iter().map(|value| (name.clone(), term(value))));
                all.columns.push((name, term(first)));
            }
            _ => return None,
        }
    }
    ((!all.is_list && all.more.is_empty()) || all.columns.len() == 1).then_some(all)
}

fn column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(names) => names.last().map(folded),
        Expr::Nested(inner) => column(inner),
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

/// A name as PostgreSQL takes it: in lower case, unless it is quoted.
fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

fn name(table: &ObjectName) -> String {
    let parts: Vec<String> =
        table.0.iter().map(|part| part.as_ident().map_or_else(|| part.to_string(), folded)).collect();
    parts.join(".")
}

/// The only table of a FROM.
fn table(from: &[TableWithJoins]) -> Option<String> {
    match from {
        [TableWithJoins { relation: TableFactor::Table { name: of, args: None, .. }, joins }] if joins.is_empty() => {
            Some(name(of))
        }
        _ => None,
    }
}

fn select(query: &Query) -> Option<Statement> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let Select { projection, from, selection, having: None, .. } = &**select else { return None };
    let Some(table) = table(from) else { return Some(Statement::other("SELECT that is not of one table")) };
    let by_key = selection.as_ref().and_then(compared).filter(|_| query.with.is_none());
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

fn inserted(insert: &Insert) -> Option<Statement> {
    let TableObject::TableName(table) = &insert.table else { return None };
    let table = name(table);
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
    let column = |at: usize| insert.columns.get(at).map_or_else(|| format!("{NAMELESS}{}", at + 1), name);
    let rows = rows
        .iter()
        .map(|row| row.content.iter().enumerate().map(|(at, value)| (column(at), term(value))).collect())
        .collect();
    Some(Statement { does: Does::Operation(op), table, rows, compared: 0, is_list: false })
}

fn updated(update: &Update) -> Option<Statement> {
    let table = table(std::slice::from_ref(&update.table))?;
    let Some(by_key) = update.selection.as_ref().and_then(compared).filter(|_| update.from.is_none()) else {
        return Some(Statement::other_of(table, "UPDATE"));
    };
    let set = update.assignments.iter().filter_map(|assignment| match &assignment.target {
        AssignmentTarget::ColumnName(column) => Some((name(column), term(&assignment.value))),
        AssignmentTarget::Tuple(_) => None,
    });
    Some(Statement::operation("replace", table, by_key, set.collect()))
}

fn deleted(delete: &Delete) -> Option<Statement> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let table = table(from)?;
    match delete.selection.as_ref().and_then(compared).filter(|_| delete.using.is_none()) {
        Some(by_key) => Some(Statement::operation("delete", table, by_key, Vec::new())),
        None => Some(Statement::other_of(table, "DELETE")),
    }
}
