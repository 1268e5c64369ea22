//! What Redis's error codes mean in the contract's terms.

use storebench_engine::store::{ErrorKind, OpError};

/// A failed command: its error line without the `-`. Redis checks before it does anything, so that
/// nothing was done.
pub(super) fn op_error(line: &[u8]) -> OpError {
    let text = String::from_utf8_lossy(line);
    let code = text.split(' ').next().unwrap_or_default();
    let (kind, remedy) = match code {
        "LOADING" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "BUSY" | "MOVED" | "ASK" | "NOREPLICAS" => {
            (ErrorKind::Temporary, "")
        }
        "READONLY" => (ErrorKind::Temporary, "; it is a replica now: another node has become the primary"),
        "OOM" => (ErrorKind::Temporary, "; it may hold no more than its maxmemory"),
        "NOSCRIPT" => (ErrorKind::Temporary, "; they are loaded again"),
        "WRONGTYPE" => (ErrorKind::Refused, "; the value stored under this key is not a string"),
        "NOAUTH" | "NOPERM" | "WRONGPASS" => (ErrorKind::Refused, "; give the user the right to do this"),
        "MISCONF" => (ErrorKind::Failed, "; free some space where it saves its data, or look at its log"),
        _ if text.contains("would overflow") || text.contains("not an integer") || text.contains("maximum allowed") => {
            (ErrorKind::Refused, "")
        }
        _ => (ErrorKind::Failed, ""),
    };
    OpError::new(kind, format!("Redis: {}{remedy}", text.chars().take(200).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_kind() {
        for (line, kind) in [
            ("LOADING Redis is loading the dataset in memory", ErrorKind::Temporary),
            ("CLUSTERDOWN The cluster is down", ErrorKind::Temporary),
            ("TRYAGAIN Multiple keys request during rehashing of slot", ErrorKind::Temporary),
            ("READONLY You can't write against a read only replica.", ErrorKind::Temporary),
            ("BUSY Redis is busy running a script.", ErrorKind::Temporary),
            ("OOM command not allowed when used memory > 'maxmemory'.", ErrorKind::Temporary),
            ("NOPERM this user has no permissions", ErrorKind::Refused),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", ErrorKind::Refused),
            ("ERR value is not an integer or out of range script: 1", ErrorKind::Refused),
            ("ERR increment or decrement would overflow", ErrorKind::Refused),
            ("ERR string exceeds maximum allowed size (proto-max-bulk-len)", ErrorKind::Refused),
            ("MISCONF Redis is configured to save RDB snapshots", ErrorKind::Failed),
            ("ERR whatever", ErrorKind::Failed),
            ("", ErrorKind::Failed),
        ] {
            assert_eq!(op_error(line.as_bytes()).kind, kind, "{line}");
        }
    }
}
