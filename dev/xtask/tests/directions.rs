//! Which crate may use which: `cli → {report → results, lab → results, transfer, stores} → engine → documents → study`, and nothing the other way.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Our crates and those of ours that each may use. A crate that is not here is refused until somebody
/// has thought about its place.
const MAY_USE: &[(&str, &[&str])] = &[
    ("storebench-study", &["storebench-schema"]),
    ("storebench-documents", &["storebench-study"]),
    ("storebench-engine", &["storebench-documents", "storebench-study"]),
    ("storebench-conformance", &["storebench-engine", "storebench-study"]),
    // Judges operations on keys, whatever recorded them.
    ("storebench-consistency", &[]),
    // Logs of stores, as traces.
    ("storebench-traffic", &[]),
    // Its tests run against the fakes, and cut the network between nodes.
    (
        "storebench-stores",
        &[
            "storebench-conformance",
            "storebench-engine",
            "storebench-documents",
            "storebench-fakes",
            "storebench-machine",
            "storebench-study",
        ],
    ),
    // Servers for tests, which know nothing of us.
    ("storebench-fakes", &[]),
    // What checks documents in tests.
    ("storebench-schema", &[]),
    // Processes and resources of a machine, which know nothing of stores.
    ("storebench-machine", &[]),
    // What a result says: neither a store nor a machine is needed to read one.
    (
        "storebench-results",
        &[
            "storebench-consistency",
            "storebench-documents",
            "storebench-engine",
            "storebench-study",
            "storebench-schema",
        ],
    ),
    (
        "storebench-lab",
        &[
            "storebench-consistency",
            "storebench-documents",
            "storebench-engine",
            "storebench-study",
            "storebench-machine",
            "storebench-results",
            "storebench-schema",
        ],
    ),
    ("storebench-report", &["storebench-consistency", "storebench-engine", "storebench-study", "storebench-results"]),
    // Its tests copy between real stores and fakes.
    (
        "storebench-transfer",
        &["storebench-documents", "storebench-engine", "storebench-study", "storebench-fakes", "storebench-stores"],
    ),
    // Its tests run against the fakes too.
    (
        "storebench",
        &[
            "storebench-conformance",
            "storebench-consistency",
            "storebench-documents",
            "storebench-engine",
            "storebench-study",
            "storebench-fakes",
            "storebench-lab",
            "storebench-machine",
            "storebench-report",
            "storebench-results",
            "storebench-schema",
            "storebench-stores",
            "storebench-traffic",
            "storebench-transfer",
        ],
    ),
    // The program with one more place for files; its test knows the program's own.
    (
        "storebench-hdfs",
        &["storebench", "storebench-conformance", "storebench-engine", "storebench-study", "storebench-transfer"],
    ),
    // The Python package, around the program.
    (
        "storebench-python",
        &[
            "storebench",
            "storebench-documents",
            "storebench-engine",
            "storebench-lab",
            "storebench-results",
            "storebench-stores",
            "storebench-study",
            "storebench-transfer",
        ],
    ),
    // What writes the documentation from definitions.
    ("xtask", &["storebench", "storebench-engine", "storebench-study", "storebench-results", "storebench-transfer"]),
    // Nothing depends on it: it may look at everything.
    (
        "storebench-bench",
        &[
            "storebench",
            "storebench-conformance",
            "storebench-consistency",
            "storebench-documents",
            "storebench-engine",
            "storebench-study",
            "storebench-fakes",
            "storebench-lab",
            "storebench-results",
            "storebench-stores",
            "storebench-transfer",
        ],
    ),
];

