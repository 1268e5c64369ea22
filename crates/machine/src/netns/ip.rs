//! Runs `ip` of iproute2, and code inside a namespace.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::NetworkProblem;

/// The folders of named namespaces, depending on how `ip` was built.
const FOLDERS: [&str; 2] = ["/run/netns", "/var/run/netns"];

/// Runs `ip` and returns its output.
pub(super) fn ip(arguments: &[&str]) -> Result<String, NetworkProblem> {
    run(arguments, &[])
}

/// Runs several `ip` commands at once, in the given namespace or in that of this process. If one fails, those before it
/// stay in effect.
pub(super) fn batch(namespace: Option<&str>, lines: &[String]) -> Result<(), NetworkProblem> {
    let mut arguments = namespace.map_or(Vec::new(), |name| vec!["-netns", name]);
    arguments.extend(["-batch", "-"]);
    run(&arguments, lines).map(drop)
}

fn run(arguments: &[&str], lines: &[String]) -> Result<String, NetworkProblem> {
    let mut command = Command::new("ip");
    // Ordinary users, and some root shells, do not have these folders in PATH.
    let path = std::env::var("PATH").unwrap_or_default();
    command.args(arguments).env("LC_ALL", "C").env("PATH", format!("{path}:/usr/sbin:/sbin"));
    // Ctrl-C is for this process, which cleans up.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |shown: String, why: String| NetworkProblem::Command { command: shown, why };
    let shown = || format!("ip {}", arguments.join(" "));
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => failed(shown(), "command not found; install `iproute2`".to_owned()),
        _ => failed(shown(), format!("it cannot be run: {error}; it is part of `iproute2`")),
    })?;
    if let Some(mut input) = child.stdin.take() {
        // If `ip` has failed before reading all input, its output says why.
        let _ = input.write_all((lines.join("\n") + "\n").as_bytes());
    }
    let out = child.wait_with_output().map_err(|error| failed(shown(), error.to_string()))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let line = failed_line(&said).and_then(|number| lines.get(number.checked_sub(1)?));
    let shown = match (line, arguments) {
        (Some(line), ["-netns", name, ..]) => format!("ip -netns {name} {line}"),
        (Some(line), _) => format!("ip {line}"),
        (None, _) => shown(),
    };
    let told: Vec<&str> = said.lines().filter(|line| !line.starts_with("Command failed")).collect();
    let told = if told.is_empty() { out.status.to_string() } else { told.join(" ") };
    let why = format!("{told}{}", remedy(&shown, &told));
    Err(failed(shown, why))
}

/// The line at which a batch failed, counted from 1: `Command failed -:3`.
fn failed_line(said: &str) -> Option<usize> {
    said.lines().find_map(|line| line.strip_prefix("Command failed ")?.rsplit_once(':')?.1.trim().parse().ok())
}

/// What to do about a failure, if known.
fn remedy(command: &str, said: &str) -> &'static str {
    let unknown = said.contains("not supported") || said.contains("Unknown device type");
    if said.contains("not permitted") || said.contains("ermission denied") {
        "; run Storebench as root, in a container with the capabilities NET_ADMIN and SYS_ADMIN (`--privileged`)"
    } else if unknown && command.contains("type veth") {
        "; the kernel has no veth: `modprobe veth`"
    } else if unknown && command.contains(" rule ") {
        "; the kernel was built without CONFIG_IP_MULTIPLE_TABLES"
    } else if said.contains("nknown") || said.contains("nvalid argument") && command.starts_with("ip netns") {
        "; this may be the `ip` of busybox: install `iproute2`"
    } else {
        ""
    }
}

/// The file of a namespace, whether or not it exists.
pub(super) fn file(namespace: &str) -> PathBuf {
    let mut files = FOLDERS.iter().map(|folder| Path::new(folder).join(namespace));
    files.find(|file| file.exists()).unwrap_or_else(|| Path::new(FOLDERS[0]).join(namespace))
}

/// All named namespaces of this machine.
pub(super) fn namespaces() -> Vec<String> {
    let entries = FOLDERS.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut out: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    // One folder may be a link to the other.
    out.sort();
    out.dedup();
    out
}

/// Runs a closure in a namespace, on a separate thread. Sockets that it opens stay in that namespace.
pub(super) fn inside<T: Send>(namespace: &str, act: impl FnOnce() -> T + Send) -> Result<T, NetworkProblem> {
    let path = file(namespace);
    let failed = |why: String| NetworkProblem::Refused(format!("{} cannot be entered: {why}", path.display()));
    let target = File::open(&path).map_err(|error| failed(error.to_string()))?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, || {
            move_into_link_name_space(target.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(act())
        });
        let thread = thread.map_err(|error| failed(error.to_string()))?;
        match thread.join() {
            Ok(done) => done.map_err(|error: rustix::io::Errno| failed(error.to_string())),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_of_a_batch_and_what_to_do() {
        assert_eq!(failed_line("RTNETLINK answers: File exists\nCommand failed -:12\n"), Some(12));
        assert_eq!(failed_line("RTNETLINK answers: File exists\n"), None);
        let veth = remedy("ip link add x type veth peer name y", "Error: Unknown device type.");
        assert!(veth.contains("modprobe veth"));
        assert!(remedy("ip -netns x rule add iif y", "RTNETLINK answers: Operation not supported").contains("TABLES"));
        assert!(remedy("ip netns add x", "mount failed: Operation not permitted").contains("as root"));
        assert_eq!(remedy("ip link add x", "RTNETLINK answers: File exists"), "");
    }

    #[test]
    fn the_command_that_fails_is_told() {
        let lines = ["link show lo".to_owned(), "link show storebench-none".to_owned()];
        match batch(None, &lines) {
            Err(NetworkProblem::Command { command, why }) if !why.contains("iproute2") => {
                assert_eq!(command, "ip link show storebench-none");
                assert!(why.contains("does not exist"), "{why}");
            }
            Err(problem) => println!("skipped: {problem}"),
            Ok(()) => panic!("there is no such interface"),
        }
    }
}
