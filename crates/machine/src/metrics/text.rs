//! The Prometheus text format 0.0.4, and the differences of OpenMetrics that matter to a reader.

use super::Sample;

/// How much of a line an error shows.
const SHOWN_CHARS: usize = 80;

/// All samples of a text. Help, types, timestamps and exemplars are ignored.
///
/// # Errors
/// Fails if any line is not in this format: then the lines before it cannot be trusted either.
pub(super) fn parse(text: &str) -> Result<Vec<Sample>, String> {
    let mut samples = Vec::new();
    for (number, line) in text.split('\n').enumerate() {
        let line = line.trim_matches([' ', '\t', '\r']);
        if line.strip_prefix('#').is_some_and(|comment| comment.trim() == "EOF") {
            break;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let sample = sample(line).map_err(|why| {
            let shown: String = line.chars().take(SHOWN_CHARS).collect();
            format!("line {} is not in the Prometheus text format, {why}: `{shown}`", number + 1)
        })?;
        samples.push(sample);
    }
    Ok(samples)
}

fn sample(line: &str) -> Result<Sample, &'static str> {
    let mut rest = Rest(line);
    let mut name = rest.name(":").to_owned();
    let mut labels = Vec::new();
    if rest.take('{') {
        while !rest.take('}') {
            // An unusual name is written among the labels, in quotes.
            if let Some(quoted) = rest.quoted()? {
                if rest.take('=') {
                    let value = rest.quoted()?.ok_or("a label has no value in quotes")?;
                    labels.push((quoted, value));
                } else if name.is_empty() {
                    name = quoted;
                } else {
                    return Err("a label has no `=`");
                }
            } else {
                let label = rest.name("").to_owned();
                if label.is_empty() {
                    return Err("a label has no name");
                }
                if !rest.take('=') {
                    return Err("a label has no `=`");
                }
                labels.push((label, rest.quoted()?.ok_or("a label has no value in quotes")?));
            }
            if !rest.take(',') && !rest.0.starts_with('}') {
                return Err("its labels are not closed");
            }
        }
    } else if !rest.0.starts_with([' ', '\t']) {
        return Err("a name must be followed by labels or a value");
    }
    if name.is_empty() {
        return Err("it has no name");
    }
    // An exemplar follows a `#`.
    let mut words = rest.0.split_ascii_whitespace().take_while(|word| *word != "#");
    let value = words.next().and_then(|word| word.parse().ok()).ok_or("its value is not a number")?;
    // OpenMetrics allows fractions of seconds.
    if words.next().is_some_and(|word| word.parse::<f64>().is_err()) {
        return Err("its timestamp is not a number");
    }
    if words.next().is_some() {
        return Err("text follows the timestamp");
    }
    Ok(Sample { name, labels, value })
}

