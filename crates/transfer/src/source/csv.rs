//! Comma- and tab-separated values: each row is a record, each column a field.

use std::borrow::Cow;
use std::io::Read;

use super::Unreadable;
use super::damage::Damage;
use super::quotes::Quotes;
use super::reader::{FileRecords, FoundRecord};
use crate::columns::{ColumnTypes, Kind, OVERFLOW};
use crate::error::TransferError;
use crate::shape::members::{self, ObjectWriter};

/// What PostgreSQL's COPY and MySQL's exports write for a null.
const NULL: &str = "\\N";
const AMBIGUOUS: &str = "`\\N`, which exports of PostgreSQL (COPY) and MySQL write for a null; add --escapes backslash to \
                         read it so, with `\\t`, `\\n` and `\\\\`, or --escapes none to keep the texts";

/// How fields of TSV and CSV write characters that would end a field or a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escapes {
    /// As the text format of PostgreSQL's COPY and MySQL's exports: `\N` for a null, and `\t`, `\n`, `\\`. Quotes
    /// are plain characters.
    Backslash,
    /// Only quotes; a backslash is a plain character.
    None,
}

impl Escapes {
    /// Each way, its name, and its help text.
    pub const ALL: [(Self, &str, &str); 2] = [
        (Self::Backslash, "backslash", "As PostgreSQL's COPY and MySQL write them: \\N is null, \\t a tab"),
        (Self::None, "none", "Fields may be quoted, and a backslash is a plain character"),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Writes a field without its escapes into `text`.
fn unescape(field: &str, text: &mut String) -> Result<(), String> {
    text.clear();
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let [escape, after @ ..] = rest else { return Err("it ends with a backslash".to_owned()) };
        rest = after;
        let mut digits = |from: u32, radix: u32, most: usize| {
            let (mut value, mut taken) = (from, 0);
            while let [digit, after @ ..] = rest
                && taken < most
                && let Some(digit) = char::from(*digit).to_digit(radix)
            {
                (value, taken, rest) = (value * radix + digit, taken + 1, after);
            }
            (value as u8, taken)
        };
        bytes.push(match escape {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => digits(u32::from(escape - b'0'), 8, 2).0,
            b'x' => match digits(0, 16, 2) {
                (_, 0) => b'x',
                (byte, _) => byte,
            },
            other => *other,
        });
    }
    text.push_str(std::str::from_utf8(&bytes).map_err(|_| "is not UTF-8 once its escapes are read")?);
    Ok(())
}

pub(super) struct CsvRecords<R> {
    rows: csv::Reader<Quotes<R>>,
    row: csv::ByteRecord,
    /// The following row, if it was read to learn whether there is one.
    ahead: Option<csv::ByteRecord>,
    damage: Damage,
    columns: Vec<(String, Kind)>,
    name: String,
    json: Vec<u8>,
    escapes: Option<Escapes>,
    text: String,
}

impl<R: Read> CsvRecords<R> {
    /// Reads the header row, which names the columns.
    pub(super) fn new(
        (input, damage): (R, Damage),
        (delimiter, escapes): (u8, Option<Escapes>),
        types: &ColumnTypes,
        name: String,
    ) -> Result<Self, TransferError> {
        // In the text format of PostgreSQL's COPY, a quote is a character like any other.
        let quoted = escapes != Some(Escapes::Backslash);
        let mut rows = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .flexible(true)
            .quoting(quoted)
            .buffer_capacity(1 << 18)
            .from_reader(if quoted { Quotes::new(input, delimiter, name.clone()) } else { Quotes::none(input) });
        let header = rows.headers().map_err(|e| damage.found().unwrap_or_else(|| broken(&name, &e)))?.clone();
        if let Some(separator) =
            header.get(0).and_then(|first| first.trim_start_matches('\u{feff}').strip_prefix("sep="))
        {
            let separator = separator.chars().next().unwrap_or(char::from(delimiter));
            return Err(TransferError::BadInput(format!(
                "{name}: its first line names the separator, as Excel writes it; delete that line, and add --delimiter \
                 '{separator}'"
            )));
        }
        let kind = |column: &str| {
            let usual = || if column == OVERFLOW { Kind::Overflow } else { Kind::Text };
            types.0.iter().find(|(named, _)| named == column).map_or_else(usual, |(_, kind)| kind.clone())
        };
        let columns: Vec<(String, Kind)> =
            header.iter().map(|column| (column.trim_start_matches('\u{feff}').to_owned(), kind(column))).collect();
        let mut seen = std::collections::HashSet::new();
        if let Some((twice, _)) = columns.iter().find(|(column, _)| !seen.insert(column)) {
            return Err(TransferError::BadInput(format!(
                "{name} has two columns `{twice}`, but a record can keep only one; rename one of them"
            )));
        }
        if let Some((missing, _)) = types.0.iter().find(|(named, _)| !columns.iter().any(|(column, _)| column == named))
        {
            return Err(TransferError::BadInput(format!(
                "{name} has no column `{missing}`; its header has: {}",
                header.iter().collect::<Vec<_>>().join(", ")
            )));
        }
        let (row, ahead) = (csv::ByteRecord::new(), None);
        Ok(Self { rows, row, ahead, damage, columns, name, json: Vec::new(), escapes, text: String::new() })
    }

