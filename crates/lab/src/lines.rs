//! Text in columns and lines of a given width.

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
        let all: Vec<usize> = (0..self.aligns.len()).collect();
        self.columns(indent, &all, &self.widths())
    }

    /// The same in lines of at most `width` signs: columns that have no room stand below, behind the first one again.
    pub(crate) fn print_within(&self, indent: usize, width: usize) -> String {
        let widths = self.widths();
        let mut out = String::new();
        let mut part = vec![0];
        let room = |part: &[usize]| indent + part.iter().map(|&c| widths[c] + 2).sum::<usize>() - 2;
        for column in 1..self.aligns.len() {
            part.push(column);
            if room(&part) > width && part.len() > 2 {
                part.pop();
                out.push_str(&self.columns(indent, &part, &widths));
                out.push('\n');
                part = vec![0, column];
            }
        }
        out.push_str(&self.columns(indent, &part, &widths));
        out
    }

    /// How wide each column is.
    fn widths(&self) -> Vec<usize> {
        (0..self.aligns.len())
            .map(|column| self.rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max().unwrap_or(0))
            .collect()
    }

    fn columns(&self, indent: usize, columns: &[usize], widths: &[usize]) -> String {
        let mut out = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (nth, &column) in columns.iter().enumerate() {
                let Some(cell) = row.get(column) else { break };
                if nth > 0 {
                    line.push_str("  ");
                }
                let space = " ".repeat(widths[column] - cell.chars().count());
                match self.aligns[column] {
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

/// Values as bars beside each other, from zero to the greatest: `▂▅▇█▇▆`.
pub fn sparkline(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
    let bar = |value: f64| match value {
        v if !v.is_finite() || v < 0.0 => ' ',
        v if most > 0.0 => BARS[((v / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
        _ => BARS[0],
    };
    values.iter().copied().map(bar).collect()
}

/// Breaks a text at spaces into lines of at most `width` signs; a longer word keeps its line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
        }
        used += length;
    }
    lines
}

/// A text in lines of at most `width` signs, the first behind `first`, the others behind `further`.
pub fn paragraph(first: &str, further: &str, text: &str, width: usize) -> String {
    let mut out = String::new();
    let deepest = first.chars().count().max(further.chars().count());
    for (n, line) in wrap(text, width.saturating_sub(deepest)).into_iter().enumerate() {
        out.extend([if n == 0 { first } else { further }, &line, "\n"]);
    }
    out
}

/// Facts between dots, on as many lines as they need; further lines begin deeper.
pub(crate) fn facts(first: &str, facts: &[String], width: usize) -> String {
    let mut out = first.to_owned();
    let mut used = first.chars().count();
    for (n, fact) in facts.iter().enumerate() {
        let length = fact.chars().count();
        if n > 0 && used + 3 + length > width {
            out.push_str("\n    ");
            used = 4;
        } else if n > 0 {
            out.push_str(" · ");
            used += 3;
        }
        out.push_str(fact);
        used += length;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_in_a_narrow_window_goes_on_below() {
        let mut table =
            Table::new(&[("arm", Align::Left), ("rate", Align::Right), ("p50", Align::Right), ("p99", Align::Right)]);
        table.row(["sqlite", "12,000", "90 µs", "110 µs"].map(str::to_owned).to_vec());
        table.row(["redb", "9", "1 s", "12 s"].map(str::to_owned).to_vec());
        assert_eq!(table.print_within(2, usize::MAX), table.print(2));
        assert_eq!(
            table.print_within(2, 24),
            "  arm       rate    p50\n  sqlite  12,000  90 µs\n  redb         9    1 s\n\n  arm        p99\n  sqlite  \
             110 µs\n  redb      12 s\n"
        );
        // What is wider than the window stands alone behind the first column, and nothing is left out.
        assert_eq!(table.print_within(2, 5).matches("sqlite").count(), 3);
    }
}
