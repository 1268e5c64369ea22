//! Man pages, completions, schema and the pages of stores and verdicts are those of this version.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::Cli;

const PARTS: [&str; 5] = ["man", "completions", "schema/study.schema.json", "stores.md", "verdicts.md"];

/// Every file below, by its path.
fn read(root: &Path, part: &str, files: &mut BTreeMap<String, String>) {
    let path = root.join(part);
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            read(root, &format!("{part}/{name}"), files);
        }
    } else {
        files.insert(part.to_owned(), std::fs::read_to_string(path).unwrap());
    }
}

#[test]
fn committed_assets_are_current() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let cli = Cli::new();
    cli.run("assets made").code(0);
    let (mut made, mut committed) = (BTreeMap::new(), BTreeMap::new());
    for part in PARTS {
        read(&cli.path("made"), part, &mut made);
        read(&docs, part, &mut committed);
    }
    assert!(made.keys().eq(committed.keys()), "{:?} and {:?}", made.keys(), committed.keys());
    for (name, text) in &made {
        assert!(
            committed[name] == *text,
            "docs/{name} is not current; write it anew with `cargo run -p storebench -- assets docs`"
        );
    }
}

#[test]
fn pages_tell_every_verb_but_the_hidden_one() {
    let cli = Cli::new();
    cli.run("assets made").code(0);
    let page = std::fs::read_to_string(cli.path("made/man/storebench.1")).unwrap();
    for verb in ["run", "bench", "compare", "generate", "verify", "plan", "stores", "conform", "doctor"] {
        assert!(cli.path(&format!("made/man/storebench-{verb}.1")).exists());
        assert!(page.contains(verb));
    }
    for file in
        ["man/storebench.1", "completions/storebench.bash", "completions/_storebench", "completions/storebench.fish"]
    {
        let text = std::fs::read_to_string(cli.path("made").join(file)).unwrap();
        assert!(!text.contains("assets"), "{file} offers what is hidden");
    }
}
