//! Prepared statements that live as long as their connection.

use std::rc::Rc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement, ToSql};

/// A connection and the statements prepared on it.
///
/// Rust cannot express a field that borrows from another field. So the statements' lifetime is `'static`, and this type
/// maintains the invariants that make this sound.
pub(super) struct Prepared {
    // Declared before the connection, so that it is dropped first.
    statements: Vec<Option<Statement<'static>>>,
    connection: Rc<Connection>,
}

impl Prepared {
    pub(super) fn new(connection: Connection) -> Self {
        Self { statements: Vec::new(), connection: Rc::new(connection) }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Makes room for `count` more statements. Returns the position of the first.
    pub(super) fn reserve(&mut self, count: usize) -> usize {
        let first = self.statements.len();
        self.statements.resize_with(first + count, || None);
        first
    }

    /// The statement at a position. It is prepared at the first call.
    #[inline]
    pub(super) fn get(
        &mut self,
        position: usize,
        text: impl FnOnce() -> String,
    ) -> rusqlite::Result<&mut Statement<'static>> {
        let slot = &mut self.statements[position];
        if slot.is_none() {
            let statement = self.connection.prepare(&text())?;
            // SAFETY: the statement borrows from the connection, which is on the heap in an `Rc` and does not move. The
            // statement never leaves `self.statements`: it is only lent for a lifetime bound to `self`, and so is
            // everything that it lends. `statements` is declared before `connection`, so every statement is dropped
            // before the connection.
            *slot = Some(unsafe { std::mem::transmute::<Statement<'_>, Statement<'static>>(statement) });
        }
        Ok(slot.as_mut().expect("it was filled just now"))
    }
}

/// Bytes bound as text or as a blob, without validation.
#[derive(Clone, Copy)]
pub(super) enum Bound<'a> {
    Text(&'a [u8]),
    Blob(&'a [u8]),
    Integer(i64),
    Real(f64),
    Null,
}

impl ToSql for Bound<'_> {
    #[inline]
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Text(bytes) => ValueRef::Text(bytes),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
            Self::Integer(value) => ValueRef::Integer(value),
            Self::Real(value) => ValueRef::Real(value),
            Self::Null => ValueRef::Null,
        }))
    }
}
