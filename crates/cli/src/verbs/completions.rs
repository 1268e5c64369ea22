//! `completions SHELL`: prints a script of `docs/completions`, which `cargo xtask docs` generates from the arguments.

use crate::args::{CompletionsArgs, Shell};
use crate::failure::Failure;
use crate::output::print;

pub(crate) fn completions(args: &CompletionsArgs) -> Result<u8, Failure> {
    print(match args.shell {
        Shell::Bash => include_str!("../../../../docs/completions/storebench.bash"),
        Shell::Zsh => include_str!("../../../../docs/completions/_storebench"),
        Shell::Fish => include_str!("../../../../docs/completions/storebench.fish"),
    })?;
    Ok(0)
}
