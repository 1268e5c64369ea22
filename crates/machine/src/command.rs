//! A command of the user's own that is run to its end.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::process::{Group, Pid, Tree};

const LOOK_FIRST: Duration = Duration::from_millis(1);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Bytes at the end of its output that an error shows.
const LAST_BYTES: u64 = 2_000;

/// Why a command has not done what it was for.
pub(crate) struct Failed {
    /// How it ended.
    pub(crate) why: String,
    /// The last that it said.
    pub(crate) said: String,
}

/// Runs a command (`sh -c`) to its end; one that takes longer than `within` is killed with all that it has started.
///
/// # Errors
/// Where it cannot be run, fails, or takes too long: with the command and the last that it said.
pub fn run_command(line: &str, within: Duration) -> Result<(), String> {
    run_line(line, &[], within).map_err(|Failed { why, said }| match said.is_empty() {
        true => format!("`{line}` {why}"),
        false => format!("`{line}` {why}:\n{said}"),
    })
}

/// The same with this environment besides that of this process.
pub(crate) fn run_line(line: &str, env: &[(String, String)], within: Duration) -> Result<(), Failed> {
    // A file: what it leaves behind may hold a pipe open for ever.
    let unrun = |error: std::io::Error| Failed { why: format!("cannot be run: {error}"), said: String::new() };
    let mut said = tempfile::tempfile().map_err(unrun)?;
    let other = |said: &File| said.try_clone().map_err(unrun);
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null()).stdout(other(&said)?).stderr(other(&said)?).process_group(0);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn().map_err(unrun)?;
    let began = Instant::now();
    let why = loop {
        match child.try_wait().map_err(unrun)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => break format!("ended with {status}"),
            None if began.elapsed() >= within => {
                Tree::of(Pid::of(child.id()).as_slice()).kill();
                // Those too that were left to init.
                Group::of(&child).into_iter().for_each(Group::kill);
                let _ = child.wait();
                break format!("had not ended within {within:?} and was killed");
            }
            // Most end at once, and how long they took is part of what is measured.
            None => std::thread::sleep((began.elapsed() / 8).clamp(LOOK_FIRST, LOOK_EVERY)),
        }
    };
    let length = said.seek(SeekFrom::End(0)).unwrap_or(0);
    let mut text = Vec::new();
    let _ = said.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES))).and_then(|_| said.read_to_end(&mut text));
    Err(Failed { why, said: String::from_utf8_lossy(&text).trim_end().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_run_to_its_end_and_its_last_words_are_told() {
        assert_eq!(run_command("exit 0", Duration::from_secs(30)), Ok(()));
        let failed = run_command("echo gone; exit 3", Duration::from_secs(30)).unwrap_err();
        assert!(failed.ends_with("ended with exit status: 3:\ngone"), "{failed}");
        // It leaves somebody behind, who is not waited for.
        assert_eq!(run_command("sleep 5 & exit 0", Duration::from_secs(30)), Ok(()));
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_with_what_it_started() {
        let mark = format!("600.{}", std::process::id());
        let failed = run_command(&format!("sleep {mark} & sleep {mark}"), Duration::from_millis(300)).unwrap_err();
        assert!(failed.contains("had not ended within 300ms"), "{failed}");
        let running = Command::new("pgrep").args(["-f", &format!("sleep {mark}")]).output().unwrap();
        assert!(running.stdout.is_empty(), "{}", String::from_utf8_lossy(&running.stdout));
    }
}
