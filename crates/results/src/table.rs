//! A model of a table that is printed in a terminal, written as Markdown, and laid out by the page.

use crate::stats::Estimate;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// The configuration's name.
    Configuration,
    /// A count, or another plain number.
    Count,
    /// A figure of which more is better.
    More,
    /// A figure of which less is better.
    Less,
    /// The ratio of the preceding figure to that of the first configuration.
    Ratio,
    /// Text.
    Text,
}

impl ColumnKind {
    /// Whether its cells are numbers, which are aligned right.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Count | Self::More | Self::Less)
    }
}

/// A column of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its title, with the unit.
    pub title: String,
    /// What it holds.
    pub kind: ColumnKind,
}

/// A cell: its text, and the figure behind it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// The displayed text: `264 k ±5 %`, `×1.23 [1.20, 1.26]`, `none`.
    pub text: String,
    /// The figure, in the unit of its column. `None` for text, and if there is no figure.
    pub figure: Option<Estimate>,
}

impl Cell {
    /// A number that is not an estimate.
    pub fn number(text: String, value: Option<f64>) -> Self {
        Self { text, figure: value.map(|value| Estimate { value, low: None, high: None, trials: 1 }) }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), figure: None }
    }
}

/// A table with a row of titles.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table of these columns.
    pub fn new<T: Into<String>>(columns: impl IntoIterator<Item = (T, ColumnKind)>) -> Self {
        let column = |(title, kind): (T, ColumnKind)| Column { title: title.into(), kind };
        Self { columns: columns.into_iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Removes the columns with these titles.
    pub fn without(mut self, titles: &[&str]) -> Self {
        let kept: Vec<bool> = self.columns.iter().map(|c| !titles.contains(&c.title.as_str())).collect();
        fn keep<T>(all: &mut Vec<T>, kept: &[bool]) {
            let mut kept = kept.iter();
            all.retain(|_| kept.next().is_none_or(|kept| *kept));
        }
        self.rows.iter_mut().for_each(|row| keep(row, &kept));
        keep(&mut self.columns, &kept);
        self
    }

    /// The table without the last columns that do not fit into this width, but with at least `keep` columns.
    pub(crate) fn narrowed(mut self, indent: usize, width: usize, keep: usize) -> Self {
        let mut room = indent.saturating_sub(2);
        let fits = self.widths().into_iter().take_while(|column| {
            room += column + 2;
            room <= width
        });
        let kept = fits.count().max(keep).min(self.columns.len());
        self.columns.truncate(kept);
        self.rows.iter_mut().for_each(|row| row.truncate(kept));
        self
    }

    /// The width of each column in characters.
    fn widths(&self) -> Vec<usize> {
        let widest = |(nth, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(nth)).map(|cell| cell.text.chars().count());
            cells.chain([column.title.chars().count()]).max().unwrap_or(0)
        };
        self.columns.iter().enumerate().map(widest).collect()
    }

    /// The table as text, indented by `indent` spaces.
    pub(crate) fn print(&self, indent: usize) -> String {
        self.print_within(indent, usize::MAX)
    }

    /// The same in lines of at most `width` characters. Columns that do not fit follow below, after the first column
    /// again.
    pub(crate) fn print_within(&self, indent: usize, width: usize) -> String {
        let widths = self.widths();
        let mut out = String::new();
        let mut part = vec![0];
        let room = |part: &[usize]| indent + part.iter().map(|&c| widths[c] + 2).sum::<usize>() - 2;
        for column in 1..self.columns.len() {
            part.push(column);
            if room(&part) > width && part.len() > 2 {
                part.pop();
                out.push_str(&self.part(indent, &part, &widths));
                out.push('\n');
                part = vec![0, column];
            }
        }
        out.push_str(&self.part(indent, &part, &widths));
        out
    }

    fn part(&self, indent: usize, columns: &[usize], widths: &[usize]) -> String {
        let titles: Vec<&str> = columns.iter().map(|&column| self.columns[column].title.as_str()).collect();
        let mut lines = vec![titles];
        for row in &self.rows {
            lines.push(columns.iter().filter_map(|&column| Some(row.get(column)?.text.as_str())).collect());
        }
        let mut out = String::new();
        for cells in lines {
            let mut line = " ".repeat(indent);
            for (nth, (cell, &column)) in cells.into_iter().zip(columns).enumerate() {
                line.push_str(if nth > 0 { "  " } else { "" });
                let space = " ".repeat(widths[column] - cell.chars().count());
                line.extend(if self.columns[column].kind.is_number() { [&space, cell] } else { [cell, &space] });
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// The table as Markdown. `cell` converts a text to the contents of a cell.
    pub fn markdown(&self, cell: impl Fn(&str) -> String) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let rule = |column: &Column| if column.kind.is_number() { "---:" } else { "---" }.to_owned();
        let mut out = line(self.columns.iter().map(|column| cell(&column.title)).collect());
        out += &line(self.columns.iter().map(rule).collect());
        out.extend(self.rows.iter().map(|row| line(row.iter().map(|of| cell(&of.text)).collect())));
        out
    }
}

/// Escapes Markdown, HTML, and mentions of users, because names come from studies.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '@' => out.extend(['\\', c]),
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::ColumnKind::{Count, Text};
    use super::*;

    #[test]
    fn a_table_in_a_narrow_window_goes_on_below() {
        let mut table = Table::new([("store", Text), ("rate", Count), ("p50", Count), ("p99", Count)]);
        table.row(["sqlite", "12,000", "90 µs", "110 µs"]);
        table.row(["redb", "9", "1 s", "12 s"]);
        assert_eq!(table.print_within(2, usize::MAX), table.print(2));
        assert_eq!(
            table.print_within(2, 24),
            "  store     rate    p50\n  sqlite  12,000  90 µs\n  redb         9    1 s\n\n  store      p99\n  sqlite  110 µs\n  redb      12 s\n"
        );
        // A column that is wider than the window stands alone after the first column, and nothing is left out.
        assert_eq!(table.print_within(2, 5).matches("sqlite").count(), 3);
    }
}
