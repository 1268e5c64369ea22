//! Bad input: the message has the place and the remedy, the exit code is right, and nothing is touched.

use crate::common::{Cli, STUDY, without_folder};
use crate::server::Server;

/// Runs the binary, and returns its message and exit code as one text for a snapshot.
fn refusal(cli: &Cli, args: &[&str]) -> String {
    let done = cli.run_args(args);
    assert!(done.out.is_empty(), "nothing on stdout: {}", done.out);
    assert!(!cli.path("storebench-runs").exists(), "no run was started");
    format!("{}\nexit {}", without_folder(&done.err, cli.folder.path()).trim_end(), done.code)
}

#[test]
fn studies() {
    let cli = Cli::with_study();
    cli.write("malformed.toml", "title = \"x\"\n[collections\n");
    cli.write("unknown.toml", &STUDY.replace("count = 3000", "cuont = 3000"));
    cli.write("contradictory.toml", &STUDY.replace("operations = 2000", "operations = 10\nduration = \"3s\""));
    cli.write("dangling.toml", &STUDY.replace("load = [\"books\"", "load = [\"boks\""));
    cli.write("several.toml", &STUDY.replace("count = 200", "count = 0").replace("batch = 500", "batch = 0"));
    cli.write("storeless.toml", &STUDY.replace("stores = [\"sqlite:books.db\"]\n", ""));
    cli.write("tight.toml", &STUDY.replace("\"300B\"", "\"20B\""));
    insta::assert_snapshot!("missing", refusal(&cli, &["run", "nowhere.toml"]));
    for name in ["malformed", "unknown", "contradictory", "dangling", "several", "storeless", "tight"] {
        insta::assert_snapshot!(name, refusal(&cli, &["run", &format!("{name}.toml")]));
    }
    insta::assert_snapshot!("bad-set", refusal(&cli, &["run", "books.toml", "--set", "phases.mixd.operations=5"]));
    insta::assert_snapshot!("bad-scale", refusal(&cli, &["run", "books.toml", "--scale", "0"]));
    insta::assert_snapshot!(
        "two-of-a-name",
        refusal(&cli, &["run", "books.toml", "--store", "a=memory:", "--store", "a=null:"])
    );
}

/// However long a driver waits for a slow server.
#[test]
fn a_server_that_never_answers_is_given_up_at_the_timeout() {
    let cli = Cli::with_study();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("couchdb://{}", listener.local_addr().unwrap());
    cli.write("s.jsonl", "{\"_id\":\"a\"}\n");
    for args in [
        &["bench", &url, "--timeout", "300ms"][..],
        &["copy", &url, "o.jsonl", "--timeout", "300ms"],
        &["copy", "s.jsonl", &url, "--to-collection", "c", "--timeout", "300ms"],
        &[
            "run",
            "books.toml",
            "--store",
            &url,
            "--set",
            "phases.load.timeout=300ms",
            "--set",
            "phases.mixed.timeout=300ms",
        ],
    ] {
        let told = refusal(&cli, args);
        assert!(told.contains("did not answer within 300ms") && told.contains("exit 3"), "{args:?}: {told}");
    }
}

/// If a file is not a study, the error says so and says what to give.
#[test]
fn what_is_no_study_file() {
    let cli = Cli::with_study();
    std::fs::create_dir(cli.path("folder")).unwrap();
    std::fs::write(cli.path("photo.png"), [0x89, b'P', b'N', b'G', 0, 1]).unwrap();
    cli.write("empty.toml", "");
    let give = "; give the path of a study file (TOML)\nexit 2";
    for verb in ["run", "plan"] {
        assert_eq!(refusal(&cli, &[verb, "folder"]), format!("error: folder: this is a folder{give}"));
        let photo = refusal(&cli, &[verb, "photo.png"]);
        assert_eq!(photo, format!("error: photo.png: this is not a text file (byte 0 is not UTF-8){give}"));
        let empty = refusal(&cli, &[verb, "empty.toml"]);
        assert!(empty.starts_with("error: empty.toml: the file is empty; a study has a title"), "{empty}");
    }
    let prices = refusal(&cli, &["run", "books.toml", "--prices", "folder"]);
    assert_eq!(prices, "error: folder: this is a folder; give the path of a price sheet (TOML)\nexit 2");
}

