//! Finds the commands that a page shows: in blocks marked `sh` or `console`, in the comments of a study, and in text.

/// A command as a reader would type it, and its line in the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The commands in the blocks of a page that name the program. A script (`#!`) is one command. Commands in the
/// background (`&`) and those after them, up to `wait`, are one command too.
///
/// # Errors
///
/// If a block of another kind shows a command: nobody would test it.
pub(crate) fn in_blocks(page: &str) -> Result<Vec<Shown>, String> {
    let mut shown = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(kind) = line.trim_start().strip_prefix("```") else { continue };
        let body: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, l)| l.trim_start() != "```").collect();
        match kind {
            "sh" if body.first().is_some_and(|(_, first)| first.starts_with("#!")) => {
                let text = body.iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
                shown.push(Shown { line: at + 2, text });
            }
            "sh" => shown.extend(commands(body.into_iter())),
            "console" => shown.extend(in_console(&body).into_iter().map(|(command, _)| command)),
            // How a command is written, not one to type.
            "text" => {}
            other => {
                if let Some((at, _)) = body.iter().find(|(_, line)| line.trim_start().starts_with("storebench ")) {
                    return Err(format!("line {}: a command in a block marked `{other}`, not sh or console", at + 1));
                }
            }
        }
    }
    shown.retain(|command| names_the_program(&command.text));
    Ok(shown)
}

/// The commands of a `console` block, each with the lines that it prints.
fn in_console(body: &[(usize, &str)]) -> Vec<(Shown, Vec<String>)> {
    let mut found: Vec<(Shown, Vec<String>)> = Vec::new();
    for (at, line) in body {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(text), _) => found.push((Shown { line: at + 1, text: text.to_owned() }, Vec::new())),
            (None, Some((command, printed))) if printed.is_empty() && is_unfinished(&command.text) => {
                command.text = format!("{}\n{line}", command.text);
            }
            (None, Some((_, printed))) => printed.push((*line).to_owned()),
            (None, None) => {}
        }
    }
    found
}

/// What a page shows as printed by the program: after a command in a `console` block, or in a block without a kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) line: usize,
    /// The line of its command.
    pub(crate) by: Option<usize>,
    pub(crate) text: Vec<String>,
    /// Whether the paragraph before the block says that it is an example, and of which day.
    pub(crate) is_example: bool,
}

pub(crate) fn printed(page: &str) -> Vec<Printed> {
    let mut found = Vec::new();
    let (mut paragraph, mut has_ended) = (String::new(), true);
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(kind) = line.trim_start().strip_prefix("```") else {
            if line.trim().is_empty() {
                has_ended = true;
            } else if std::mem::take(&mut has_ended) {
                line.clone_into(&mut paragraph);
            } else {
                paragraph = paragraph + " " + line;
            }
            continue;
        };
        let is_example = paragraph.contains("xample") && paragraph.split([' ', ',', ':', ';', '.']).any(is_day);
        (paragraph, has_ended) = (String::new(), true);
        let body: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, l)| l.trim_start() != "```").collect();
        let line = at + 1;
        match kind {
            "" => {
                let text = body.iter().map(|(_, line)| (*line).to_owned()).collect();
                found.push(Printed { line, by: None, text, is_example });
            }
            "console" => {
                let all = in_console(&body).into_iter().filter(|(_, text)| !text.is_empty());
                found.extend(all.map(|(by, text)| Printed { line, by: Some(by.line), text, is_example }));
            }
            _ => {}
        }
    }
    found
}

/// Whether a word is a day such as `2026-11-26`.
fn is_day(word: &str) -> bool {
    word.len() == 10
        && word.bytes().enumerate().all(|(at, c)| if [4, 7].contains(&at) { c == b'-' } else { c.is_ascii_digit() })
}

/// The lines with words that the output does not contain in this order. Figures, their units and places are left out.
pub(crate) fn not_printed(shown: &[String], output: &str) -> Vec<String> {
    let output = words(output);
    let is_there = |part: &str| {
        let part = words(part);
        part.is_empty() || output.windows(part.len()).any(|window| window == part)
    };
    shown.iter().filter(|line| !line.split('…').all(is_there)).cloned().collect()
}