/// Crates of others, and the only crates of ours that may use them.
const KEPT_WITHIN: &[(&str, &[&str])] = &[
    // What may be typed is the business of the binary.
    ("clap", &["storebench", "xtask"]),
    ("clap_complete", &["xtask"]),
    ("clap_mangen", &["xtask"]),
    (
        "schemars",
        &[
            "storebench-consistency",
            "storebench-documents",
            "storebench-engine",
            "storebench-study",
            "storebench-results",
            "storebench-transfer",
        ],
    ),
    ("indicatif", &["storebench"]),
    // Tables are a matter of files that are moved.
    ("arrow-array", &["storebench-python", "storebench-transfer"]),
    ("arrow-buffer", &["storebench-python"]),
    ("arrow-ipc", &["storebench-transfer"]),
    ("arrow-json", &["storebench-python", "storebench-transfer"]),
    ("arrow-schema", &["storebench-python", "storebench-transfer"]),
    ("parquet", &["storebench-transfer"]),
    // Places and expressions of copies.
    ("object_store", &["storebench-hdfs", "storebench-transfer"]),
    ("hdfs-native-object-store", &["storebench-hdfs"]),
    ("jaq-core", &["storebench-transfer"]),
    // Drivers; the bench crate compares them with loops written by hand.
    ("fjall", &["storebench-stores", "storebench-bench"]),
    ("redb", &["storebench-stores", "storebench-bench"]),
    ("rusqlite", &["storebench-stores", "storebench-bench"]),
];

type Manifest = toml_edit::DocumentMut;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The workspace's manifests by package name, and those of what it leaves out.
fn manifests() -> BTreeMap<String, Manifest> {
    let workspace: Manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let listed = |list: &str| workspace["workspace"][list].as_array().unwrap().iter();
    listed("members")
        .chain(listed("exclude"))
        .map(|member| {
            let path = root().join(member.as_str().unwrap()).join("Cargo.toml");
            let manifest: Manifest = std::fs::read_to_string(path).unwrap().parse().unwrap();
            (manifest["package"]["name"].as_str().unwrap().to_owned(), manifest)
        })
        .collect()
}

/// What is built into a crate, and what its tests need besides.
const BUILT_IN: &[&str] = &["dependencies", "build-dependencies"];
const FOR_TESTS: &[&str] = &["dev-dependencies"];

/// Crates that a manifest names in these tables, under their real names.
fn dependencies(manifest: &Manifest, kinds: &[&str]) -> BTreeSet<String> {
    let platforms = manifest.get("target").and_then(|t| t.as_table()).into_iter().flatten();
    let tables = platforms.filter_map(|(_, t)| t.as_table()).chain([manifest.as_table()]);
    let mut found = BTreeSet::new();
    for table in tables {
        for (name, value) in kinds.iter().filter_map(|k| table.get(k)?.as_table()).flatten() {
            let real = value.get("package").and_then(|p| p.as_str()).unwrap_or(name);
            found.insert(real.to_owned());
        }
    }
    found
}

/// What is wrong with a crate's dependencies. Among ours tests count too: what a test of `study` needs
/// from `lab`, `study` needs. Crates of others are free in tests: one may look into a store's file.
fn faults(name: &str, manifest: &Manifest, ours: &BTreeSet<String>) -> Vec<String> {
    let Some((_, allowed)) = MAY_USE.iter().find(|(n, _)| *n == name) else {
        return vec![format!("{name} has no place among the directions; give it one in MAY_USE")];
    };
    let built_in = dependencies(manifest, BUILT_IN);
    let all: BTreeSet<String> = dependencies(manifest, FOR_TESTS).union(&built_in).cloned().collect();
    let forbidden = all.iter().filter(|u| ours.contains(*u) && !allowed.contains(&u.as_str()));
    let astray = KEPT_WITHIN.iter().filter(|(u, within)| built_in.contains(*u) && !within.contains(&name));
    forbidden
        .map(|u| format!("{name} uses {u}; it may use of ours only {allowed:?}"))
        .chain(astray.map(|(u, within)| format!("{name} uses {u}, which is kept within {within:?}")))
        .collect()
}

