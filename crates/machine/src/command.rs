//! Commands of the user's own that are run to their end.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::process::{Group, Pid, Tree};

const FIRST_LOOK: Duration = Duration::from_micros(500);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Bytes at the end of its output that an error shows.
const LAST_BYTES: u64 = 2_000;

/// Runs a command (`sh -c`) to its end; one that takes longer than `within`, or while which `stopped` becomes true, is killed with
/// all that it has started.
///
/// # Errors
/// Where it cannot be run, fails, or takes too long: with the command and the last that it said.
pub fn run_command(line: &str, within: Duration, stopped: &dyn Fn() -> bool) -> Result<(), String> {
    run(line, &[], within, stopped).map_err(|Failed { why, said }| {
        if said.is_empty() { format!("`{line}` {why}") } else { format!("`{line}` {why}:\n{said}") }
    })
}

/// How a command failed.
pub(crate) struct Failed {
    /// In a clause.
    pub(crate) why: String,
    /// The last that it said.
    pub(crate) said: String,
}

/// The same with these variables in its environment.
pub(crate) fn run(
    line: &str,
    env: &[(String, String)],
    within: Duration,
    stopped: &dyn Fn() -> bool,
) -> Result<(), Failed> {
    // A file: what it leaves behind may hold a pipe open for ever.
    let unrun = |error: std::io::Error| Failed { why: format!("cannot be run: {error}"), said: String::new() };
    let mut said = tempfile::tempfile().map_err(unrun)?;
    let other = |said: &File| said.try_clone().map_err(unrun);
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null()).stdout(other(&said)?).stderr(other(&said)?).process_group(0);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn().map_err(unrun)?;
    let began = Instant::now();
    let mut pause = FIRST_LOOK;
    let why = loop {
        match child.try_wait().map_err(unrun)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => break format!("ended with {status}"),
            None if began.elapsed() >= within || stopped() => {
                Tree::of(Pid::of(child.id()).as_slice()).kill();
                // Those too that were left to init.
                Group::of(&child).into_iter().for_each(Group::kill);
                let _ = child.wait();
                break match stopped() {
                    true => "was ended, as was asked for".to_owned(),
                    false => format!("had not ended within {within:?} and was killed"),
                };
            }
            None => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(LOOK_EVERY);
    };
    let length = said.seek(SeekFrom::End(0)).unwrap_or(0);
    let mut text = Vec::new();
    // What cannot be read is not told.
    let _ = said.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES))).and_then(|_| said.read_to_end(&mut text));
    Err(Failed { why, said: String::from_utf8_lossy(&text).trim_end().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_run_to_its_end_and_its_last_words_are_told() {
        assert_eq!(run_command("exit 0", Duration::from_secs(30), &|| false), Ok(()));
        let failed = run_command("echo gone; exit 3", Duration::from_secs(30), &|| false).unwrap_err();
        assert!(failed.ends_with("ended with exit status: 3:\ngone"), "{failed}");
        // It leaves somebody behind, who is not waited for.
        assert_eq!(run_command("sleep 5 & exit 0", Duration::from_secs(30), &|| false), Ok(()));
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_with_what_it_started() {
        let mark = format!("600.{}", std::process::id());
        let line = format!("sleep {mark} & sleep {mark}");
        let failed = run_command(&line, Duration::from_millis(300), &|| false).unwrap_err();
        assert!(failed.contains("had not ended within 300ms"), "{failed}");
        let asked = run_command(&line, Duration::from_secs(600), &|| true).unwrap_err();
        assert!(asked.contains("as was asked for"), "{asked}");
        let running = Command::new("pgrep").args(["-f", &format!("sleep {mark}")]).output().unwrap();
        assert!(running.stdout.is_empty(), "{}", String::from_utf8_lossy(&running.stdout));
    }
}
