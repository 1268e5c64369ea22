//! What the server's SQLSTATEs mean in the contract's terms
//! (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).

use storebench_engine::store::{ErrorKind, OpError, StoreError};

use super::wire::ServerError;

/// What to do if a policy hides rows from a user who reads all rows.
const HIDDEN: &str = "; some rows may be hidden from this user: read as the table's owner or a role with BYPASSRLS, or \
                      use --query to copy the visible rows";

/// Whether rows would have been missing if the session had not asked for an error instead.
fn hides(error: &ServerError) -> bool {
    error.code == "42501" && error.message.contains("affected by row-level security")
}

/// A failed operation. A statement that fails is rolled back, so nothing was done.
pub(super) fn op_error(error: &ServerError) -> OpError {
    let code = error.code.as_str();
    let kind = match code {
        "23505" => ErrorKind::Conflict,
        // Serialization, deadlock, lock not available, object in use, canceled by a timeout of the
        // server, cannot connect now.
        "40001" | "40P01" | "55P03" | "55006" | "57014" | "57P03" => ErrorKind::Temporary,
        _ => match code.get(..2).unwrap_or_default() {
            // Insufficient resources: disk full, out of memory, too many connections.
            "53" => ErrorKind::Temporary,
            // Not supported, bad data, constraint, read-only, privileges, syntax and names, limits.
            "0A" | "22" | "23" | "25" | "28" | "42" | "44" | "54" => ErrorKind::Refused,
            _ => ErrorKind::Failed,
        },
    };
    let remedy = match code {
        "22P05" => "; jsonb cannot hold the character \\u0000: leave it out of the document",
        "22021" => "; text cannot hold the byte 0: leave it out of the key",
        "25006" => "; this server accepts no writes; if it is a standby, use the primary",
        "26000" => "; if a connection pooler is in between, it must keep a session on one connection",
        "53100" => "; the server's disk is full",
        "42501" if hides(error) => HIDDEN,
        "54000" => "; a key or an indexed field exceeds the limit of a B-tree entry (2,704 bytes)",
        _ => "",
    };
    OpError::new(kind, format!("{error}{remedy}"))
}

/// A control call or a login that failed. `place` is `host:port/database`.
pub(super) fn store_error(place: &str, doing: &str, error: &ServerError) -> StoreError {
    let text = |remedy: &str| format!("{place}: cannot {doing}: {error}{remedy}");
    match error.code.as_str() {
        "28P01" => StoreError::Unreachable(text(
            "; check the user and the password (in the URL, password_file=, password_env= or STOREBENCH_PASSWORD)",
        )),
        // A role that does not exist, or that may not log in, has the code of a rule that refuses it.
        "28000" if !error.message.contains("pg_hba.conf") => StoreError::Unreachable(text(
            "; name another user in the URL, or create the role with `createuser` and let it log in",
        )),
        "28000" => StoreError::Unreachable(text(
            "; the server's pg_hba.conf does not let this user in from this host; name another user, or \
             use postgres+tls:// if it requires TLS",
        )),
        "3D000" => {
            StoreError::Unreachable(text("; create it with `createdb`, or name another database after the host"))
        }
        "53300" => StoreError::Unreachable(text("; raise max_connections, or use fewer connections")),
        "57P03" | "57P01" | "57P02" => StoreError::Unreachable(text("; try again when it is up")),
        "42501" if hides(error) => StoreError::NotSupported(text(HIDDEN)),
        "42501" => StoreError::Failed(text("; grant the user that privilege, or name another user")),
        "25006" => StoreError::NotSupported(text("; name the primary, since standbys accept no writes")),
        "2BP01" => StoreError::NotOurs(text("; remove what depends on it first, since Storebench did not make that")),
        _ => StoreError::Failed(text("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_sqlstate() {
        let kind = |code: &str| op_error(&ServerError { code: code.into(), ..ServerError::default() }).kind;
        for (code, expected) in [
            ("23505", ErrorKind::Conflict),
            ("40001", ErrorKind::Temporary),
            ("40P01", ErrorKind::Temporary),
            ("53100", ErrorKind::Temporary),
            ("57P03", ErrorKind::Temporary),
            ("22P02", ErrorKind::Refused),
            ("42P01", ErrorKind::Refused),
            ("54000", ErrorKind::Refused),
            ("25006", ErrorKind::Refused),
            ("58030", ErrorKind::Failed),
            ("XX000", ErrorKind::Failed),
            ("", ErrorKind::Failed),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
    }

    /// One code for what the server's rules refuse, and for roles that do not exist (`auth.c`, `miscinit.c`).
    #[test]
    fn an_unknown_role_is_not_a_rule_of_the_server() {
        let refused = |message: &str| {
            let error = ServerError { code: "28000".into(), message: message.into(), ..ServerError::default() };
            store_error("h/d", "log in as `me`", &error).to_string()
        };
        for message in ["role \"me\" does not exist", "role \"me\" is not permitted to log in"] {
            let told = refused(message);
            assert!(told.contains("createuser") && !told.contains("pg_hba"), "{told}");
        }
        let told = refused("no pg_hba.conf entry for host \"10.0.0.7\", user \"me\", database \"d\", no encryption");
        assert!(told.contains("does not let this user in") && !told.contains("createuser"), "{told}");
    }

    #[test]
    fn rows_that_would_be_hidden_have_a_remedy_of_their_own() {
        let denied = |message: &str| {
            let error = ServerError { code: "42501".into(), message: message.into(), ..ServerError::default() };
            (store_error("h/d", "read", &error), op_error(&error).message)
        };
        let (store, op) = denied("query would be affected by row-level security policy for table \"books\"");
        assert!(matches!(&store, StoreError::NotSupported(text) if text.ends_with(HIDDEN)), "{store:?}");
        assert!(op.ends_with(HIDDEN), "{op}");
        let (store, op) = denied("permission denied for table books");
        assert!(store.to_string().contains("that privilege") && !op.contains("BYPASSRLS"), "{store} {op}");
    }
}