/// The words of what is printed.
fn words(text: &str) -> Vec<&str> {
    const UNITS: [&str; 16] =
        ["%", "k", "M", "s", "ms", "µs", "ns", "min", "B", "KiB", "MiB", "GiB", "MB/s", "GB/s", "docs/s", "Mbit/s"];
    let is_figure = |word: &str| {
        let bare = word.trim_end_matches([',', ';', '.', ')']);
        word.contains("://") || word.contains(|c: char| c.is_ascii_digit()) || UNITS.contains(&bare)
    };
    text.split_whitespace().filter(|word| !is_figure(word)).collect()
}

/// The commands of a `sh` block.
fn commands<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    let mut goes_on = false;
    for (at, line) in lines {
        match shown.last_mut() {
            Some(last) if goes_on => last.text = format!("{}\n{line}", last.text),
            _ => shown.push(Shown { line: at + 1, text: line.to_owned() }),
        }
        let text = &shown[shown.len() - 1].text;
        let waits = text.lines().last().is_some_and(|line| line.trim_end().ends_with("wait"));
        goes_on = is_unfinished(text) || text.lines().any(|line| line.trim_end().ends_with('&')) && !waits;
    }
    shown
}

/// The commands in the comments of a study file: lines that are indented by three spaces. Two spaces end a command;
/// what follows says what it is for.
pub(crate) fn in_comments(study: &str) -> Vec<Shown> {
    let command = |(at, line): (usize, &str)| {
        let typed = line.strip_prefix("#   ")?.split("  ").next()?.trim();
        let called = typed.strip_prefix("sudo ").unwrap_or(typed).starts_with("storebench ");
        called.then(|| Shown { line: at + 1, text: typed.to_owned() })
    };
    study.lines().enumerate().filter_map(command).collect()
}

/// The commands between backticks in the text of a page, or in the comments of a study.
pub(crate) fn in_text(file: &str) -> Vec<Shown> {
    let mut shown = Vec::new();
    let (mut in_block, mut is_code) = (false, false);
    let mut code = Shown { line: 0, text: String::new() };
    for (at, line) in file.lines().enumerate() {
        in_block ^= line.trim_start().starts_with("```");
        if in_block || line.trim_start().starts_with("```") || line.trim().is_empty() {
            is_code = false;
            continue;
        }
        for (n, part) in line.trim_start_matches("# ").split('`').enumerate() {
            if n > 0 {
                is_code = !is_code;
                if is_code {
                    code = Shown { line: at + 1, text: String::new() };
                } else if code.text.starts_with("storebench ") {
                    shown.push(std::mem::replace(&mut code, Shown { line: 0, text: String::new() }));
                }
            }
            if is_code {
                code.text = (code.text + " " + part.trim()).trim().to_owned();
            }
        }
    }
    shown
}

/// Whether the program is called, directly or by `"$(command -v storebench)"`.
fn names_the_program(text: &str) -> bool {
    let is_comment = text.starts_with('#') && !text.starts_with("#!");
    !is_comment && (text.starts_with("storebench ") || text.contains(" storebench ") || text.contains(" storebench)"))
        || text.contains("\nstorebench ")
}

/// Whether the shell would wait for another line: within quotes, or after a backslash.
fn is_unfinished(text: &str) -> bool {
    text.ends_with('\\') || split(text).is_none()
}

