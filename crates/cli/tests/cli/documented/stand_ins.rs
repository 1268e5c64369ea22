//! Servers of the tests in place of the hosts that the documentation names, and short work in place of long.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::Command;

use storebench_fakes::couchbase::{Fake, FakeOptions};
use storebench_fakes::s3::{ACCESS_KEY, S3, SECRET_KEY};

use crate::common::{Cli, Done};
use crate::server::Server;

/// The schemes of servers, and the server that `servers/start` starts in place of each.
const SERVERS: [(&str, &str); 6] = [
    ("postgres://", "postgres"),
    ("redis://", "redis"),
    ("memcached://", "memcached"),
    ("mongodb://", "nx-27017"),
    ("couchdb://", "pouchdb-server"),
    ("ravendb://", "ravendb"),
];

/// Object storage, as the documentation calls it.
const OBJECTS: &str = "http://127.0.0.1:9000";

enum Running {
    Server(Server),
    Couchbase(Fake),
}

/// A folder in which the commands of one page run, and the servers that they use. A server starts when the first
/// command names its host.
pub(crate) struct Stage {
    pub(crate) cli: Cli,
    running: RefCell<BTreeMap<String, Running>>,
    objects: RefCell<Option<(S3, tempfile::TempDir)>>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let cli = Cli::new();
        // The machine may lack `sudo`, and tests of what needs root run as root or not at all.
        cli.write("sudo", "#!/bin/sh\nexec \"$@\"\n");
        assert!(Command::new("chmod").arg("+x").arg(cli.path("sudo")).status().unwrap().success());
        Self { cli, running: RefCell::default(), objects: RefCell::default() }
    }

    /// Starts object storage with these buckets. Commands find it by their environment.
    pub(crate) fn serve_objects(&self, buckets: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let s3 = S3::serve(folder.path()).unwrap();
        buckets.iter().for_each(|bucket| s3.make_bucket(bucket).unwrap());
        *self.objects.borrow_mut() = Some((s3, folder));
    }

    /// Does something with the server in place of `url`.
    pub(crate) fn with_server(&self, url: &str, work: impl FnOnce(&Server)) {
        self.in_place(url);
        let (scheme, rest) = url.split_once("//").unwrap();
        match self.running.borrow().get(&format!("{scheme}//{}", host(rest).0)) {
            Some(Running::Server(server)) => work(server),
            _ => panic!("no server runs in place of {url}"),
        }
    }

    /// The text with stand-ins for all servers that it names.
    pub(crate) fn in_place(&self, text: &str) -> String {
        if let (Some((s3, _)), Some((before, after))) = (&*self.objects.borrow(), text.split_once(OBJECTS)) {
            let here = s3.url("", "");
            return self.in_place(&format!("{before}{}{after}", here.split_once("endpoint=").unwrap().1));
        }
        let schemes = || SERVERS.iter().map(|(scheme, _)| *scheme).chain(["couchbase://"]);
        let first = schemes().filter_map(|scheme| Some((text.find(scheme)?, scheme))).min();
        let Some((at, scheme)) = first else { return text.to_owned() };
        let (before, rest) = (&text[..at], &text[at + scheme.len()..]);
        let end = rest.find([' ', '\n', '\'', '"', '`']).unwrap_or(rest.len());
        let url = self.stand_in(scheme, &rest[..end]);
        format!("{before}{url}{}", self.in_place(&rest[end..]))
    }

    /// The URL of the stand-in for a host, and the same place on it.
    fn stand_in(&self, scheme: &str, rest: &str) -> String {
        let (host, place) = host(rest);
        let (path, query) = place.find('?').map_or((place, ""), |at| place.split_at(at));
        let mut running = self.running.borrow_mut();
        let bucket = if path.len() > 2 { &path[1..] } else { "default" };
        let key = if scheme == "couchbase://" { format!("{scheme}{host}/{bucket}") } else { format!("{scheme}{host}") };
        let running = running.entry(key).or_insert_with(|| match SERVERS.iter().find(|(name, _)| *name == scheme) {
            // The host `pair` stands for a server with a copy of its data on another.
            Some((_, "postgres")) if host == "pair" => Running::Server(Server::start("postgres-standby")),
            Some((_, "pouchdb-server")) => Running::Server(Server::start_with("pouchdb-server", &["--in-memory"])),
            Some((_, server)) => Running::Server(Server::start(server)),
            None => {
                let options =
                    FakeOptions { bucket: bucket.to_owned(), nodes: 2, replicas: 1, ..FakeOptions::default() };
                Running::Couchbase(Fake::start(options).unwrap())
            }
        });
        match running {
            Running::Couchbase(fake) => fake.url() + query,
            Running::Server(server) if scheme == "postgres://" => {
                let login = if query.contains("password_env") { "storebench" } else { "storebench:storebench" };
                format!("postgres://{login}@127.0.0.1:{}/storebench{query}", server.port)
            }
            Running::Server(server) => {
                let path = if path.contains('…') { "" } else { path };
                format!("{scheme}127.0.0.1:{}{path}{query}", server.port)
            }
        }
    }

    /// Runs a command in the shell, as a reader would.
    pub(crate) fn shell(&self, text: &str) -> Done {
        self.cli.run_command(&mut self.in_shell(text))
    }

    /// Runs a command until its socket exists, and then interrupts it.
    pub(crate) fn serves(&self, text: &str, socket: &str) -> Result<(), String> {
        // `exec`, so that the signal reaches the program.
        let mut child = self.in_shell(&format!("exec {text}")).spawn().unwrap();
        while !self.cli.path(socket).exists() {
            if let Some(status) = child.try_wait().unwrap() {
                return Err(format!("it ended with {status} before {socket} existed"));
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
        let code = child.wait().unwrap().code();
        if matches!(code, Some(0 | 130)) { Ok(()) } else { Err(format!("exit {code:?} after an interrupt")) }
    }

    fn in_shell(&self, text: &str) -> Command {
        let program = self.cli.command(&[]);
        let folders = [std::path::Path::new(program.get_program()).parent().unwrap(), self.cli.folder.path()];
        let path = folders.map(|folder| folder.display().to_string()).join(":");
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", text]).current_dir(self.cli.folder.path()).stdin(std::process::Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            shell.env_remove(name);
        }
        shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap())).env("PG_PASSWORD", "storebench");
        if let Some((s3, _)) = &*self.objects.borrow() {
            let url = s3.url("", "");
            shell.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
            shell.env("AWS_ENDPOINT", url.split_once("endpoint=").unwrap().1).env("AWS_ALLOW_HTTP", "true");
            shell.env("AWS_REGION", "eu-central-1");
        }
        shell
    }
}