/// An error names the `--set` or `--preset` that caused it, even if it is found later.
#[test]
fn overrides_are_blamed_for_what_they_set() {
    let cli = Cli::with_study();
    let preset = "[presets.tiny]\nabout = \"tiny\"\nset = { \"phases.mixed.operations\" = 0 }\n";
    cli.write("preset.toml", &format!("{STUDY}{preset}"));
    for (args, told) in [
        (
            &["run", "books.toml", "--set", "phases.mixed.workers=0"][..],
            "--set phases.mixed.workers=0: 0 is out of range",
        ),
        (&["run", "books.toml", "--set", "collections.books.key={nope}"], "--set collections.books.key={nope}: "),
        (&["plan", "books.toml", "--set", "collections.books.size=20B"], "--set collections.books.size=20B: "),
        (&["run", "preset.toml", "--preset", "tiny"], "--preset tiny phases.mixed.operations=0: 0 operations"),
    ] {
        let message = refusal(&cli, args);
        assert!(message.starts_with(&format!("error: {told}")), "{message}");
        assert!(!message.contains("books.toml:"), "no line of the file is shown: {message}");
    }
}

/// A folder that cannot be written is reported before anything is measured.
#[test]
fn a_folder_for_runs_that_cannot_be_written() {
    let cli = Cli::with_study();
    cli.write("file", "");
    for (verb, out) in [
        ("run books.toml -q", "file"),
        ("bench memory: -q --operations 5", "file/runs"),
        ("run books.toml -q", "/proc/runs"),
    ] {
        let done = cli.run(&format!("{verb} --out {out}")).code(2);
        assert!(done.err.contains("cannot create a run folder here"), "{}", done.err);
        assert!(done.err.contains("give another folder with --out"), "{}", done.err);
        assert!(!cli.path("books.db").exists(), "no store was touched");
    }
}

#[test]
fn stores() {
    let cli = Cli::with_study();
    insta::assert_snapshot!("unknown-scheme", refusal(&cli, &["bench", "sqlit:x.db"]));
    insta::assert_snapshot!("no-scheme", refusal(&cli, &["bench", "x.db"]));
    insta::assert_snapshot!("unknown-option", refusal(&cli, &["bench", "slow+memory:?latensy=1ms"]));
    insta::assert_snapshot!("refused-operation", refusal(&cli, &["bench", "sqlite:x.db", "--mix", "touch=1"]));
    insta::assert_snapshot!("refused-guarantee", refusal(&cli, &["bench", "memory:", "--durability", "fsync"]));
    insta::assert_snapshot!("unreachable", refusal(&cli, &["bench", "sqlite:nowhere/x.db"]));
    insta::assert_snapshot!("plan-refuses", refusal(&cli, &["plan", "books.toml", "--store", "mongo:x"]));
}

#[test]
fn flags() {
    let cli = Cli::new();
    for (name, flags) in [
        ("flag-unknown", "bench memory: --dosc 5"),
        ("flag-mix", "bench memory: --mix raed=1"),
        ("flag-rate", "bench memory: --rate fast"),
        ("flag-size", "bench memory: --size 2bananas"),
        ("flag-ledger", "bench memory: --ledger --streams independent"),
        ("flag-both", "bench memory: --duration 3s --operations 5"),
        ("flag-think", "bench memory: --rate 5 --think 5ms"),
        ("flag-none", "bench"),
    ] {
        insta::assert_snapshot!(name, refusal(&cli, &flags.split_whitespace().collect::<Vec<_>>()));
    }
}