/// The words of a command, with operators of the shell as words of their own; none if a quote is open.
fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        end if end == c => break,
                        // A command within the quotes has quotes of its own.
                        '$' if c == '"' && rest.peek() == Some(&'(') => {
                            word.push('$');
                            let inner: String = rest.by_ref().take_while(|c| *c != ')').collect();
                            *word += &(inner + ")");
                        }
                        other => word.push(other),
                    }
                }
            }
            '\\' => match rest.next() {
                Some('\n') | None => {}
                Some(other) => word.get_or_insert_default().push(other),
            },
            '#' if word.is_none() => while rest.next_if(|c| *c != '\n').is_some() {},
            ' ' => words.extend(word.take()),
            '\n' | ';' | '&' | '|' | '<' | '>' => {
                words.extend(word.take());
                words.push(c.to_string());
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

/// The arguments of each call of the program in a command, as the shell would give them, without expansions.
pub(crate) fn calls(text: &str) -> Vec<Vec<String>> {
    let words = split(text).unwrap_or_default();
    let parts = words.split(|word| ["\n", ";", "&", "|", "<", ">"].contains(&word.as_str()));
    let is_program = |word: &String| word == "storebench" || word == "$(command -v storebench)";
    let call = |part: &[String]| {
        let at = part.iter().position(is_program)?;
        Some(std::iter::once("storebench".to_owned()).chain(part[at + 1..].iter().cloned()).collect())
    };
    parts.filter_map(call).collect()
}

#[test]
fn commands_are_found_in_blocks() {
    let page = "text\n```console\n$ storebench plan a \\\n    --json   # as it's said\nprinted: storebench run\n$ ls\n```\n\
                ```sh\nexport A=1\nstorebench copy a b --map '.a\n  | .b'\nstorebench run a &\nstorebench run b\nwait\n\
                storebench merge x\n```\n```sh\n#!/bin/sh\nset -e\nstorebench run x\n```\n```text\nstorebench VERB\n```\n";
    let found: Vec<(usize, String)> = in_blocks(page).unwrap().into_iter().map(|c| (c.line, c.text)).collect();
    let expected = [
        (3, "storebench plan a \\\n    --json   # as it's said"),
        (10, "storebench copy a b --map '.a\n  | .b'"),
        (12, "storebench run a &\nstorebench run b\nwait"),
        (15, "storebench merge x"),
        (18, "#!/bin/sh\nset -e\nstorebench run x"),
    ];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    let error = in_blocks("```\nstorebench run a\n```\n").unwrap_err();
    assert!(error.starts_with("line 2: "), "{error}");
}

#[test]
fn what_is_printed_is_found_and_compared_by_its_words() {
    let page = "An example of\n2026-11-26:\n\n```console\n$ storebench a \\\n  b\nread 5\n…\n$ ls\n```\nNo day, but example.\n\n\
                ```\ntotal 7\n```\n```text\nstorebench VERB\n```\n";
    let line = |text: &str| vec![text.to_owned()];
    let expected = [
        Printed { line: 4, by: Some(5), text: vec!["read 5".into(), "…".into()], is_example: true },
        Printed { line: 13, by: None, text: line("total 7"), is_example: false },
    ];
    assert_eq!(printed(page), expected);
    let output = "read 20 · written 20 · rejected 0 · 5.1 MB/s\nverified: the target holds\nwhat was written";
    let shown = |text: &str| not_printed(&line(text), output);
    assert_eq!(shown("read 1 · written 7 · … · 300 MB/s"), line("x")[..0]);
    assert_eq!(shown("verified: the target holds what was written"), line("x")[..0]);
    assert_eq!(shown("read 1 · lost 7"), line("read 1 · lost 7"));
}

#[test]
fn commands_are_found_in_comments_and_in_text() {
    let study = "# A study.\n#\n#   storebench run a --set 'b={ c = 1 }'    some minutes\n# See `storebench stores`.\n";
    assert_eq!(in_comments(study), [Shown { line: 3, text: "storebench run a --set 'b={ c = 1 }'".into() }]);
    assert_eq!(in_text(study), [Shown { line: 4, text: "storebench stores".into() }]);
    let page = "Use `a` or `storebench run\nx --keep`, or `b`.\n\n```sh\nstorebench run `c`\n```\nAn odd ` here.\n\n`storebench check H`\n";
    let found: Vec<(usize, String)> = in_text(page).into_iter().map(|c| (c.line, c.text)).collect();
    assert_eq!(found, [(1, "storebench run x --keep".to_owned()), (9, "storebench check H".to_owned())]);
}

#[test]
fn calls_have_the_words_that_the_shell_gives() {
    let words = |text: &str| calls(text).into_iter().map(|call| call[1..].join("|")).collect::<Vec<_>>();
    assert_eq!(
        words("A=1 storebench run 'a b' --set \"x='y'\" > out.txt; storebench plan c\\ d"),
        ["run|a b|--set|x='y'", "plan|c d"]
    );
    assert_eq!(words("sudo \"$(command -v storebench)\" run x"), ["run|x"]);
    assert_eq!(words("for n in 1 2; do storebench run x; done"), ["run|x"]);
    assert_eq!(
        words("storebench compare \"$(printf '%s,' r/*/ | sed 's/,$//')\" --json"),
        ["compare|$(printf '%s,' r/*/ | sed 's/,$//')|--json"]
    );
    assert_eq!(words("storebench run x \\\n  --keep  # it's kept"), ["run|x|--keep"]);
}
