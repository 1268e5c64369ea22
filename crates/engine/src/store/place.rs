//! Where a store keeps its data, so that two URLs of one place are recognized as the same.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::AnyStore;

/// The place of a store's data. Options and decorators in the URL are ignored: stores that differ only in these may be
/// the same place. Each in-memory store is a separate place. `url` is how the store is displayed.
pub fn place_of(store: &Arc<dyn AnyStore>, url: &str) -> String {
    let url = url.split('?').next().unwrap_or_default();
    if url.ends_with("memory:") {
        return format!("{url}{:p}", Arc::as_ptr(store));
    }
    match store.paths().first() {
        Some(path) => canonical(path).display().to_string(),
        None => place_of_server(store.describe().scheme, url),
    }
}

/// A server's URL without decorators and user, with one name for the local machine and for all aliases of its scheme.
fn place_of_server(scheme: &str, url: &str) -> String {
    let Some((typed, rest)) = url.split_once("://") else {
        return url.rsplit_once('+').map_or(url, |(_, own)| own).to_owned();
    };
    // These hosts come from an SRV record.
    let srv = if typed.ends_with("+srv") { "+srv" } else { "" };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    let here = |host: &str| {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, Some(port)),
            _ => (host, None),
        };
        let name = name.to_ascii_lowercase();
        let name = if matches!(name.as_str(), "127.0.0.1" | "[::1]") { "localhost".to_owned() } else { name };
        port.map_or(name.clone(), |port| format!("{name}:{port}"))
    };
    let mut hosts: Vec<String> = hosts.split(',').map(here).collect();
    hosts.sort_unstable();
    format!("{scheme}{srv}://{}/{}", hosts.join(","), path.trim_end_matches('/'))
}

/// The canonical name of a file or folder, whether or not it exists: absolute, and without links.
pub fn canonical(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(found) = absolute.canonicalize() {
        return found;
    }
    // The path does not exist yet: use the nearest folder that does.
    let (Some(folder), Some(name)) = (absolute.parent(), absolute.file_name()) else { return absolute };
    canonical(folder).join(name)
}

/// Whether two paths lead to one file, including through symbolic or hard links.
pub fn same_file(a: &Path, b: &Path) -> bool {
    if canonical(a) == canonical(b) {
        return true;
    }
    match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_one_name() {
        let one = "couchdb://localhost:5984/";
        for url in [
            "couchdb://u@127.0.0.1:5984",
            "slow+couchdb://[::1]:5984/",
            "limit+slow+couchdb://LOCALHOST:5984",
            "couchdbs://localhost:5984",
        ] {
            assert_eq!(place_of_server("couchdb", url), one, "{url}");
        }
        assert_ne!(place_of_server("couchdb", "couchdb://localhost:5985"), one);
        assert_eq!(place_of_server("null", "limit+null:"), "null:");
        let mongodb = |url| place_of_server("mongodb", url);
        assert_eq!(mongodb("mongodb://b,a/shop/"), mongodb("mongodb://a,b/shop"));
        assert_ne!(mongodb("mongodb+srv://a/shop"), mongodb("mongodb://a/shop"));
        assert_eq!(mongodb("slow+mongodb+srv://a/shop"), mongodb("mongodb+srv://a/shop"));
    }

    #[test]
    fn files_are_known_by_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a"), "x").unwrap();
        std::fs::write(path("b"), "x").unwrap();
        std::fs::hard_link(path("a"), path("hard")).unwrap();
        std::os::unix::fs::symlink(path("a"), path("soft")).unwrap();
        std::fs::create_dir(path("f")).unwrap();
        for name in ["a", "hard", "soft", "f/../a", "./a"] {
            assert!(same_file(&path("a"), &path(name)), "{name}");
        }
        assert!(!same_file(&path("a"), &path("b")));
        std::os::unix::fs::symlink(path("f"), path("g")).unwrap();
        assert!(same_file(&path("f/new/x"), &path("g/new/x")), "paths that do not exist yet");
        assert!(!same_file(&path("f/new"), &path("g/other")));
    }
}