/// The host of what follows `//` in a URL, without user and port, and what follows it.
fn host(rest: &str) -> (&str, &str) {
    let (authority, place) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.split_once('@').map_or(authority, |(_, host)| host);
    // Two ports of one machine are two servers.
    (if host.starts_with("127.") { host } else { host.split(':').next().unwrap_or(host) }, place)
}

/// What makes a study end in a second or two: built-in studies by name, with the settings of [`crate::studies::tiny`],
/// and files by their ends.
const SHORT: [(&str, &str); 13] = [
    ("bulk-insert", "--scale 0.05"),
    ("first-look", "--scale 0.01"),
    ("million-writes", "--scale 0.00001 --set repeats=1"),
    ("one-setting", "--scale 0.0002"),
    ("reading-list", "--scale 0.00001 --set repeats=1"),
    ("parallel-transfer", "--scale 0.0003"),
    ("what-if-it-dies", WITH_FAULTS),
    ("orders.toml", "--set phases.mix.duration=300ms"),
    ("/insert-batches.toml", "--scale 0.005 --set repeats=1"),
    ("/key-value.toml", "--scale 0.01 --set phases.warm-up.duration=100ms --set phases.mixed.duration=200ms"),
    ("/every-store.toml", "--scale 0.01 --set phases.mixed.duration=200ms --set phases.steady.duration=200ms"),
    (
        "/open-loop.toml",
        "--scale 0.1 --set phases.load.settle=1s --set phases.warm-up.duration=100ms --set phases.reader.duration=300ms",
    ),
    ("/own-documents.toml", "--set phases.use.duration=300ms"),
];

