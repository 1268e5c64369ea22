//! How the server says that it is set up.

use storebench_engine::store::{StoreError, StoreSettings};

use super::channel::{Fault, Row};
use super::login::Connected;

/// One row for each setting: its name, its value with its unit, whether it was changed, whether it is a text, and the
/// bytes of the buffers. What is set in this connection was set by the driver, and is left out.
///
/// `initdb` writes some settings into the configuration with the value that they have anyway. For the buffers that is
/// 128 MB, which not every version calls their default.
const SETTINGS: &str = "SELECT name, current_setting(name, true), \
     source NOT IN ('default', 'override', 'environment variable') AND coalesce(reset_val, '') <> coalesce(boot_val, '') \
       AND (name, reset_val) <> ('shared_buffers', '16384'), \
     vartype = 'string', CASE name WHEN 'shared_buffers' THEN pg_size_bytes(current_setting(name)) END \
     FROM pg_settings WHERE source NOT IN ('client', 'session', 'interactive', 'test')";

/// The SQLSTATEs of a server without such a view: no table, no column, no function of this name.
const LACKING: [&str; 3] = ["42P01", "42703", "42883"];

/// The settings that are reported whether or not they were changed.
const ALWAYS: &[&str] = &[
    "autovacuum",
    "checkpoint_timeout",
    "default_toast_compression",
    "effective_cache_size",
    "effective_io_concurrency",
    "fsync",
    "full_page_writes",
    "huge_pages",
    "jit",
    "maintenance_work_mem",
    "max_connections",
    "max_parallel_workers_per_gather",
    "max_wal_size",
    "max_worker_processes",
    "random_page_cost",
    LIBRARIES,
    "shared_buffers",
    "synchronous_commit",
    "wal_buffers",
    "wal_compression",
    "wal_level",
    "work_mem",
];

/// The libraries that the server loads: a text, but one that speed may depend on.
const LIBRARIES: &str = "shared_preload_libraries";

/// Beginnings of the names of other settings that are not reported, because they are about addresses, logs, logins, or
/// how values are shown.
const APART: &[&str] = &[
    "IntervalStyle",
    "bonjour",
    "bytea_output",
    "client_",
    "extra_float_digits",
    "krb_",
    "lc_",
    "log_",
    "logging_collector",
    "password_encryption",
    "port",
    "ssl",
    "syslog_",
    "unix_socket_",
];

/// Asks a server. The settings are empty if it cannot tell them in PostgreSQL's way.
pub(super) async fn ask(server: &mut Connected) -> Result<StoreSettings, StoreError> {
    let Connected { target, channel, .. } = server;
    let asking = async {
        match channel.query(SETTINGS).await {
            Err(Fault::Server(error)) if LACKING.contains(&error.code.as_str()) => Ok(Vec::new()),
            rows => rows,
        }
    };
    Ok(read(&target.ask("read its settings", asking).await?))
}

/// Reads the rows of [`SETTINGS`].
fn read(rows: &[Row]) -> StoreSettings {
    let mut settings = StoreSettings::default();
    for row in rows {
        let [Some(name), Some(value), Some(changed), Some(is_text), bytes] = &row[..] else { continue };
        let changed = changed == "t";
        if let Some(bytes) = bytes {
            settings.memory_bytes = bytes.parse().ok();
        }
        if is_reported(name, changed, is_text == "t") {
            let value = if name == LIBRARIES { without_folders(value) } else { value.clone() };
            settings.add(name, value, Some(changed));
        }
    }
    settings
}

/// A text may name users, addresses, paths or secrets.
fn is_reported(name: &str, changed: bool, is_text: bool) -> bool {
    ALWAYS.contains(&name) || (changed && !is_text && !APART.iter().any(|apart| name.starts_with(apart)))
}

/// `auto_explain, $libdir/other` without the folders.
fn without_folders(libraries: &str) -> String {
    let file = |library: &str| library.rsplit('/').next().unwrap_or_default().trim().trim_matches('"').to_owned();
    libraries.split(',').map(file).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of a number, as the server sends it.
    fn row(name: &str, value: &str, changed: &str, is_text: &str) -> Row {
        [name, value, changed, is_text].map(|part| Some(part.to_owned())).into_iter().chain([None]).collect()
    }

    #[test]
    fn what_matters_and_what_was_changed_is_reported() {
        let mut buffers = row("shared_buffers", "1GB", "t", "f");
        buffers[4] = Some("1073741824".into());
        let settings = read(&[
            row("work_mem", "4MB", "f", "f"),
            buffers,
            row("vacuum_cost_limit", "300", "t", "f"),
            row("vacuum_cost_delay", "0", "f", "f"),
            row("fsync", "off", "t", "f"),
            vec![Some("jit".into()), None, None, None, None],
            vec![],
        ]);
        let of = |name: &str, value: &str, changed| (name.to_owned(), value.to_owned(), Some(changed));
        let told: Vec<_> = settings.all.into_iter().map(|of| (of.name, of.value, of.changed)).collect();
        let expected = [
            of("fsync", "off", true),
            of("shared_buffers", "1GB", true),
            of("vacuum_cost_limit", "300", true),
            of("work_mem", "4MB", false),
        ];
        assert_eq!((told.as_slice(), settings.memory_bytes), (&expected[..], Some(1 << 30)));
    }

    #[test]
    fn addresses_paths_users_and_secrets_are_not_reported() {
        for (name, is_text) in [
            ("port", "f"),
            ("listen_addresses", "t"),
            ("data_directory", "t"),
            ("ssl_key_file", "t"),
            ("ssl_prefer_server_ciphers", "f"),
            ("primary_conninfo", "t"),
            ("archive_command", "t"),
            ("lc_messages", "t"),
            ("log_min_duration_statement", "f"),
            ("IntervalStyle", "f"),
            ("some_extension.key", "t"),
        ] {
            assert!(read(&[row(name, "x", "t", is_text)]).all.is_empty(), "{name}");
        }
        let settings = read(&[row(LIBRARIES, "auto_explain,/home/me/mine, \"$libdir/other\"", "t", "t")]);
        assert_eq!(settings.all[0].value, "auto_explain, mine, other");
        assert_eq!(without_folders(""), "");
    }

    #[test]
    fn no_rows_are_no_settings() {
        assert_eq!(read(&[]), StoreSettings::default());
    }
}
