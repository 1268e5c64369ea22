//! Hides passwords on the command line, which every process of the machine can read while the program runs.

use storebench_results::redact_url;

/// Overwrites secrets in the memory that `ps` and `/proc/PID/cmdline` show. Call this after parsing the arguments.
pub(crate) fn hide_secrets() {
    // If the system does not report where the arguments are, they stay visible. Nothing else depends on this.
    let _ = overwrite();
}

fn overwrite() -> Option<()> {
    let typed = std::fs::read("/proc/self/cmdline").ok()?;
    let (start, end) = bounds(&std::fs::read_to_string("/proc/self/stat").ok()?)?;
    if end.checked_sub(start)? != typed.len() || typed.last() != Some(&0) {
        return None;
    }
    let mut at = start;
    for argument in typed.split_inclusive(|byte| *byte == 0) {
        if let Some(shown) = without_secrets(&argument[..argument.len() - 1]) {
            // SAFETY: the kernel reports that the arguments of this process are from `start` to `end`, and they were
            // just read from there. `at` is the start of one of them, and `shown` has its length without the final
            // zero byte, which stays. The arguments are on the stack that the kernel set up, which is writable and
            // never freed. The standard library returns copies of arguments and no references. No other thread runs
            // yet.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    shown.as_ptr(),
                    std::ptr::with_exposed_provenance_mut::<u8>(at),
                    shown.len(),
                );
            }
        }
        at += argument.len();
    }
    Some(())
}

/// Where the arguments begin and end: fields 48 and 49 of `/proc/PID/stat` (proc(5)). The second field, the program's
/// name in parentheses, may itself contain spaces and parentheses.
fn bounds(stat: &str) -> Option<(usize, usize)> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().skip(48 - 3);
    let (start, end) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (start > 0 && start < end).then_some((start, end))
}

/// The argument with its secrets hidden, at the same length; `None` if it has no secret.
fn without_secrets(argument: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(argument);
    let shown = redact_url(&text);
    if shown == *text {
        return None;
    }
    let mut shown = shown.into_bytes();
    if shown.len() > argument.len() {
        // The three stars are longer than the password. Hide everything from the password on.
        let same = shown.iter().zip(argument).take_while(|(a, b)| a == b).count();
        shown.truncate(same);
        shown.resize(argument.len(), b'*');
    }
    shown.resize(argument.len(), 0);
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_keeps_its_length() {
        for (argument, shown) in [
            ("redis://me:secret@host", "redis://me:***@host\0\0\0"),
            ("redis://me:p@host", "redis://me:******"),
            ("redis://me:pa<s s@host", "redis://me:***@host\0\0\0"),
            ("--store=a=redis://:secret@host?x=1", "--store=a=redis://:***@host?x=1\0\0\0"),
        ] {
            assert_eq!(String::from_utf8(without_secrets(argument.as_bytes()).unwrap()).unwrap(), shown);
        }
        assert_eq!(without_secrets(b"sqlite:a.db"), None);
    }

    #[test]
    fn the_bounds_are_found_behind_any_name() {
        let rest = (3..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(bounds(&format!("77 (a) b) (c) {rest}")), Some((48, 49)));
        assert_eq!(bounds("77 (short) S 1 2 3"), None);
        assert_eq!(bounds(&format!("1 (x) {}", "0 ".repeat(50))), None);
    }
}