#[test]
fn crates_depend_in_one_direction() {
    let manifests = manifests();
    let ours: BTreeSet<String> = manifests.keys().cloned().collect();
    let wrong: Vec<String> = manifests.iter().flat_map(|(name, manifest)| faults(name, manifest, &ours)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_direction_is_found() {
    let ours: BTreeSet<String> = MAY_USE.iter().map(|(name, _)| (*name).to_owned()).collect();
    let found = |name: &str, manifest: &str| faults(name, &manifest.parse().unwrap(), &ours);
    for (name, manifest) in [
        ("storebench-engine", "[dependencies]\nstorebench-lab = { path = \"../lab\" }"),
        ("storebench-study", "[dev-dependencies]\nlab = { package = \"storebench-lab\", path = \"../lab\" }"),
        ("storebench-engine", "[dependencies]\nparquet.workspace = true"),
        ("storebench-report", "[dependencies]\nstorebench-lab.workspace = true"),
        ("storebench-results", "[dev-dependencies]\nstorebench-machine = \"0.1\""),
        ("storebench-lab", "[target.'cfg(unix)'.dependencies]\nstorebench-stores.workspace = true"),
        ("storebench-lab", "[build-dependencies]\nclap = \"4\""),
        ("storebench-stores", "[dependencies]\nstorebench = \"0.1\""),
        ("storebench", "[dependencies]\nrusqlite = \"0.41\""),
        ("storebench-new", ""),
    ] {
        assert_eq!(found(name, manifest).len(), 1, "{name}: {manifest}");
    }
    assert!(found("storebench-transfer", "[dependencies]\nparquet = \"60\"\nstorebench-engine = \"0.1\"").is_empty());
    assert!(found("storebench", "[dev-dependencies]\nrusqlite = \"0.41\"").is_empty());
}

/// A driver's types stay in its folder; everybody else holds an
/// `AnyStore`. Tests may look into a store's file.
#[test]
fn only_the_driver_crate_names_driver_types() {
    let mut wrong = Vec::new();
    for (member, file, text) in sources() {
        let in_tests = file.components().any(|part| part.as_os_str() == "tests");
        if member == "crates/stores" || member == "dev/bench" || in_tests {
            continue;
        }
        for word in ["rusqlite::", "fjall::", "redb::"] {
            if text.contains(word) {
                wrong.push(format!("{}: names {word}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_source_file_is_longer_than_600_lines_and_no_test_than_800() {
    let own = |file: &Path| file.strip_prefix(root()).unwrap_or(file).to_owned();
    let most = |file: &Path| if own(file).components().any(|part| part.as_os_str() == "src") { 600 } else { 800 };
    let long: Vec<String> = sources()
        .into_iter()
        .filter(|(_, file, text)| text.lines().count() > most(file))
        .map(|(_, file, text)| format!("{}: {} lines; a file does one thing", file.display(), text.lines().count()))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// Every folder that holds a crate of ours, also of other workspaces: `crates/cli`.
fn members() -> Vec<String> {
    let mut found = Vec::new();
    for above in ["crates", "dev"] {
        for entry in std::fs::read_dir(root().join(above)).unwrap() {
            let entry = entry.unwrap();
            if entry.path().join("Cargo.toml").exists() {
                found.push(format!("{above}/{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    assert!(found.len() > 15, "crates were found where they are not: {found:?}");
    found
}

/// Every Rust file of ours, but for this one: member, path, text.
fn sources() -> Vec<(String, PathBuf, String)> {
    let mut found = Vec::new();
    for member in members() {
        let mut folders = vec![root().join(&member)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let this = path.ends_with("tests/directions.rs");
                if path.is_dir() && path.file_name().is_some_and(|n| n != "target") {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") && !this {
                    let text = std::fs::read_to_string(&path).unwrap();
                    found.push((member.clone(), path, text));
                }
            }
        }
    }
    assert!(found.len() > 50, "sources were found where they are not");
    found
}
