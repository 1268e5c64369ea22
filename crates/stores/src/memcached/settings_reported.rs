//! How the server says that it is set up.

use storebench_engine::store::StoreSettings;

use super::control::find;

/// Settings that speed and memory depend on, each with the value that memcached 1.6 is shipped with, as far as all its
/// releases agree on one.
const SETTINGS: &[(&str, Option<&str>)] = &[
    ("evictions", Some("on")),
    ("growth_factor", Some("1.25")),
    ("item_size_max", Some("1048576")),
    ("lru_maintainer_thread", None),
    (LIMIT, Some("67108864")),
    ("maxconns", Some("1024")),
    ("num_threads", Some("4")),
    ("slab_automove", None),
    ("slab_reassign", None),
];

/// The limit of memory in bytes.
const LIMIT: &str = "maxbytes";

/// Reads the answers to `stats settings` and `stats`.
pub(super) fn read(settings: &[(String, String)], stats: &[(String, String)]) -> StoreSettings {
    let memory_bytes = find(settings, LIMIT).and_then(|bytes| bytes.parse().ok());
    let mut told = StoreSettings { memory_bytes, ..StoreSettings::default() };
    for (name, shipped) in SETTINGS {
        if let Some(value) = find(settings, name) {
            told.add(*name, value, shipped.map(|shipped| value != shipped));
        }
    }
    // The server does not tell the path, but only a server that has one counts what is there.
    let has_files = stats.iter().any(|(name, _)| name.starts_with("extstore_"));
    told.add("ext_path", if has_files { "set" } else { "not set" }, Some(has_files));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        text.lines().filter_map(|line| line.split_once(' ')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
    }

    fn shown(settings: &str, stats: &str) -> Vec<String> {
        let told = read(&pairs(settings), &pairs(stats));
        told.all.iter().map(|of| format!("{} {} {:?}", of.name, of.value, of.changed)).collect()
    }

    #[test]
    fn settings_are_compared_with_the_shipped_ones() {
        let settings =
            "maxbytes 134217728\nmaxconns 1024\ntcpport 11211\nslab_reassign yes\nevictions on\nnum_threads 8";
        let expected = [
            "evictions on Some(false)",
            "ext_path not set Some(false)",
            "maxbytes 134217728 Some(true)",
            "maxconns 1024 Some(false)",
            "num_threads 8 Some(true)",
            "slab_reassign yes None",
        ];
        assert_eq!(shown(settings, "curr_items 1"), expected);
        assert_eq!(read(&pairs(settings), &[]).memory_bytes, Some(128 << 20));
        assert_eq!(read(&pairs("maxbytes lots"), &[]).memory_bytes, None);
    }

    #[test]
    fn paths_are_not_told() {
        let settings = "domain_socket /run/me\nauth_enabled_ascii /etc/passwords\ninter 10.0.0.7";
        assert_eq!(shown(settings, "extstore_bytes_used 7"), ["ext_path set Some(true)"]);
    }
}
