//! Generated pages, each from a single definition.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

/// Writes every page below `docs/`.
pub(crate) fn write(docs: &Path) -> io::Result<()> {
    for (name, text) in pages()? {
        let path = docs.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(docs))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// The text of each page by its path below `docs/`.
fn pages() -> io::Result<BTreeMap<String, String>> {
    let mut pages = BTreeMap::new();
    let mut command = storebench_cli::command();
    // Sets the display names of subcommands.
    command.build();
    pages.insert("man/storebench.1".to_owned(), man(&command)?);
    for verb in command.get_subcommands() {
        let name = verb.get_display_name().unwrap_or(verb.get_name());
        pages.insert(format!("man/{name}.1"), man(verb)?);
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut storebench_cli::command(), "storebench", &mut text);
        let name = match shell {
            Shell::Zsh => "_storebench".to_owned(),
            other => format!("storebench.{other}"),
        };
        pages.insert(format!("completions/{name}"), utf8(text)?);
    }
    for (name, schema) in [
        ("study", storebench_study::workload::schema()),
        ("run", storebench_results::schema()),
        ("compare", storebench_results::compare::schema()),
        ("copy", storebench_transfer::schema().to_value()),
    ] {
        pages.insert(format!("schema/{name}.schema.json"), serde_json::to_string_pretty(&schema)? + "\n");
    }
    pages.insert("stores.md".to_owned(), storebench_cli::stores_page().map_err(io::Error::other)?);
    pages.insert("validity-checks.md".to_owned(), storebench_results::validity::page());
    Ok(pages)
}

fn man(command: &Command) -> io::Result<String> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone())
        .source(concat!("Storebench ", env!("CARGO_PKG_VERSION")))
        .manual("Storebench")
        .render(&mut text)?;
    utf8(text)
}

fn utf8(text: Vec<u8>) -> io::Result<String> {
    String::from_utf8(text).map_err(io::Error::other)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Folders that contain only generated files, so that the test finds files of removed verbs.
    const MADE: [&str; 3] = ["man", "completions", "schema"];

    #[test]
    fn committed_pages_are_current() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let made = pages().unwrap();
        for (name, text) in &made {
            let committed = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
            assert!(committed == *text, "docs/{name} is out of date; regenerate it with `cargo xtask docs`");
        }
        for folder in MADE {
            for file in std::fs::read_dir(docs.join(folder)).unwrap() {
                let name = format!("{folder}/{}", file.unwrap().file_name().to_str().unwrap());
                assert!(made.contains_key(&name), "docs/{name} is not generated from anything; remove it");
            }
        }
    }

    #[test]
    fn each_verb_has_a_page() {
        let made = pages().unwrap();
        for verb in ["run", "bench", "compare", "generate", "infer", "verify", "plan", "stores", "conform", "doctor"] {
            assert!(made.contains_key(&format!("man/storebench-{verb}.1")), "{verb}");
            assert!(made["man/storebench.1"].contains(verb), "{verb}");
        }
    }
}
