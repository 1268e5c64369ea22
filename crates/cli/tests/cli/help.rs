//! The help texts and the list of stores.

use std::path::Path;

use crate::common::Cli;

#[test]
fn help() {
    let cli = Cli::new();
    insta::assert_snapshot!("help", cli.run("--help").code(0).out);
    for verb in
        ["init", "run", "bench", "compare", "generate", "infer", "verify", "plan", "stores", "conform", "doctor"]
    {
        let long = cli.run(&format!("{verb} --help")).code(0);
        assert!(long.err.is_empty(), "{}", long.err);
        insta::assert_snapshot!(format!("help-{verb}"), long.out);
    }
}

#[test]
fn help_is_a_verb() {
    let cli = Cli::new();
    assert_eq!(cli.run("help bench").code(0).out, cli.run("bench --help").code(0).out);
    assert_eq!(cli.run("help").code(0).out, cli.run("--help").code(0).out);
    assert!(cli.run("help bnech").code(2).err.contains("bnech"));
}

#[test]
fn version() {
    assert_eq!(Cli::new().run("--version").code(0).out, concat!("storebench ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn stores_are_listed() {
    insta::assert_snapshot!(Cli::new().run("stores").code(0).out);
}

#[test]
fn stores_as_json() {
    let cli = Cli::new();
    let listed = cli.run("stores --json").code(0).json();
    assert_eq!(listed["format"], "storebench-stores/1");
    let stores = listed["stores"].as_array().unwrap();
    let find = |scheme: &str| stores.iter().find(|s| s["scheme"] == scheme).unwrap();
    assert_eq!(find("sqlite")["can"]["operations"]["read"], "native");
    assert!(find("sqlite")["can"]["durability"]["fsync"].as_str().unwrap().contains("synchronous"));
    assert!(find("slow")["can"].is_null() && find("slow")["options"]["latency"].is_string());
    assert_eq!(cli.run("stores redb --json").code(0).json()["stores"].as_array().unwrap().len(), 1);
    let wrong = cli.run("stores sqlit").code(2);
    assert_eq!(wrong.err, "error: unknown store `sqlit`; did you mean `sqlite`?\n");
    assert_eq!(std::fs::read_dir(cli.folder.path()).unwrap().count(), 0, "listing touches nothing");
}

#[test]
fn completions_are_those_of_the_docs() {
    let cli = Cli::new();
    for (shell, file) in [("bash", "storebench.bash"), ("zsh", "_storebench"), ("fish", "storebench.fish")] {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/completions").join(file);
        assert_eq!(cli.run(&format!("completions {shell}")).code(0).out, std::fs::read_to_string(kept).unwrap());
    }
    cli.run("completions tcsh").code(2);
}
