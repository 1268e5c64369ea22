//! Peers that no package has for this system: they are built here, from the versions that `dev/bench/peers` names.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::process;
use crate::Failure;

/// Where a peer that is built here is put.
pub(super) fn folder(name: &str) -> Result<PathBuf, Failure> {
    let this = std::env::current_exe()?;
    Ok(this.parent().ok_or("the folder of this program is unknown")?.join("peers").join(name))
}

pub(super) fn sources(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

/// Builds a program in Go: a package of the module in the folder of this name.
pub(super) fn go(name: &str, package: &str) -> Result<PathBuf, Failure> {
    let out = folder(name)?;
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&out).arg(package).current_dir(sources(name));
    process::run(&mut build, &[0])?;
    Ok(out)
}

/// Builds a program of a crate, once.
pub(super) fn crate_of(name: &str, version: &str, program: &str) -> Result<PathBuf, Failure> {
    let out = folder(&format!("{name}-{version}"))?;
    let mut build = Command::new("cargo");
    build.args(["install", "--locked", "--quiet", name, "--version", version, "--root"]).arg(&out);
    process::run(&mut build, &[0])?;
    Ok(out.join("bin").join(program))
}
