//! `doctor`: checks this machine for what would spoil a measurement.

use storebench_lab::doctor::{CheckState, examine};

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::output::{colours, print, print_json};

pub(crate) fn doctor(args: &DoctorArgs) -> Result<u8, Failure> {
    if !args.path.exists() {
        return Err(Failure::bad_input(format!(
            "{}: no such file or folder; name the folder in which stores will keep their data",
            args.path.display()
        )));
    }
    let report = examine(&args.path);
    if args.json {
        print_json(&report)?;
        return Ok(0);
    }
    let colour = colours();
    let mut out = String::new();
    for found in &report.checks {
        let (mark, code) = match found.state {
            CheckState::Ok => ("ok", "32"),
            CheckState::Caution => ("caution", "33"),
        };
        let mark = format!("{mark:<8}");
        let mark = if colour { format!("\u{1b}[{code}m{mark}\u{1b}[0m") } else { mark };
        out += &format!("{mark}{:<15} {}\n{:24}{}\n", found.check, found.observed, "", found.means);
    }
    let cautions = report.checks.iter().filter(|c| c.state == CheckState::Caution).count();
    out += &match cautions {
        0 => "\nfound nothing that would spoil a measurement\n".to_owned(),
        1 => "\n1 thing to keep in mind\n".to_owned(),
        n => format!("\n{n} things to keep in mind\n"),
    };
    print(&out)?;
    Ok(0)
}
