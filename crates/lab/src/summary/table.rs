//! Columns of text, as wide as what they hold.

/// Where a cell's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// At the left.
    Left,
    /// At the right.
    Right,
}

/// A table with a line of names.
#[derive(Debug)]
pub(crate) struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of these columns.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Self {
        let names = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        Self { aligns: columns.iter().map(|(_, align)| *align).collect(), rows: vec![names] }
    }

    /// Adds a line; cells beyond the columns are left out.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The lines, each with its end, behind so many spaces.
    pub(crate) fn print(&self, indent: usize) -> String {
        let widths: Vec<usize> = (0..self.aligns.len())
            .map(|column| self.rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max().unwrap_or(0))
            .collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (column, ((cell, width), align)) in row.iter().zip(&widths).zip(&self.aligns).enumerate() {
                if column > 0 {
                    line.push_str("  ");
                }
                let space = " ".repeat(width - cell.chars().count());
                match align {
                    Align::Left => line.extend([cell.as_str(), &space]),
                    Align::Right => line.extend([&space, cell.as_str()]),
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}