/// The same for the study with faults.
pub(crate) const WITH_FAULTS: &str = r#"--scale 0.002 --set phases.undisturbed.duration=500ms --set phases.killed.duration=1s
--set phases.restarted.duration=1s --set phases.paused.duration=1s --set phases.out-of-power.duration=1s
--set phases.out-of-space.duration=1s --set 'phases.killed.faults=[{ at = "200ms", do = "kill", for = "100ms" }]'
--set 'phases.restarted.faults=[{ at = "200ms", do = "restart" }]'
--set 'phases.paused.faults=[{ at = "200ms", do = "pause", for = "100ms" }]'
--set 'phases.out-of-power.faults=[{ at = "200ms", do = "power-cut" }]'
--set 'phases.out-of-space.faults=[{ at = "200ms", do = "disk-full", for = "100ms" }, { at = "500ms", do = "restart" }]'"#;

/// A command that does the same in less time: fewer documents, shorter phases.
pub(crate) fn shortened(text: &str) -> String {
    let mut text = text.to_owned();
    if text.contains("storebench bench ") {
        let of_its_own = ["--existing", "--from"].iter().any(|flag| text.contains(flag));
        let has_operations = text.contains("--operations");
        for (flag, value, is_added) in [
            ("--docs", "1000", !of_its_own),
            ("--operations", "1000", false),
            ("--duration", "300ms", !has_operations),
            ("--warm-up", "0s", true),
        ] {
            text = with_value(&text, flag, value, is_added);
        }
    }
    for call in ["storebench run ", "storebench)\" run ", "storebench plan "] {
        let study = text.split(call).nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
        let is_it = |name: &str| study == name || name.starts_with('/') && study.ends_with(name);
        let Some((name, short)) = SHORT.iter().find(|(name, _)| is_it(name)) else { continue };
        let (scale, more) =
            short.split_at(if short.starts_with("--scale") { short.find(" --").unwrap_or(short.len()) } else { 0 });
        let scale = if text.contains("--scale ") { "" } else { scale };
        // The preset without root has no phases that need it.
        let is_there = |setting: &&str| {
            !(text.contains("no-root") && setting.starts_with(['p', '\'']) && setting.contains("out-of-"))
        };
        let more = more.replace('\n', " ");
        let more = more.split("--set ").filter(is_there).collect::<Vec<_>>().join("--set ");
        let settings = match *name {
            "what-if-it-dies" => vec![],
            name if name.ends_with(".toml") => vec![],
            name => crate::studies::tiny(name),
        };
        let settings: String = settings.iter().map(|setting| format!("--set \"{setting}\" ")).collect();
        text = text.replacen(call, &format!("{call}{settings}{more} {scale} "), 1);
    }
    text
}

/// The text with this value of a flag, which is added if it is missing.
fn with_value(text: &str, flag: &str, value: &str, is_added: bool) -> String {
    let Some((before, rest)) = text.split_once(&format!("{flag} ")) else {
        let with = format!("storebench bench {flag} {value} ");
        return if is_added { text.replacen("storebench bench ", &with, 1) } else { text.to_owned() };
    };
    let after = rest.find(char::is_whitespace).map_or("", |at| &rest[at..]);
    format!("{before}{flag} {value}{after}")
}

#[test]
fn hosts_have_stand_ins() {
    assert_eq!(host("me@HOST:5984/shop"), ("HOST", "/shop"));
    assert_eq!(host("127.0.0.1:7001/0?a=b"), ("127.0.0.1:7001", "/0?a=b"));
    assert_eq!(host("…"), ("…", ""));
    let stage = Stage::new();
    let text = stage.in_place("copy couchbase://me@HOST/shop a.jsonl --to 'couchbase://…'");
    assert!(text.starts_with("copy couchbase://storebench:password@127.0.0.1:"), "{text}");
    assert!(text.contains("/shop a.jsonl --to 'couchbase://storebench") && text.ends_with("/default'"), "{text}");
}

#[test]
fn long_work_is_shortened() {
    let short = shortened("storebench bench a:b --docs 1M --duration 30s");
    assert_eq!(short, "storebench bench --warm-up 0s a:b --docs 1000 --duration 300ms");
    let short = shortened("storebench run bulk-insert --scale 0.01");
    assert!(short.contains("--set \"repeats=2\"") && !short.contains("--scale 0.05"), "{short}");
}
