//! Templates such as `users/{index:08}`: literal text and names in braces.

use super::error::DocumentError;

/// A part of a template as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text that is used as it is.
    Literal(String),
    /// A name, with the number of digits to pad to (0: none).
    Name {
        /// The part before the colon.
        name: String,
        /// Digits to pad to.
        width: usize,
    },
}

/// Parses a template; `{{` and `}}` stand for braces.
pub(crate) fn parse(text: &str, path: &str) -> Result<Vec<Piece>, DocumentError> {
    let wrong = |message: String| DocumentError::new(path, message);
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            literal.push_str(brace);
            rest = after;
            continue;
        }
        if brace == "}" {
            return Err(wrong(format!("`{text}` has a }} without a matching {{; write }}}} for a literal brace")));
        }
        let end = rest
            .find('}')
            .ok_or_else(|| wrong(format!("`{text}` has a {{ without a matching }}; write {{{{ for a literal brace")))?;
        let inside = &rest[..end];
        rest = &rest[end + 1..];
        let (name, width) = match inside.split_once(':') {
            None => (inside, 0),
            Some((name, digits)) => {
                let width = digits.parse::<usize>().ok().filter(|w| (1..=40).contains(w)).ok_or_else(|| {
                    wrong(format!(
                        "`{{{inside}}}`: expected a number of digits from 1 to 40 after the colon, such as {{{name}:08}}"
                    ))
                })?;
                (name, width)
            }
        };
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Name { name: name.trim().to_owned(), width });
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_read() {
        assert_eq!(
            parse("a/{{x}}{index:08}-{parent.key}", "p").unwrap(),
            vec![
                Piece::Literal("a/{x}".into()),
                Piece::Name { name: "index".into(), width: 8 },
                Piece::Literal("-".into()),
                Piece::Name { name: "parent.key".into(), width: 0 },
            ]
        );
        for wrong in ["{index", "index}", "{index:x}", "{index:0}", "{index:99}"] {
            assert!(parse(wrong, "p").is_err(), "{wrong}");
        }
    }
}