#[test]
fn broken_lines_of_ones_own_are_named_or_skipped() {
    let cli = Cli::new();
    cli.write("own.jsonl", "{\"a\":1}\n{\"a\":2}\nnonsense\n{\"a\":4}\n");
    let flags = ["bench", "memory:", "--from", "own.jsonl", "--key", "{a}", "--operations", "50", "--json"];
    insta::assert_snapshot!("broken-line", refusal(&cli, &flags));
    let result = cli.run_args(&[&flags[..], &["--skip-bad-lines"]].concat()).measured().json();
    assert_eq!((&result["documents"][0]["count"], &result["documents"][0]["skipped_lines"]), (&3.into(), &1.into()));
}

/// Follows the advice that the refusal prints.
#[test]
fn documents_with_a_member_that_the_store_reserves_are_refused_before_anything_is_sent() {
    let own = "{\"_id\":{\"$oid\":\"5f1d7f3a2c4b1e0001a1b2c3\"},\"id\":\"a\",\"@metadata\":{},\"n\":1}\n\
               {\"_id\":7,\"id\":\"b\",\"@metadata\":null,\"n\":2}\n";
    for (name, path, field) in [
        ("nx-27017", "/shop", "_id"),
        ("ferretdb", "/shop", "_id"),
        ("pouchdb-server", "", "_id"),
        ("ravendb", "", "@metadata"),
    ] {
        let (server, cli) = (Server::start(name), Cli::new());
        let url = format!("{}{path}", server.url);
        cli.write("own.jsonl", own);
        let flags =
            ["bench", &url, "--from", "own.jsonl", "--key", "{id}", "--operations", "50", "--check", "1", "--json"];
        let why = refusal(&cli, &flags);
        assert!(why.contains(&format!("the top-level field `{field}`, which this store reserves")), "{why}");
        assert!(why.contains(&format!("give `--without {field}`")) && why.ends_with("exit 2"), "{why}");
        let done = cli.run_args(&[&flags[..], &["--without", "_id,@metadata", "--remove-after"]].concat()).measured();
        let read = &done.json()["trials"][0]["phases"][1]["ops"]["read"];
        assert!(read["checked"].as_u64() > Some(0) && read["wrong"] == 0, "{name}: {read}");
        // In a study, in its own words.
        std::fs::remove_dir_all(cli.path("storebench-runs")).unwrap();
        let study = "title = \"Own\"\n[collections.own]\nfrom = \"own.jsonl\"\nkey = \"{id}\"\nWITHOUT\n[[phases]]\nname = \"load\"\nload = [\"own\"]\n[[phases]]\nname = \"read\"\nmix = { read = 1 }\noperations = 20\n";
        cli.write("own.toml", &study.replace("WITHOUT", ""));
        let why = refusal(&cli, &["plan", "own.toml", "--store", &url]);
        let advice = format!("without = [\"{field}\"]");
        assert!(why.contains(&format!("write `{advice}`")), "{why}");
        cli.write("own.toml", &study.replace("WITHOUT", &advice));
        cli.run_args(&["plan", "own.toml", "--store", &url]).code(0);
    }
}

#[test]
fn couchdb_takes_documents_with_their_key_as_their_id() {
    let (server, cli) = (Server::start("pouchdb-server"), Cli::new());
    cli.write("own.jsonl", "{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\",\"n\":2}\n");
    cli.run_args(&["bench", &server.url, "--from", "own.jsonl", "--key", "{_id}", "--operations", "20"]).measured();
}

#[test]
fn a_place_that_cannot_be_written_is_named_before_anything_is_loaded() {
    let cli = Cli::with_study();
    cli.write("file", "");
    let done = cli.run("run books.toml --out file/runs").code(2);
    assert!(done.err.contains("file/runs") && done.err.contains("another folder"), "{}", done.err);
    assert!(!cli.path("books.db").exists(), "nothing was started");
    let done = cli.run("generate books.toml --output nowhere/x.jsonl").code(2);
    assert!(done.err.contains("nowhere/x.jsonl"), "{}", done.err);
    let done = cli.run("bench memory: --save-study nowhere/x.toml").code(2);
    assert!(done.err.contains("nowhere/x.toml"), "{}", done.err);
}

