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
