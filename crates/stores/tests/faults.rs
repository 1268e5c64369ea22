//! Damaged files, full disks and wrong paths give an error that says what to do, and never a panic.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use crate::common::{Ask, Scheme, layout, options, snapshot};
use storebench_engine::store::{BatchBuf, BulkWrite, Durability, ErrorKind, Op, Prepare, SessionOptions, StoreError};

/// Loads some documents and closes the store.
fn load(scheme: Scheme, path: &Path, count: usize) {
    let store = storebench_stores::open(&scheme.url(path)).unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut ask = Ask::new(&*store);
    let body = format!(r#"{{"user":"a","text":"{}"}}"#, "x".repeat(500));
    for i in 0..count {
        ask.upsert(&format!("users/{i:06}"), body.as_bytes());
    }
    drop(ask);
    store.close().unwrap();
}

/// The non-empty files of a store, except the marker of a folder.
fn files(scheme: Scheme, path: &Path) -> Vec<std::path::PathBuf> {
    if scheme != Scheme::Fjall {
        return vec![path.to_owned()];
    }
    let all = snapshot(path).into_iter().filter(|(_, _, size, _)| *size > 0).map(|(name, ..)| name.into());
    all.filter(|file: &std::path::PathBuf| !file.ends_with("storebench.marker")).collect()
}

/// Uses a damaged store as a run does. The engine may or may not notice the damage, but the driver must neither panic
/// nor hang.
fn use_it(scheme: Scheme, path: &Path) -> Result<(), StoreError> {
    let store = storebench_stores::open(&scheme.url(path)).unwrap();
    store.inspect()?;
    store.prepare(&layout("users"), Prepare::Keep)?;
    store.stats()?;
    store.close()
}

#[test]
fn damaged_files_give_errors() {
    for scheme in Scheme::ALL {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("whole");
        load(scheme, &whole, 300);
        let mut noticed = 0;
        for number in 0..files(scheme, &whole).len() {
            for damage in ["empty", "half", "garbage", "garbage after the header", "not text"] {
                let path = folder.path().join("damaged");
                let copied = Command::new("cp").arg("-r").arg(&whole).arg(&path).status().unwrap();
                assert!(copied.success());
                let file = files(scheme, &path)[number].clone();
                let damaged = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
                let length = damaged.metadata().unwrap().len();
                // The rest of a larger file is preallocated space for a log.
                let garbage: Vec<u8> = (0..length.min(4 << 20)).map(|i| ((i * 7919) >> 3) as u8).collect();
                match damage {
                    "empty" => damaged.set_len(0).unwrap(),
                    "half" => damaged.set_len(length / 2 + 1).unwrap(),
                    "garbage" => damaged.write_all_at(&garbage, 0).unwrap(),
                    "garbage after the header" => {
                        damaged.write_all_at(garbage.get(128..).unwrap_or_default(), 128).unwrap()
                    }
                    _ => damaged.write_all_at(&vec![0xFF; garbage.len()], 0).unwrap(),
                }
                drop(damaged);
                if let Err(error) = use_it(scheme, &path) {
                    noticed += 1;
                    let text = error.to_string();
                    assert!(text.contains(path.to_str().unwrap()), "{scheme:?}: {text} does not name the path");
                }
                let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
                for beside in ["damaged-wal", "damaged-shm", "damaged-journal"] {
                    let _ = std::fs::remove_file(folder.path().join(beside));
                }
            }
        }
        assert!(noticed >= 2, "{scheme:?} noticed only {noticed} damaged files");
    }
}

#[test]
fn wrong_paths_say_what_to_do() {
    for scheme in Scheme::ALL {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("no/such/folder");
        let text = storebench_stores::open(&scheme.url(&nowhere)).unwrap().inspect().unwrap_err().to_string();
        assert!(text.contains("does not exist") && text.contains("mkdir -p"), "{text}");
        let wrong = folder.path().join("wrong");
        if scheme == Scheme::Fjall {
            std::fs::write(&wrong, "a file").unwrap();
        } else {
            std::fs::create_dir(&wrong).unwrap();
        }
        let error = storebench_stores::open(&scheme.url(&wrong)).unwrap().inspect().unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)) && error.to_string().contains("wrong"), "{error}");
        let beneath = wrong.join("x");
        if scheme == Scheme::Fjall {
            let error = storebench_stores::open(&scheme.url(&beneath)).unwrap().inspect().unwrap_err();
            assert!(error.to_string().contains("is a file"), "{error}");
        }
    }
}

/// A file system of a few MiB, unmounted when dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=6m", "none"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_fails_operations_with_clear_words_and_loses_nothing_acknowledged() {
    for scheme in Scheme::ALL {
        for durability in [Durability::OS, Durability::FSYNC] {
            let Some(small) = Small::mount() else {
                println!("skipped: mounting a tmpfs is not permitted here");
                return;
            };
            let path = small.0.path().join("store");
            let store = storebench_stores::open(&scheme.url(&path)).unwrap();
            if let Err(error) = store.prepare(&layout("users"), Prepare::Fresh) {
                // fjall's journal alone may need more.
                assert!(error.to_string().contains("disk is full"), "{scheme:?}: {error}");
                continue;
            }
            let mut ask = Ask::with(&*store, &SessionOptions { durability, ..options() });
            let body = format!(r#"{{"user":"a","text":"{}"}}"#, "x".repeat(2_000));
            let mut batch = BatchBuf::new();
            let (mut acknowledged, mut failure) = (0, None);
            for round in 0..400 {
                batch.clear();
                for i in 0..20 {
                    batch.push(&format!("u{round:05}/{i:02}"), body.as_bytes());
                }
                let op = Op::BulkWrite { kind: BulkWrite::Upsert, items: batch.as_batch() };
                match ask.run(op, |reply| reply.documents) {
                    Ok(written) => {
                        assert_eq!(written, 20);
                        acknowledged += 1;
                    }
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
            }
            let failure = failure.expect("16 MB do not fit into 6 MiB");
            assert!(matches!(failure.kind, ErrorKind::Failed | ErrorKind::OutcomeUnknown), "{scheme:?}: {failure}");
            assert!(failure.message.contains("disk is full"), "{scheme:?}: {failure}");
            println!("{scheme:?} {durability}: {acknowledged} batches, then {failure}");
            // A second attempt also fails without a panic.
            let _ = ask.try_upsert("more", body.as_bytes());
            drop(ask);
            let _ = store.close();
            let store = storebench_stores::open(&scheme.url(&path)).unwrap();
            match store.prepare(&layout("users"), Prepare::ReadOnly) {
                Ok(()) => {
                    let mut ask = Ask::new(&*store);
                    for round in 0..acknowledged {
                        let key = format!("u{round:05}/19");
                        assert_eq!(ask.read(&key).as_deref(), Some(body.as_bytes()), "{scheme:?} lost {key}");
                    }
                }
                Err(error) => println!("{scheme:?} {durability}: not readable until there is space: {error}"),
            }
        }
    }
}