#[test]
fn somebody_elses_database_stays_as_it_was() {
    let cli = Cli::with_study();
    let connection = rusqlite::Connection::open(cli.path("their.db")).unwrap();
    connection.execute_batch("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1), (2);").unwrap();
    connection.close().unwrap();
    let before = std::fs::read(cli.path("their.db")).unwrap();
    insta::assert_snapshot!("not-ours", refusal(&cli, &["bench", "sqlite:their.db", "--docs", "10"]));
    insta::assert_snapshot!("not-ours-run", refusal(&cli, &["run", "books.toml", "--store", "sqlite:their.db"]));
    assert_eq!(std::fs::read(cli.path("their.db")).unwrap(), before);

    cli.run("run books.toml --store sqlite:their.db --into-existing --remove-after -q").measured();
    let connection = rusqlite::Connection::open(cli.path("their.db")).unwrap();
    let theirs: i64 = connection.query_row("SELECT sum(a) FROM theirs", [], |row| row.get(0)).unwrap();
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'table'", [], |row| row.get(0)).unwrap();
    assert_eq!((theirs, tables), (3, 1), "their table is kept, ours is removed");
}

/// A store that cannot be prepared leaves nothing behind, and is told once.
#[test]
fn a_run_that_never_began_leaves_nothing() {
    let cli = Cli::new();
    let told = refusal(&cli, &["bench", "sqlite:/proc/nowhere.db"]);
    assert!(told.contains("/proc/nowhere.db") && told.ends_with("\nexit 3"), "{told}");
    assert_eq!(told.lines().count(), 2, "{told}");
    assert_eq!(std::fs::read_dir(cli.folder.path()).unwrap().count(), 0);
}

#[test]
fn what_is_read_must_exist() {
    let cli = Cli::with_study();
    for args in [
        &["copy", "sqlite:nosuch.db", "out.jsonl"][..],
        &["copy", "fjall:nosuch", "out.jsonl", "--from-collection", "books"],
        &["verify", "sqlite:nosuch.db", "books.toml"],
    ] {
        let told = refusal(&cli, args);
        assert!(told.contains("there is no such file or folder: nosuch") && told.ends_with("exit 2"), "{told}");
    }
    assert_eq!(std::fs::read_dir(cli.folder.path()).unwrap().count(), 1, "nothing was made");
    // A database that is named as a file.
    rusqlite::Connection::open(cli.path("own.db")).unwrap().execute_batch("CREATE TABLE own (a);").unwrap();
    let told = refusal(&cli, &["copy", "own.db", "out.jsonl"]);
    assert!(told.contains("own.db is an SQLite database") && told.contains("its URL: sqlite:own.db"), "{told}");
}

#[test]
fn too_few_open_files_are_refused_by_name_and_a_low_limit_is_raised() {
    let cli = Cli::new();
    let limited = |limit: &str, args: &[&str]| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_storebench")]);
        let done = command.args(args).current_dir(cli.folder.path()).output().unwrap();
        (
            done.status.code(),
            String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr),
        )
    };
    let (code, told) = limited("-n 20", &["bench", "memory:", "--operations", "10", "--docs", "10"]);
    assert!(code == Some(2) && told.contains("(`ulimit -n`); nothing was started. Raise the limit with"), "{told}");
    let (code, told) =
        limited("-n 64", &["bench", "sqlite:x.db", "--operations", "10", "--docs", "10", "--workers", "8"]);
    assert!(code == Some(2) && told.contains("phase `load` needs up to 112 open files"), "{told}");
    assert!(told.contains("`ulimit -n 128`, or use fewer workers or connections (--connections 1)"), "{told}");
    cli.write("one.jsonl", "{\"_id\":\"a\"}\n");
    let (code, told) = limited("-n 64", &["copy", "one.jsonl", "out.jsonl", "-p", "8"]);
    assert!(code == Some(2) && told.contains("this copy needs up to") && told.contains("lower --parallel"), "{told}");
    let (code, told) = limited("-Sn 50", &["copy", "one.jsonl", "out.jsonl", "-p", "8"]);
    assert_eq!(code, Some(0), "{told}");
}