/// The unread part of a line.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// Skips blanks, then reads this character if it comes next. Returns whether it did.
    fn take(&mut self, what: char) -> bool {
        let next = self.0.trim_start_matches([' ', '\t']).strip_prefix(what);
        self.0 = next.unwrap_or(self.0);
        next.is_some()
    }

    /// Skips blanks and reads a name; empty if there is none.
    fn name(&mut self, also: &str) -> &'a str {
        let start = self.0.trim_start_matches([' ', '\t']);
        let belongs = |c: char| c.is_ascii_alphanumeric() || c == '_' || also.contains(c);
        let end = start.find(|c| !belongs(c)).unwrap_or(start.len());
        if start.starts_with(|c: char| c.is_ascii_digit()) {
            return "";
        }
        self.0 = &start[end..];
        &start[..end]
    }

    /// Skips blanks and reads a quoted text.
    fn quoted(&mut self) -> Result<Option<String>, &'static str> {
        if !self.take('"') {
            return Ok(None);
        }
        let mut text = String::new();
        let mut chars = self.0.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.0 = &self.0[at + 1..];
                    return Ok(Some(text));
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, escaped @ ('\\' | '"'))) => text.push(escaped),
                    // As Prometheus does.
                    Some((_, other)) => text.extend(['\\', other]),
                    None => break,
                },
                _ => text.push(c),
            }
        }
        Err("a quote is not closed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Sample {
        let mut samples = parse(line).unwrap();
        assert_eq!(samples.len(), 1, "{line}");
        samples.remove(0)
    }

    fn labelled(name: &str, labels: &[(&str, &str)], value: f64) -> Sample {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Sample { name: name.to_owned(), labels, value }
    }

    #[test]
    fn samples_are_read_whatever_their_form() {
        for (line, expected) in [
            ("up 1", labelled("up", &[], 1.0)),
            ("\t up \t 1.5e+09 \r", labelled("up", &[], 1.5e9)),
            ("a:b_c{} -3", labelled("a:b_c", &[], -3.0)),
            ("x{a=\"1\",b=\"2\"} 4 1395066363000", labelled("x", &[("a", "1"), ("b", "2")], 4.0)),
            ("x { a = \"1\" , b=\"\" , }\t.5", labelled("x", &[("a", "1"), ("b", "")], 0.5)),
            ("x{a=\"1\"}7", labelled("x", &[("a", "1")], 7.0)),
            ("x{p=\"C:\\\\D\\\"\\n\\d}, # ü\"} 1", labelled("x", &[("p", "C:\\D\"\n\\d}, # ü")], 1.0)),
            ("x_bucket{le=\"+Inf\"} 17 # {trace_id=\"K\"} 9.8 1.5", labelled("x_bucket", &[("le", "+Inf")], 17.0)),
            ("x 17 1520879607.789 # {} 9.8", labelled("x", &[], 17.0)),
            ("{\"a.b\",\"c d\"=\"e\"} 2", labelled("a.b", &[("c d", "e")], 2.0)),
            ("x +Inf", labelled("x", &[], f64::INFINITY)),
            ("x -Inf", labelled("x", &[], f64::NEG_INFINITY)),
        ] {
            assert_eq!(one(line), expected);
        }
        assert!(one("x NaN").value.is_nan());
        assert_eq!(one("x{a=\"1\"} 1").label("a"), Some("1"));
        assert_eq!(one("x{a=\"1\"} 1").label("b"), None);
    }

    #[test]
    fn comments_and_what_follows_the_end_are_no_samples() {
        let text = "# HELP a Some \\n help {.\n# TYPE a counter\n#\n# anything\n\na 1\n  # b 2\nc 3\n# EOF\nnot read";
        let names: Vec<_> = parse(text).unwrap().into_iter().map(|sample| sample.name).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn a_line_that_is_none_is_named_with_what_is_wrong() {
        for (line, why) in [
            ("up", "followed by labels or a value"),
            ("up ", "followed by labels or a value"),
            ("up one", "value is not a number"),
            ("up 1,5", "value is not a number"),
            ("up # {} 1", "value is not a number"),
            ("up 1 now", "timestamp is not a number"),
            ("up 1 2 3", "text follows"),
            ("a.b 1", "followed by labels or a value"),
            ("9lives 9", "followed by labels or a value"),
            ("{a=\"1\"} 1", "no name"),
            (" 1", "followed by labels or a value"),
            ("x{a=\"1\"", "not closed"),
            ("x{a=\"1\" b=\"2\"} 1", "not closed"),
            ("x{a=\"1} 1", "quote is not closed"),
            ("x{a=\"1\\", "quote is not closed"),
            ("x{a=1} 1", "no value in quotes"),
            ("x{a} 1", "no `=`"),
            ("x{\"a\"} 1", "no `=`"),
            ("x{=\"1\"} 1", "no name"),
            ("x{,} 1", "no name"),
            ("x{a=\"1\"}", "value is not a number"),
            ("<html>", "followed by labels or a value"),
        ] {
            let error = parse(&format!("good 1\n{line}\n")).unwrap_err();
            assert!(error.starts_with("line 2 ") && error.contains(why), "{line}: {error}");
            assert!(error.contains(line.trim()), "{error}");
        }
        assert!(parse(&"ü".repeat(10_000)).unwrap_err().len() < 400);
    }
}
