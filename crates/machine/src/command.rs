//! Runs the user's commands to completion.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::process::{Group, Pid, Tree};
use super::user::User;

const FIRST_LOOK: Duration = Duration::from_micros(500);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Bytes of output that an error shows.
const LAST_BYTES: u64 = 2_000;

/// Runs a command (`sh -c`) to completion. If it takes longer than `within`, or `stopped` becomes true, it is killed
/// with all its descendants.
///
/// # Errors
/// Fails if the command cannot be run, fails, or takes too long. The message holds the command and its last output.
pub fn run_command(line: &str, within: Duration, stopped: &dyn Fn() -> bool) -> Result<(), String> {
    run(line, None, &[], within, stopped).map_err(|Failed { why, said }| {
        if said.is_empty() { format!("`{line}` {why}") } else { format!("`{line}` {why}:\n{said}") }
    })
}

/// How a command failed.
pub(crate) struct Failed {
    /// A clause of a sentence.
    pub(crate) why: String,
    /// The last output.
    pub(crate) said: String,
}

/// Like [`run_command`], as this user and with these environment variables.
pub(crate) fn run(
    line: &str,
    user: Option<&User>,
    env: &[(String, String)],
    within: Duration,
    stopped: &dyn Fn() -> bool,
) -> Result<(), Failed> {
    // A file: a process left behind may hold a pipe open forever.
    let unrun = |error: std::io::Error| Failed { why: format!("cannot be run: {error}"), said: String::new() };
    let mut said = tempfile::tempfile().map_err(unrun)?;
    let other = |said: &File| said.try_clone().map_err(unrun);
    let mut command = match user {
        None => Command::new("sh"),
        Some(user) => user.shell(),
    };
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
                // Also those that init has adopted.
                Group::of(&child).into_iter().for_each(Group::kill);
                let _ = child.wait();
                break match stopped() {
                    true => "was killed on request".to_owned(),
                    false => format!("did not finish within {:.1} s and was killed", within.as_secs_f64()),
                };
            }
            None => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(LOOK_EVERY);
    };
    let length = said.seek(SeekFrom::End(0)).unwrap_or(0);
    let mut text = Vec::new();
    // Output that cannot be read is left out.
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
        // The process left behind is not waited for.
        assert_eq!(run_command("sleep 5 & exit 0", Duration::from_secs(30), &|| false), Ok(()));
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_with_what_it_started() {
        let mark = format!("600.{}", std::process::id());
        let line = format!("sleep {mark} & sleep {mark}");
        let failed = run_command(&line, Duration::from_millis(300), &|| false).unwrap_err();
        assert!(failed.contains("did not finish within 0.3 s"), "{failed}");
        let asked = run_command(&line, Duration::from_secs(600), &|| true).unwrap_err();
        assert!(asked.contains("on request"), "{asked}");
        let running = Command::new("pgrep").args(["-f", &format!("sleep {mark}")]).output().unwrap();
        assert!(running.stdout.is_empty(), "{}", String::from_utf8_lossy(&running.stdout));
    }
}
