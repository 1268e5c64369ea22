//! Wraps text to a given width.

/// Values as a row of bars, from zero to the greatest: `▂▅▇█▇▆`.
pub(crate) fn sparkline(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
    let bar = |value: f64| match value {
        v if !v.is_finite() || v < 0.0 => ' ',
        v if most > 0.0 => BARS[((v / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
        _ => BARS[0],
    };
    values.iter().copied().map(bar).collect()
}

/// Breaks a text at spaces into lines of at most `width` characters. A longer word gets a line of its own.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
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

/// Wraps a text to `width` characters, with `first` before the first line and `further` before the others.
pub fn paragraph(first: &str, further: &str, text: &str, width: usize) -> String {
    let mut out = String::new();
    let deepest = first.chars().count().max(further.chars().count());
    for (n, line) in wrap(text, width.saturating_sub(deepest)).into_iter().enumerate() {
        out.extend([if n == 0 { first } else { further }, &line, "\n"]);
    }
    out
}

/// Facts separated by dots, on as many lines as needed. Further lines are indented.
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
