//! `docs/verdicts.md`: an introduction by hand, the rest from what the checks say of themselves.

use super::check::Group;
use super::checks::CHECKS;

const INTRODUCTION: &str = include_str!("page.md");

/// Columns of the page.
const WIDTH: usize = 112;

/// The page, in Markdown.
pub fn page() -> String {
    let mut out = INTRODUCTION.to_owned();
    for group in Group::ALL {
        out += &format!("\n## {}\n", group.title());
        for check in CHECKS.iter().filter(|check| check.group == group) {
            let told = if check.of_the_answer { " The headline tells it." } else { "" };
            out += &format!("\n{}\n", filled(&format!("**{}.** {}{told}", check.name, (check.page)())));
        }
    }
    out
}

/// Text with lines of even length: thresholds are put into it, so that no line keeps the length it was written with.
/// An empty line ends a paragraph, `- ` begins an item.
fn filled(text: &str) -> String {
    let mut blocks: Vec<String> = Vec::new();
    let mut ended = true;
    for line in text.lines().map(str::trim) {
        match blocks.last_mut() {
            // A line of a table stays a line.
            Some(block) if !ended && !line.is_empty() && !line.starts_with("- ") && !line.starts_with('|') => {
                block.push(' ');
                block.push_str(line);
            }
            _ => blocks.push(line.to_owned()),
        }
        ended = line.is_empty();
    }
    blocks.iter().map(|block| wrapped(block)).collect::<Vec<_>>().join("\n")
}

/// One paragraph or item in lines; those of an item are indented.
fn wrapped(block: &str) -> String {
    if block.starts_with('|') {
        return block.to_owned();
    }
    let indent = if block.starts_with("- ") { "  " } else { "" };
    let mut lines: Vec<String> = Vec::new();
    for part in parts(block) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + part.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(&part);
            }
            None => lines.push(part),
            Some(_) => lines.push(format!("{indent}{part}")),
        }
    }
    lines.join("\n")
}

/// Words, each with those that must not begin a line: a unit without its figure, and what would be taken for an item
/// of a list.
fn parts(block: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for word in block.split(' ').filter(|word| !word.is_empty()) {
        let numbered = word.strip_suffix(['.', ')']).is_some_and(|n| n.chars().all(|c| c.is_ascii_digit()));
        match parts.last_mut() {
            Some(last) if numbered || word.starts_with('%') || last == "-" => {
                last.push(' ');
                last.push_str(word);
            }
            _ => parts.push(word.to_owned()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_text_of_its_own() {
        let page = page();
        for check in CHECKS {
            assert_eq!(page.matches(&format!("**{}.**", check.name)).count(), 1, "{}", check.name);
            assert!((check.page)().len() > 60, "{}", check.name);
            assert!(!check.looks.is_empty(), "{}", check.name);
        }
        assert!(page.lines().all(|line| line.chars().count() <= 120));
    }

    #[test]
    fn text_is_filled_and_items_are_indented() {
        let text = format!("{0}\n{0}\n\n- {0}\n{0}\n- short\n\nend", "word ".repeat(15).trim());
        let lines: Vec<String> = filled(&text).lines().map(str::to_owned).collect();
        let starts: Vec<&str> = lines.iter().map(|line| line.get(..6).unwrap_or(line)).collect();
        assert_eq!(starts, ["word w", "word w", "", "- word", "  word", "- shor", "", "end"]);
    }

    #[test]
    fn no_line_begins_with_what_belongs_to_the_last() {
        assert_eq!(parts("below 5 % of it, code 1. Then"), ["below", "5 %", "of", "it,", "code 1.", "Then"]);
    }
}
