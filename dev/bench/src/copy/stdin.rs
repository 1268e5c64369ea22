//! Memory of a copy of 10 GB through standard input, which cannot be held in memory or cut into parts.

use std::io::Write;
use std::process::Stdio;

use super::{Documents, Lab, TOPIC};
use crate::Failure;
use crate::figure::{Figure, Target, Unit};
use crate::memory::high_water_bytes;
use crate::options::Options;
use crate::rounds::interleave;

const BYTES: u64 = 10_000_000_000;
/// Documents that are piped repeatedly. The copy reads them each time.
const DOCUMENTS: u64 = 10_000;

pub(super) fn measure(options: &Options, lab: &Lab) -> Result<Vec<Figure>, Failure> {
    let lines = std::fs::read(lab.lines(&Documents::new(DOCUMENTS, "1KiB")?)?)?;
    let many = options.work(BYTES);
    let mut ours = || most_mb(lab, &lines, many).map(|mb| [mb]);
    let mut few = || most_mb(lab, &lines, many / 100).map(|mb| [mb]);
    // Memory hardly differs from round to round.
    let all = interleave::<1>(options.rounds.min(2), vec![&mut ours, &mut few])?;
    let [[ours], [few]] = &all[..] else { return Err("two sides give two results".into()) };
    let what = format!("standard input: most resident memory over {} GB of JSON lines", many / 1_000_000_000);
    Ok(vec![
        Figure::new(TOPIC, what, Unit::Mb, ours.clone())
            .beside("over a hundredth of them", few.clone())
            .target(Target::AtMost(300.0)),
    ])
}

/// Pipes this many bytes of whole lines, or a few more, and returns the peak memory of the copy.
fn most_mb(lab: &Lab, lines: &[u8], bytes: u64) -> Result<f64, Failure> {
    let mut command = lab.command("-", "null:", &["--to-collection", "documents", "--parallel", "1"]);
    let mut copy = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut input = copy.stdin.take().ok_or("the copy has no standard input")?;
    let (mut written, mut most) = (0, 0);
    while written < bytes {
        input.write_all(lines)?;
        written += lines.len() as u64;
        most = high_water_bytes(copy.id()).max(most);
    }
    drop(input);
    // Wait for what is still in the pipe.
    while copy.try_wait()?.is_none() {
        most = high_water_bytes(copy.id()).max(most);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let ended = copy.wait()?;
    if ended.success() { Ok(most as f64 / 1e6) } else { Err(format!("the copy ended with {ended}").into()) }
}
