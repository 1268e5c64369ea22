//! Partitions of stores with several nodes.

use std::io::Read as _;

use super::*;

/// A server program for tests, found by `servers/where`.
struct Installed {
    root: PathBuf,
    libraries: String,
}

impl Installed {
    fn find(server: &str) -> Option<Self> {
        let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers");
        let out = Command::new(servers.join("where")).arg(server).output().unwrap();
        if !out.status.success() {
            println!("skipped: {}", String::from_utf8_lossy(&out.stderr).trim());
            return None;
        }
        let root = String::from_utf8(out.stdout).unwrap().trim().to_owned();
        let script = "import pathlib, sys\nfrom lib import debian\n\
                      print(debian.environment(pathlib.Path(sys.argv[1]))['LD_LIBRARY_PATH'])";
        let mut command = Command::new("python3");
        command.args(["-B", "-c", script, &root]).env("PYTHONPATH", &servers);
        let libraries = String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_owned();
        Some(Self { root: root.into(), libraries })
    }

    fn program(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }

    fn server(&self, place: &TestNetwork, node: &str, line: &str) -> Server {
        let mut spec = spec(node, format!("{}{line}", place.enter(node)), place);
        spec.env = vec![("LD_LIBRARY_PATH".into(), self.libraries.clone()), ("LC_ALL".into(), "C.UTF-8".into())];
        let mut server = Server::new(spec, &place.path("leases")).unwrap();
        server.start().unwrap();
        server
    }

    fn run(&self, line: &str) -> String {
        let out = self.command(line).output().unwrap();
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).env("LD_LIBRARY_PATH", &self.libraries).env("LC_ALL", "C.UTF-8").current_dir("/");
        command.stdin(Stdio::null());
        command
    }
}

/// What Redis answers to a command.
fn redis(address: IpAddr, command: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(address, 6379), LONG)?;
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_replica_of_redis_lags_behind_while_it_is_cut_off() {
    let Some(mut place) = TestNetwork::new(&["primary", "replica"]) else { return };
    let Some(installed) = Installed::find("redis") else { return };
    let program = installed.program("usr/bin/redis-server");
    let (primary, replica) = (place.address("primary"), place.address("replica"));
    let mut servers = Vec::new();
    for (node, more) in [("primary", String::new()), ("replica", format!("--replicaof {primary} 6379"))] {
        let own = place.address(node);
        let line = format!(
            "{program} --port 6379 --bind {own} --protected-mode no --save '' --repl-timeout 3600 --dir {} {more}",
            place.path(node).display()
        );
        let mut server = installed.server(&place, node, &line);
        let answers = || redis(own, "PING").map(drop).map_err(|error| error.to_string());
        server.wait_ready(&mut { answers }).unwrap();
        servers.push(server);
    }
    let has = |address, value: &str| redis(address, "GET key").unwrap().contains(&format!("\r\n{value}\r\n"));
    assert!(redis(primary, "SET key before").unwrap().contains("+OK"));
    wait_until("the replica follows", || has(replica, "before"));
    let synced = || {
        let told = redis(primary, "INFO stats").unwrap();
        told.lines().filter(|line| line.starts_with("sync_")).collect::<Vec<_>>().join(" ")
    };
    let before = synced();
    assert!(before.contains("sync_full:1"), "{before}");
    place.network.partition(&Partition::groups(&[&["primary"], &["replica"]])).unwrap();
    assert!(redis(primary, "SET key during").unwrap().contains("+OK"), "Redis does not wait for replicas");
    assert!(has(primary, "during") && has(replica, "before"));
    place.network.heal().unwrap();
    wait_until("the replica has caught up", || has(replica, "during"));
    assert_eq!(synced(), before, "on the connection that it had");
}

/// `nobody`: PostgreSQL does not run as root.
const NOBODY: u32 = 65534;

#[test]
fn a_commit_of_postgresql_waits_for_a_standby_that_is_cut_off() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let Some(mut place) = TestNetwork::new(&["primary", "standby"]) else { return };
    let Some(installed) = Installed::find("postgres") else { return };
    let program = |name: &str| installed.program(&format!("usr/lib/postgresql/15/bin/{name}"));
    let nobody = format!("setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups ");
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
    for node in ["primary", "standby"] {
        fs::create_dir(place.path(node)).unwrap();
        fs::set_permissions(place.path(node), fs::Permissions::from_mode(0o700)).unwrap();
        chown(place.path(node), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let folder = |node: &str| place.path(node).display().to_string();
    let (primary, standby) = (place.address("primary"), place.address("standby"));
    let psql = |address: IpAddr, statement: &str| {
        format!("{} -X -q -A -t -h {address} -U storebench -d postgres -c \"{statement}\"", program("psql"))
    };
    let ask = |address, statement: &str| installed.run(&psql(address, statement));
    let start = |node: &str| {
        let line = format!(
            "{nobody}{} -D {} -c listen_addresses='*' -c unix_socket_directories='' -c wal_sender_timeout=0 \
             -c wal_receiver_timeout=0",
            program("postgres"),
            folder(node)
        );
        let mut server = installed.server(&place, node, &line);
        let ready = format!("{} -q -h {}", program("pg_isready"), place.address(node));
        let mut answers = || match installed.command(&ready).status() {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("{other:?}")),
        };
        server.wait_ready(&mut answers).unwrap();
        server
    };
    let initdb = program("initdb");
    installed.run(&format!("{nobody}{initdb} -U storebench --auth=trust --no-sync -D {}", folder("primary")));
    // `samenet` is the network of the nodes.
    let access = "host all all samenet trust\nhost replication all samenet trust\n";
    fs::OpenOptions::new()
        .append(true)
        .open(place.path("primary/pg_hba.conf"))
        .unwrap()
        .write_all(access.as_bytes())
        .unwrap();
    let _primary = start("primary");
    let copy = format!(
        "{}{nobody}{} -h {primary} -U storebench -D {} -R --checkpoint=fast --no-sync --wal-method=stream",
        place.enter("standby"),
        program("pg_basebackup"),
        folder("standby")
    );
    installed.run(&copy);
    let _standby = start("standby");
    let rows = |address| ask(address, "select count(*) from t");
    ask(primary, "create table t(n int)");
    ask(primary, "alter system set synchronous_standby_names = '*'");
    ask(primary, "select pg_reload_conf()");
    let sender = || ask(primary, "select pid from pg_stat_replication where sync_state = 'sync'");
    wait_until("the standby takes part in commits", || !sender().is_empty());
    let before = sender();
    ask(primary, "insert into t values(1)");
    wait_until("the standby has it", || rows(standby) == "1");

    place.network.partition(&Partition::groups(&[&["primary"], &["standby"]])).unwrap();
    let mut commit = Process::start(&mut installed.command(&psql(primary, "insert into t values(2)")));
    let waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
    wait_until("a commit waits", || ask(primary, waiting) == "1");
    assert_eq!((rows(primary), rows(standby)), ("1".into(), "1".into()), "nobody sees what is not acknowledged");
    assert_eq!(ask(primary, waiting), "1");
    assert_eq!(commit.0.try_wait().unwrap(), None);

    place.network.heal().unwrap();
    assert!(commit.0.wait().unwrap().success());
    assert_eq!(rows(primary), "2");
    wait_until("the standby has it too", || rows(standby) == "2");
    assert_eq!(sender(), before, "on the connection that it had");
}