    /// Advances to the next row. Returns whether the row was cut off, which can happen only to the last row before
    /// damage.
    fn row(&mut self) -> Result<Option<bool>, TransferError> {
        match self.ahead.take() {
            Some(ahead) => self.row = ahead,
            None => {
                if !self.rows.read_byte_record(&mut self.row).map_err(|e| self.broken(&e))? {
                    return self.damage.found().map_or(Ok(None), Err);
                }
            }
        }
        if self.damage.found().is_some() {
            let mut ahead = csv::ByteRecord::new();
            match self.rows.read_byte_record(&mut ahead) {
                Ok(true) => self.ahead = Some(ahead),
                Ok(false) => return Ok(Some(!self.rows.get_ref().is_at_row())),
                Err(_) => {}
            }
        }
        Ok(Some(false))
    }

    fn broken(&self, error: &csv::Error) -> TransferError {
        self.damage.found().unwrap_or_else(|| broken(&self.name, error))
    }

    /// Refuses a single-column header that another delimiter would split.
    pub(super) fn check_delimiter(&self) -> Result<(), TransferError> {
        let [(column, _)] = self.columns.as_slice() else { return Ok(()) };
        let typed = |c: char| if c == '\t' { "tab".to_owned() } else { format!("'{c}'") };
        match [';', '\t', '|', ','].into_iter().find(|c| column.contains(*c)) {
            None => Ok(()),
            Some(other) => Err(TransferError::BadInput(format!(
                "{}: the header has one column and contains `{}`; add --delimiter {}. If it really is one column, give the \
                 file's own delimiter",
                self.name,
                if other == '\t' { '→' } else { other },
                typed(other)
            ))),
        }
    }

