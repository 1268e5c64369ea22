//! Comma- and tab-separated values: a record for each row, a field for each column.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::quotes::Quotes;
use super::unpack::Damage;
use super::{Reader, Room, Unreadable};
use crate::columns::{ColumnTypes, Kind, OVERFLOW};
use crate::error::TransferError;
use crate::records::{Origin, Records};
use crate::shape::{Maker, members};

pub(super) struct CsvReader<'a, R> {
    rows: csv::Reader<Quotes<R>>,
    row: csv::ByteRecord,
    /// The row behind it, where it had to be known whether there is one.
    ahead: Option<csv::ByteRecord>,
    damage: Damage,
    columns: Vec<(String, Kind)>,
    maker: Maker<'a>,
    file: u32,
    name: String,
    json: Vec<u8>,
    read: Arc<AtomicU64>,
}

impl<'a, R: Read> CsvReader<'a, R> {
    /// Reads the first row, which names the columns.
    pub(super) fn new(
        (input, damage): (R, Damage),
        delimiter: u8,
        types: &ColumnTypes,
        maker: Maker<'a>,
        file: u32,
        name: String,
        read: Arc<AtomicU64>,
    ) -> Result<Self, TransferError> {
        let mut rows = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .flexible(true)
            .buffer_capacity(1 << 18)
            .from_reader(Quotes::new(input, delimiter, name.clone()));
        let header = rows.headers().map_err(|e| damage.found().unwrap_or_else(|| broken(&name, &e)))?.clone();
        let kind = |column: &str| {
            let usual = || if column == OVERFLOW { Kind::Overflow } else { Kind::Text };
            types.0.iter().find(|(named, _)| named == column).map_or_else(usual, |(_, kind)| kind.clone())
        };
        let columns: Vec<(String, Kind)> =
            header.iter().map(|column| (column.trim_start_matches('\u{feff}').to_owned(), kind(column))).collect();
        let mut seen = std::collections::HashSet::new();
        if let Some((twice, _)) = columns.iter().find(|(column, _)| !seen.insert(column)) {
            return Err(TransferError::BadInput(format!(
                "{name} has two columns `{twice}`, of which a record could keep but one; rename one of them"
            )));
        }
        if let Some((missing, _)) = types.0.iter().find(|(named, _)| !columns.iter().any(|(column, _)| column == named))
        {
            return Err(TransferError::BadInput(format!(
                "{name} has no column `{missing}`; its first row names: {}",
                header.iter().collect::<Vec<_>>().join(", ")
            )));
        }
        let (row, ahead) = (csv::ByteRecord::new(), None);
        Ok(Self { rows, row, ahead, damage, columns, maker, file, name, json: Vec::new(), read })
    }

    /// The next row; whether it is one, and whether it was cut: the last before where the file is damaged may be.
    fn next(&mut self) -> Result<(bool, bool), TransferError> {
        match self.ahead.take() {
            Some(ahead) => self.row = ahead,
            None => {
                if !self.rows.read_byte_record(&mut self.row).map_err(|e| self.broken(&e))? {
                    return self.damage.found().map_or(Ok((false, false)), Err);
                }
            }
        }
        if self.damage.found().is_some() {
            let mut ahead = csv::ByteRecord::new();
            match self.rows.read_byte_record(&mut ahead) {
                Ok(true) => self.ahead = Some(ahead),
                Ok(false) => return Ok((true, !self.rows.get_ref().is_at_row())),
                Err(_) => {}
            }
        }
        Ok((true, false))
    }

    fn broken(&self, error: &csv::Error) -> TransferError {
        self.damage.found().unwrap_or_else(|| broken(&self.name, error))
    }

    /// Refuses a first row that another delimiter would cut into columns.
    pub(super) fn check_delimiter(&self) -> Result<(), TransferError> {
        let [(column, _)] = self.columns.as_slice() else { return Ok(()) };
        let typed = |c: char| if c == '\t' { "tab".to_owned() } else { format!("'{c}'") };
        match [';', '\t', '|', ','].into_iter().find(|c| column.contains(*c)) {
            None => Ok(()),
            Some(other) => Err(TransferError::BadInput(format!(
                "{}: the header has one column and contains `{}`; add --delimiter {}. If it is one column, name the \
                 delimiter that the file has",
                self.name,
                if other == '\t' { '→' } else { other },
                typed(other)
            ))),
        }
    }

    /// The row as a JSON object.
    fn object(&mut self) -> Result<(), String> {
        if self.row.len() != self.columns.len() {
            return Err(format!("the row has {} fields, and the first row {}", self.row.len(), self.columns.len()));
        }
        self.json.clear();
        self.json.push(b'{');
        let mut overflow = None;
        for ((column, kind), field) in self.columns.iter().zip(&self.row) {
            if *kind == Kind::Overflow {
                overflow = Some(field).filter(|field| !field.is_empty());
                continue;
            }
            if self.json.len() > 1 {
                self.json.push(b',');
            }
            members::write_string(column, &mut self.json);
            self.json.push(b':');
            let field = std::str::from_utf8(field).map_err(|_| format!("column `{column}` is not UTF-8"))?;
            kind.write_json(field, &mut self.json).map_err(|what| format!("column `{column}`: {what}"))?;
        }
        self.json.push(b'}');
        if let Some(overflow) = overflow {
            let row = std::str::from_utf8(&self.json).map_err(|e| e.to_string())?;
            let merged = std::str::from_utf8(overflow).ok().and_then(|more| members::merge(row, &[], Some(more)).ok());
            self.json = merged
                .ok_or(
                    "the column of the overflow does not hold a JSON object; if it is none, give its type with --types",
                )?
                .into_bytes();
        }
        Ok(())
    }

    /// The row as it is told where it is rejected.
    fn text(&self) -> String {
        let fields: Vec<String> = self.row.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
        serde_json::to_string(&fields).unwrap_or_default()
    }
}

fn broken(name: &str, error: &csv::Error) -> TransferError {
    match error.kind() {
        csv::ErrorKind::Io(e) => TransferError::read(name, e),
        _ => TransferError::Source(format!("{name}: {error}")),
    }
}

impl<R: Read> Reader for CsvReader<'_, R> {
    fn poll_read(
        &mut self,
        _: &mut Context<'_>,
        room: Room,
        into: &mut Records,
        bad: &mut Vec<Unreadable>,
    ) -> Poll<Result<bool, TransferError>> {
        while into.has_room(room) {
            let cut = match self.next() {
                Ok((true, cut)) => cut,
                Ok((false, _)) => return Poll::Ready(Ok(false)),
                Err(error) => return Poll::Ready(Err(error)),
            };
            let origin = Origin { unit: self.file, at: self.row.position().map_or(0, csv::Position::byte) };
            let whole =
                if cut { Err("the file ends in the middle of this row (truncated?)".to_owned()) } else { Ok(()) };
            let made = whole.and_then(|()| self.object()).and_then(|()| {
                let json = std::str::from_utf8(&self.json).map_err(|e| e.to_string())?;
                self.maker.text(json, origin, into)
            });
            if let Err(why) = made {
                let exact = self.row.iter().all(|field| std::str::from_utf8(field).is_ok());
                bad.push(Unreadable { origin, key: None, why, text: self.text(), exact });
            }
        }
        Poll::Ready(Ok(true))
    }

    fn bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}
