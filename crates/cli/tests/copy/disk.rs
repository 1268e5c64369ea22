//! Full disks: small file systems in memory, which grow later.

use std::path::PathBuf;
use std::process::Command;

use crate::common::copies::{by_key, count, documents, report};
use crate::common::{Cli, Done};

/// A file system in memory, which is unmounted on drop.
struct Disk(PathBuf);

impl Disk {
    /// Mounts it at this place. Returns `None` if this user may not mount; the test then counts as skipped.
    fn mount(place: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir(&place).unwrap();
        let options = format!("size={size}");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&place).output().unwrap();
        if !done.status.success() {
            println!("skipped: cannot mount a file system here: {}", String::from_utf8_lossy(&done.stderr).trim());
            return None;
        }
        Some(Self(place))
    }

    fn grow(&self, size: &str) {
        let options = format!("remount,size={size}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }

    /// The names of the files in it, without hidden ones.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, so that an open file does not block it.
        let done = Command::new("umount").arg("-l").arg(&self.0).status();
        if !std::thread::panicking() {
            assert!(done.unwrap().success());
        }
    }
}

/// Grows the disk of an unfinished copy, and resumes the copy.
fn gone_on_with(cli: &Cli, disk: &Disk, args: &[&str]) {
    disk.grow("96m");
    let done = cli.run_args(&[args, &["--resume", "--json"]].concat()).code(0);
    let report = report(&done);
    assert_eq!((count(&report, "written"), count(&report, "rejected")), (20_000, 0), "{report}");
    assert_eq!(report["verified"]["equal"], true, "{report}");
}

/// Copies onto a disk that is too small, which fails with this code, and resumes. Returns the result of the first try.
fn filled_and_gone_on_with(cli: &Cli, disk: &Disk, args: &[&str], code: i32) -> Done {
    let full = cli.run_args(args).code(code);
    gone_on_with(cli, disk, args);
    full
}

#[test]
fn a_file_for_which_the_disk_is_too_small_is_not_there_by_half() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(20_000));
    // 12 MB: the first disk does not even hold the parts. The second holds the parts, but not the file made from them.
    for (name, size) in [("small", "4m"), ("middle", "16m")] {
        let Some(disk) = Disk::mount(cli.path(name), size) else { return };
        let target = format!("{name}/out.jsonl");
        std::fs::write(cli.path(&target), "of last night\n").unwrap();
        let args = ["copy", "books.jsonl", &target, "--verify", "-p", "2", "--force", "--anyway"];
        let full = cli.run_args(&args).code(1);
        let kept = std::fs::read_to_string(cli.path(&target)).unwrap();
        assert_eq!((kept.as_str(), disk.names()), ("of last night\n", vec!["out.jsonl".to_owned()]), "{full:?}");
        // It fails again, still with nothing lost, until there is space.
        cli.run_args(&[&args[..], &["--resume"]].concat()).code(1);
        gone_on_with(&cli, &disk, &args);
        assert!(full.err.contains(&target) && full.err.contains("No space left"), "{full:?}");
        assert_eq!(by_key(&cli.path(&target)), by_key(&cli.path("books.jsonl")));
    }
}

#[test]
fn parquet_for_which_the_disk_is_too_small_is_gone_on_with() {
    let cli = Cli::new();
    // Texts that do not compress well.
    let lines: String = (0..20_000_u64)
        .map(|n| {
            let noise: String =
                (0..20).map(|i| format!("{:016x}", (n * 31 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
            format!("{{\"_id\":\"k{n:06}\",\"noise\":\"{noise}\"}}\n")
        })
        .collect();
    cli.write("books.jsonl", &lines);
    let Some(disk) = Disk::mount(cli.path("small"), "2m") else { return };
    let full = filled_and_gone_on_with(
        &cli,
        &disk,
        &["copy", "books.jsonl", "small/out.parquet", "--verify", "-p", "2", "--anyway"],
        1,
    );
    assert!(full.err.contains("small/out.parquet") && full.err.contains("No space left"), "{full:?}");
}

#[test]
fn a_store_whose_disk_is_full_ends_the_copy_and_is_gone_on_with() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(20_000));
    for (scheme, name) in [("sqlite", "books.db"), ("redb", "books.redb"), ("fjall", "books")] {
        let Some(disk) = Disk::mount(cli.path(scheme), "6m") else { return };
        let url = format!("{scheme}:{scheme}/{name}");
        let args = ["copy", "books.jsonl", &url, "--verify", "-p", "2", "--anyway"];
        let refused = cli.run_args(&args[..args.len() - 1]).code(2);
        let told = refused.err.contains("not enough disk space") && refused.err.contains("free at");
        assert!(told && disk.names().is_empty(), "{refused:?}");
        let full = filled_and_gone_on_with(&cli, &disk, &args, 1);
        println!("{scheme}: {}", full.err.trim());
        assert!(full.err.contains(&format!("{scheme}/{name}")) && full.err.contains("--resume"), "{full:?}");
        let done = cli.run_args(&["copy", &url, "all.jsonl", "--force", "--from-collection", "books"]).code(0);
        assert_eq!(by_key(&cli.path("all.jsonl")), by_key(&cli.path("books.jsonl")), "{done:?}");
    }
}

#[test]
fn a_full_disk_below_the_copy_s_own_folder_is_named() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(20_000));
    let Some(disk) = Disk::mount(cli.path("runs"), "64k") else { return };
    // --verify keeps its checksums there.
    let args = ["copy", "books.jsonl", "sqlite:b.db", "--verify", "-p", "2", "--anyway", "--out", "runs"];
    let full = filled_and_gone_on_with(&cli, &disk, &args, 1);
    assert!(full.err.contains("runs/") && full.err.contains("No space left"), "{full:?}");
}

#[test]
fn a_database_server_whose_disk_is_full_ends_the_copy_and_is_gone_on_with() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(20_000));
    let server = crate::server::Server::start("postgres");
    let make = |place: &std::path::Path| {
        // The server runs as `nobody` if the tests run as root.
        std::os::unix::fs::chown(place, Some(65_534), Some(65_534)).unwrap();
        let mut psql = server.psql();
        psql.args(["-c", &format!("CREATE TABLESPACE small LOCATION '{}'", place.display())]);
        psql.args(["-c", "ALTER DATABASE storebench SET default_tablespace = small"]);
        let done = psql.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let Some(disk) = Disk::mount(server.folder.path().join("small"), "6m") else { return };
    make(&disk.0);
    // The copy tries again, because somebody may free space meanwhile.
    let args = ["copy", "books.jsonl", &server.url, "--verify", "-p", "2", "--tries", "3"];
    let full = filled_and_gone_on_with(&cli, &disk, &args, 3);
    assert!(full.err.contains("the server's disk is full") && full.err.contains("--resume"), "{full:?}");
    let done = cli.run_args(&["copy", &server.url, "all.jsonl", "--from-collection", "books"]).code(0);
    assert_eq!(by_key(&cli.path("all.jsonl")), by_key(&cli.path("books.jsonl")), "{done:?}");
    drop(server);
}