    /// Writes the row as a JSON object into `self.json`.
    fn object(&mut self) -> Result<(), String> {
        if self.row.len() != self.columns.len() {
            return Err(format!("the row has {} fields, but the header has {}", self.row.len(), self.columns.len()));
        }
        self.json.clear();
        let mut object = ObjectWriter::new(&mut self.json);
        let mut overflow = None;
        for ((column, kind), field) in self.columns.iter().zip(&self.row) {
            if *kind == Kind::Overflow {
                overflow = Some(field).filter(|field| !field.is_empty());
                continue;
            }
            let field = std::str::from_utf8(field).map_err(|_| format!("column `{column}` is not UTF-8"))?;
            let field = match self.escapes {
                None if field == NULL => return Err(format!("column `{column}` is {AMBIGUOUS}")),
                Some(Escapes::Backslash) if field == NULL => {
                    object.name(column).extend_from_slice(b"null");
                    continue;
                }
                Some(Escapes::Backslash) if field.contains('\\') => {
                    unescape(field, &mut self.text).map_err(|what| format!("column `{column}`: {what}"))?;
                    self.text.as_str()
                }
                _ => field,
            };
            kind.write_json(field, object.name(column)).map_err(|what| format!("column `{column}`: {what}"))?;
        }
        object.end();
        if let Some(overflow) = overflow {
            let row = std::str::from_utf8(&self.json).map_err(|e| e.to_string())?;
            let merged = std::str::from_utf8(overflow).ok().and_then(|more| members::merge(row, &[], Some(more)).ok());
            self.json = merged
                .ok_or(
                    "the overflow column is not a JSON object; if it is an ordinary column, set its type with --types",
                )?
                .into_bytes();
        }
        Ok(())
    }
}

fn broken(name: &str, error: &csv::Error) -> TransferError {
    match error.kind() {
        csv::ErrorKind::Io(e) => TransferError::read(name, e),
        _ => TransferError::Source(format!("{name}: {error}")),
    }
}

impl<R: Read> FileRecords for CsvRecords<R> {
    fn next(&mut self) -> Result<Option<FoundRecord<'_>>, TransferError> {
        let Some(cut) = self.row()? else { return Ok(None) };
        let at = self.row.position().map_or(0, csv::Position::byte);
        let whole = if cut { Err("the file ends in the middle of this row (truncated?)".to_owned()) } else { Ok(()) };
        let made = whole.and_then(|()| self.object());
        let json = made.and_then(|()| std::str::from_utf8(&self.json).map_err(|e| e.to_string()));
        Ok(Some((at, json.map_err(|why| Unreadable::of(why, b"")))))
    }

    /// Shows the row as a list of its fields.
    fn told(&mut self, bad: Unreadable) -> Unreadable {
        let fields: Vec<_> = self.row.iter().map(String::from_utf8_lossy).collect();
        let exact = fields.iter().all(|field| matches!(field, Cow::Borrowed(_)));
        Unreadable { text: serde_json::to_string(&fields).unwrap_or_default(), exact, ..bad }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, escapes: Option<Escapes>) -> Vec<Result<String, String>> {
        let (damage, types) = (Damage::default(), "n=integer".parse().unwrap());
        let mut rows = CsvRecords::new((text.as_bytes(), damage), (b'\t', escapes), &types, "a.tsv".into()).unwrap();
        let mut all = Vec::new();
        while let Some((_, row)) = rows.next().unwrap() {
            all.push(row.map(str::to_owned).map_err(|bad| bad.why));
        }
        all
    }

    #[test]
    fn what_copy_escapes_is_read_where_that_is_asked_for_and_else_never_guessed() {
        let text = "a\tn\nx\t\\N\n\"q\tu\\tv\\\\w\\n\\303\\251\\x41\n\\N\t7\n";
        let text = text.replace("\"q\tu", "\"q").replace("\\x41\n", "\\x41\t-1\n");
        let rows = read(&text, Some(Escapes::Backslash));
        let expected = [r#"{"a":"x","n":null}"#, r#"{"a":"\"q\tv\\w\né\u0041","n":-1}"#, r#"{"a":null,"n":7}"#];
        let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let rows: Vec<_> = rows.into_iter().map(|row| parsed(&row.unwrap())).collect();
        assert_eq!(rows, expected.map(parsed));
        let kept = read("a\tn\n\\N\t1\nu\\tv\t2\n", Some(Escapes::None));
        assert_eq!(kept, [Ok(r#"{"a":"\\N","n":1}"#.to_owned()), Ok(r#"{"a":"u\\tv","n":2}"#.to_owned())]);
        let asked = read("a\tn\n\\N\t1\n", None);
        assert!(asked[0].as_ref().unwrap_err().contains("--escapes backslash"), "{asked:?}");
    }
}
