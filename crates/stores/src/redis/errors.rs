//! Maps Redis's error codes to error kinds.

use storebench_engine::store::{ErrorKind, OpError};

/// The error of a failed command, from its error line without the `-`. Redis validates a command before it runs
/// it, so nothing was changed.
pub(super) fn op_error(line: &[u8]) -> OpError {
    let text = String::from_utf8_lossy(line);
    let code = text.split(' ').next().unwrap_or_default();
    let (kind, remedy) = match code {
        "LOADING" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "BUSY" | "MOVED" | "ASK" | "NOREPLICAS" => {
            (ErrorKind::Temporary, "")
        }
        "READONLY" => (ErrorKind::Temporary, "; this node is now a replica, and another node is the primary"),
        "OOM" => (ErrorKind::Temporary, "; the server has reached its maxmemory"),
        "NOSCRIPT" => (ErrorKind::Temporary, "; the scripts are being reloaded"),
        "WRONGTYPE" => (ErrorKind::Refused, "; the value stored under this key is not a string"),
        "NOAUTH" | "NOPERM" | "WRONGPASS" => (ErrorKind::Refused, "; grant the user this permission"),
        "MISCONF" => (ErrorKind::Failed, "; free disk space for its data, or see its log"),
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
