//! `assets DIR`, hidden: man pages, completions, the schema and the pages of stores and verdicts, each from its
//! one definition.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::args::{Args, AssetsArgs};
use crate::failure::Failure;
use crate::stores_page;

pub(crate) fn assets(args: &AssetsArgs) -> Result<u8, Failure> {
    let refused = |e: std::io::Error| Failure::bad_input(format!("{}: {e}; use another folder", args.dir.display()));
    write_all(&args.dir).map_err(refused)?;
    fs::write(args.dir.join("stores.md"), stores_page::page()?).map_err(refused)?;
    fs::write(args.dir.join("verdicts.md"), storebench_lab::verdicts::page()).map_err(refused)?;
    Ok(0)
}

fn write_all(dir: &Path) -> std::io::Result<()> {
    let [man, completions, schema] = ["man", "completions", "schema"].map(|name| dir.join(name));
    for folder in [&man, &completions, &schema] {
        fs::create_dir_all(folder)?;
    }
    let mut command = shown();
    // Gives verbs their full names.
    command.build();
    page(&command, "storebench", &man)?;
    for verb in command.get_subcommands() {
        page(verb, verb.get_display_name().unwrap_or(verb.get_name()), &man)?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut shown(), "storebench", &mut text);
        let name = match shell {
            Shell::Zsh => "_storebench".to_owned(),
            other => format!("storebench.{other}"),
        };
        fs::write(completions.join(name), text)?;
    }
    let text = serde_json::to_string_pretty(&storebench_core::workload::schema())?;
    fs::write(schema.join("study.schema.json"), text + "\n")
}

/// The command without what is hidden: completions would offer it.
fn shown() -> Command {
    let whole = Args::command();
    let verbs: Vec<Command> = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    let about = whole.get_about().cloned().unwrap_or_default();
    let long_about = whole.get_long_about().cloned().unwrap_or_default();
    let after = whole.get_after_help().cloned().unwrap_or_default();
    Command::new("storebench")
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .long_about(long_about)
        .after_help(after)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands(verbs)
}

fn page(command: &Command, name: &str, folder: &Path) -> std::io::Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone())
        .source(concat!("Storebench ", env!("CARGO_PKG_VERSION")))
        .manual("Storebench")
        .render(&mut text)?;
    fs::write(folder.join(format!("{name}.1")), text)
}
