//! `cargo xtask docs` writes the generated parts of `docs/`: man pages, completions, the schema of study files, and the
//! pages of stores and checks. A test checks that they are up to date.

mod docs;

use std::path::Path;
use std::process::ExitCode;

#[expect(clippy::print_stderr, reason = "a program for developers")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["docs"] {
        eprintln!("usage: cargo xtask docs");
        return ExitCode::from(2);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    match docs::write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
