//! A client that gets a tenth of a processor reports it, and its figures are invalid.

use std::process::Stdio;
use std::time::Duration;

use crate::common::Cli;
use rustix::process::{Pid, Signal, kill_process};

/// Like `cpulimit`, stops the process for nine tenths of every 50 ms.
#[test]
fn a_starved_client_does_not_call_its_figures_valid() {
    for args in [
        "bench memory: --docs 2k --rate 5000 --duration 4s --warm-up 0s --json --quiet",
        "bench sqlite:starved.db --docs 2k --duration 4s --warm-up 0s --json --quiet",
    ] {
        let cli = Cli::new();
        let args: Vec<&str> = args.split(' ').collect();
        let mut child = cli.command(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        // Read in another thread, because a full pipe would block the child.
        let mut stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut stdout, &mut text).unwrap();
            text
        });
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            // It may have ended in the meantime. It was not waited for yet, so no other process has its ID.
            let _ = kill_process(pid, Signal::STOP);
            std::thread::sleep(Duration::from_millis(45));
            let _ = kill_process(pid, Signal::CONT);
            std::thread::sleep(Duration::from_millis(5));
        };
        let result: serde_json::Value = serde_json::from_str(&reader.join().unwrap()).unwrap();
        let invalid: Vec<&str> = result["checks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|v| v["severity"] == "invalid")
            .map(|v| v["check"].as_str().unwrap())
            .collect();
        assert_eq!(status.code(), Some(4), "{args:?}: {:#}", result["checks"]);
        assert!(invalid.iter().any(|c| ["client-saturated", "send-delay"].contains(c)), "{args:?}: {invalid:?}");
    }
}
