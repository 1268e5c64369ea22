use super::*;
use std::os::unix::fs::PermissionsExt as _;

struct Lab(tempfile::TempDir);

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn server(&self, commands: Commands, change: impl FnOnce(&mut Spec)) -> Server {
        let mut spec = Spec {
            name: "it".into(),
            commands,
            user: None,
            prepare: None,
            data: Some(self.path("data")),
            ready: None,
            env: vec![("FOLDER".into(), self.0.path().display().to_string())],
            log: self.path("log"),
            ready_within: Duration::from_secs(30),
            stop_within: Duration::from_secs(30),
            files: Vec::new(),
        };
        change(&mut spec);
        Server::new(spec, self.0.path()).unwrap()
    }

    fn leases(&self) -> usize {
        let entries = fs::read_dir(self.0.path()).unwrap().flatten();
        entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "lease")).count()
    }
}

fn run(line: &str) -> Commands {
    stopped_by(line, StopBy::Signal(Signal::TERM))
}

fn stopped_by(line: &str, stop: StopBy) -> Commands {
    Commands::Run { line: line.into(), network: String::new(), stop }
}

const TALKS: &str =
    "sh -c 'trap \"echo bye; exit 0\" TERM; echo $GREETING; touch $FOLDER/up; while :; do sleep 0.01; done'";

#[test]
fn a_process_is_started_paused_killed_started_again_and_stopped_in_order() {
    let lab = Lab::new();
    let mut server = lab.server(run(TALKS), |spec| {
        spec.env.push(("GREETING".into(), "hello".into()));
        spec.ready = Some("test -e $FOLDER/up".into());
        spec.prepare = Some("echo once >> $FOLDER/prepared; touch $FOLDER/data/made".into());
    });
    server.start().unwrap();
    server.wait_ready(&mut || Ok(())).unwrap();
    let first = server.tree();
    server.pause().unwrap();
    // If the shell was executing a program at that moment, the program is stopped and the shell waits for it.
    while !server.tree().pids().iter().any(|pid| pid.is_paused()) {
        std::thread::yield_now();
    }
    server.kill().unwrap();
    assert!(!first.runs() && !server.is_started() && server.died().is_none(), "a requested kill is not a crash");
    assert!(!server.said().contains("bye"));
    server.start().unwrap();
    server.wait_ready(&mut || if server_said(&lab, "hello") >= 2 { Ok(()) } else { Err("not yet".into()) }).unwrap();
    server.stop().unwrap();
    assert!(server.said().ends_with("bye"), "{}", server.said());
    assert_eq!(fs::read_to_string(lab.path("prepared")).unwrap(), "once\n");
    assert_eq!(
        fs::metadata(lab.path("data")).unwrap().permissions().mode() & 0o777,
        0o700,
        "its data is nobody else's"
    );
    assert_eq!(lab.leases(), 1);
    drop(server);
    assert_eq!(lab.leases(), 0);
}

fn server_said(lab: &Lab, what: &str) -> usize {
    fs::read_to_string(lab.path("log")).unwrap().matches(what).count()
}

#[test]
fn one_that_dies_shows_its_last_words() {
    let lab = Lab::new();
    let mut server = lab.server(run("sh -c 'echo the port is in use >&2; exit 7'"), |_| ());
    server.start().unwrap();
    let died = server.wait_ready(&mut || Err("nobody answers".into())).unwrap_err().to_string();
    assert!(died.contains("exit status: 7") && died.contains("the port is in use"), "{died}");
    assert!(!server.is_started());
}

#[test]
fn one_that_never_gets_ready_or_does_not_stop_is_told() {
    let lab = Lab::new();
    let mut server =
        lab.server(run("sh -c 'trap \"\" TERM; touch $FOLDER/up; while :; do sleep 0.01; done'"), |spec| {
            spec.ready_within = Duration::from_millis(50);
            spec.stop_within = Duration::from_millis(50);
        });
    server.start().unwrap();
    while !lab.path("up").exists() {
        std::thread::yield_now();
    }
    let slow = server.wait_ready(&mut || Err("nobody answers".into())).unwrap_err();
    assert!(slow.to_string().contains("nobody answers"), "{slow}");
    let tree = server.tree();
    assert!(matches!(server.stop(), Err(Problem::NotStopped { .. })));
    assert!(!tree.runs());
}

#[test]
fn a_command_that_fails_says_so_in_its_own_words() {
    let lab = Lab::new();
    let mut server = lab.server(run("true"), |spec| spec.prepare = Some("echo no room; false".into()));
    let failed = server.start().unwrap_err().to_string();
    assert!(failed.contains("no room") && failed.contains("exit status: 1"), "{failed}");
}

#[test]
fn the_users_own_commands_are_used_and_what_has_none_is_refused() {
    let lab = Lab::new();
    let given = |kill: Option<&str>| Commands::Given {
        start: "echo start >> $FOLDER/did".into(),
        stop: "echo stop >> $FOLDER/did".into(),
        kill: kill.map(str::to_owned),
        pause: None,
        resume: None,
    };
    let mut server = lab.server(given(Some("echo kill >> $FOLDER/did")), |_| ());
    server.start().unwrap();
    server.kill().unwrap();
    server.start().unwrap();
    server.stop().unwrap();
    server.start().unwrap();
    drop(server);
    assert_eq!(fs::read_to_string(lab.path("did")).unwrap(), "start\nkill\nstart\nstop\nstart\nstop\n");
    let mut server = lab.server(given(None), |_| ());
    assert!(server.kill().unwrap_err().to_string().contains("add `kill`"));
    assert!(server.pause().unwrap_err().to_string().contains("add `pause`"));
}

#[test]
fn a_program_ends_with_its_input() {
    let lab = Lab::new();
    let mut server = lab.server(Commands::Program("cat".into(), Vec::new()), |_| ());
    server.start().unwrap();
    let tree = server.tree();
    // Its end of the pipe closes when this process ends, however it ends.
    drop(server.child.as_mut().unwrap().stdin.take());
    while tree.runs() {
        std::thread::yield_now();
    }
    assert!(matches!(server.died(), Some(Problem::Died { .. })));
}

/// Commands that do nothing, except for the changed ones.
fn given(change: impl FnOnce(&mut [&str; 5])) -> Commands {
    let mut lines = ["true"; 5];
    change(&mut lines);
    let [start, stop, kill, pause, resume] = lines.map(str::to_owned);
    Commands::Given { start, stop, kill: Some(kill), pause: Some(pause), resume: Some(resume) }
}

/// The process whose number a command has written into a file.
fn noted(lab: &Lab, name: &str) -> Pid {
    crate::testing::wait_until(name, || fs::read_to_string(lab.path(name)).is_ok_and(|text| text.ends_with('\n')));
    let text = fs::read_to_string(lab.path(name)).unwrap();
    Pid::of(text.trim().parse().unwrap()).unwrap()
}

#[test]
fn a_command_that_leaves_a_server_behind_has_ended_when_it_has() {
    let lab = Lab::new();
    let lines = |lines: &mut [&str; 5]| {
        lines[0] = "sleep 312 & echo $! > $FOLDER/pid";
        lines[1] = "kill $(cat $FOLDER/pid)";
    };
    let mut server = lab.server(given(lines), |_| ());
    let began = Instant::now();
    server.start().unwrap();
    assert!(began.elapsed() < Duration::from_secs(60), "it was not waited for");
    let pid = noted(&lab, "pid");
    assert!(pid.runs() && server.is_started());
    server.stop().unwrap();
    crate::testing::wait_until("it has ended", || !pid.runs());
}

#[test]
fn a_command_that_hangs_is_killed_and_says_what_it_said_last() {
    let lab = Lab::new();
    let hangs = "echo I wait for $WHOM; echo $$ > $FOLDER/pid; sleep 313; true";
    let short = |spec: &mut Spec| {
        spec.env.push(("WHOM".into(), "nobody".into()));
        spec.stop_within = Duration::from_millis(300);
    };
    type Step = fn(&mut Server) -> Result<(), Problem>;
    let steps: [(usize, Step); 4] = [(1, Server::stop), (2, Server::kill), (3, Server::pause), (4, Server::resume)];
    for (place, step) in steps {
        let mut server = lab.server(given(|lines| lines[place] = hangs), short);
        server.start().unwrap();
        let began = Instant::now();
        let Err(Problem::Command { why, said, .. }) = step(&mut server) else { panic!("it hangs") };
        assert!(why.contains("did not finish within 0.3 s") && said == "I wait for nobody", "{why} {said}");
        assert!(began.elapsed() < Duration::from_secs(60));
        let number: u32 = fs::read_to_string(lab.path("pid")).unwrap().trim().parse().unwrap();
        assert_eq!(Pid::of(number), None, "it was killed");
    }
    let mut server = lab.server(given(|lines| lines[0] = hangs), |spec| {
        short(spec);
        spec.ready_within = Duration::from_millis(200);
    });
    let failed = server.start().unwrap_err().to_string();
    assert!(failed.contains("did not finish within 0.2 s") && !server.is_started(), "{failed}");
}

#[test]
fn a_question_that_hangs_ends_with_the_time_to_be_ready() {
    let lab = Lab::new();
    let mut server = lab.server(run("sleep 314"), |spec| {
        spec.ready = Some("test -e $FOLDER/asked && exec sleep 315; touch $FOLDER/asked; echo not yet; false".into());
        spec.ready_within = Duration::from_millis(600);
    });
    server.start().unwrap();
    let began = Instant::now();
    let Err(Problem::NotReady { within, why, .. }) = server.wait_ready(&mut || Ok(())) else { panic!("it hangs") };
    assert_eq!(within, Duration::from_millis(600));
    assert!(why.contains("did not finish within"), "{why}");
    assert!(began.elapsed() < Duration::from_secs(60));
    // If the time limit cuts it off, the error shows its previous output.
    let mut server = lab.server(run("sleep 314"), |spec| {
        spec.ready = Some("sleep 0.04; echo not yet; false".into());
        spec.ready_within = Duration::from_millis(900);
    });
    server.start().unwrap();
    let why = server.wait_ready(&mut || Ok(())).unwrap_err().to_string();
    assert!(why.contains("not yet"), "{why}");
}

#[test]
fn a_crash_of_its_own_is_not_hidden_by_a_stop_or_a_kill() {
    let lab = Lab::new();
    for step in [Server::stop, Server::kill] {
        let mut server = lab.server(run("sh -c 'echo out of room; exit 9'"), |_| ());
        server.start().unwrap();
        let tree = server.tree();
        crate::testing::wait_until("it has ended", || !tree.runs());
        let Err(Problem::Died { how, said, .. }) = step(&mut server) else { panic!("it had died") };
        assert!(how.contains("exit status: 9") && said.contains("out of room"), "{how} {said}");
        assert!(!server.is_started() && server.died().is_none(), "it is reported once");
        assert_eq!(step(&mut server), Ok(()), "nothing is left to end");
        server.start().unwrap();
    }
}

#[test]
fn one_that_ends_by_itself_leaves_nothing_behind() {
    let lab = Lab::new();
    let mut other = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
    let dies = "sh -c 'sleep 311 & echo $! > $FOLDER/pid; sleep 0.3; exit 1'";
    let mut server = lab.server(run(dies), |_| ());
    server.start().unwrap();
    let left = noted(&lab, "pid");
    let died = server.wait_ready(&mut || Err("nobody answers".into())).unwrap_err();
    assert!(died.to_string().contains("exit status: 1"), "{died}");
    assert!(!left.runs() && !server.is_started());
    // Also if nobody asks before it is dropped.
    fs::remove_file(lab.path("pid")).unwrap();
    server.start().unwrap();
    let (left, tree) = (noted(&lab, "pid"), server.tree());
    crate::testing::wait_until("it has ended", || !tree.pids()[0].runs());
    assert!(left.runs());
    drop(server);
    assert!(!left.runs());
    assert_eq!(other.try_wait().unwrap(), None, "others are left alone");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn what_has_left_its_tree_ends_with_it() {
    let lab = Lab::new();
    let leaves = "sh -c '(sleep 311 & echo $! > $FOLDER/pid); trap \"exit 0\" TERM; while :; do sleep 0.01; done'";
    for step in [Server::stop, Server::kill] {
        let mut server = lab.server(run(leaves), |_| ());
        server.start().unwrap();
        let left = noted(&lab, "pid");
        crate::testing::wait_until("it has left the tree", || !server.tree().pids().contains(&left));
        assert!(left.runs());
        step(&mut server).unwrap();
        assert!(!left.runs());
        fs::remove_file(lab.path("pid")).unwrap();
    }
}

#[test]
fn what_has_left_tree_and_process_group_ends_with_its_control_group() {
    if !crate::testing::groups() {
        return;
    }
    let lab = Lab::new();
    let leaves = "sh -c 'setsid sh -c \"echo \\$\\$ > $FOLDER/pid; exec sleep 311\" & sleep 0.3; exit 1'";
    let mut server = lab.server(run(leaves), |_| ());
    server.limit(Limits { memory_bytes: Some(1 << 30), ..Limits::default() }).unwrap();
    server.start().unwrap();
    let left = noted(&lab, "pid");
    let died = server.wait_ready(&mut || Err("nobody answers".into())).unwrap_err();
    assert!(matches!(died, Problem::Died { .. }) && !left.runs(), "{died}");
    // The group still exists for the next start.
    fs::remove_file(lab.path("pid")).unwrap();
    server.start().unwrap();
    noted(&lab, "pid");
}

#[test]
fn commands_that_fail_leave_nothing_running_or_standing_still() {
    let lab = Lab::new();
    let say = |what: &str| format!("echo {what} >> $FOLDER/did; test ! -e $FOLDER/no-{what}");
    let given = || Commands::Given {
        start: say("start"),
        stop: say("stop"),
        kill: Some(say("kill")),
        pause: Some(say("pause")),
        resume: Some(say("resume")),
    };
    let did = || {
        let all = fs::read_to_string(lab.path("did")).unwrap();
        fs::remove_file(lab.path("did")).unwrap();
        all.replace('\n', " ")
    };
    // A server that was killed while suspended runs again after the next start.
    let mut server = lab.server(given(), |_| ());
    server.start().unwrap();
    server.pause().unwrap();
    server.kill().unwrap();
    server.start().unwrap();
    server.stop().unwrap();
    assert_eq!(did(), "start pause kill start stop ");
    // A server that cannot be resumed is stopped all the same.
    fs::write(lab.path("no-resume"), "").unwrap();
    server.start().unwrap();
    server.pause().unwrap();
    server.stop().unwrap();
    assert_eq!(did(), "start pause resume stop ");
    // A suspended server is resumed before it is dropped, or it could not stop cleanly.
    server.start().unwrap();
    server.pause().unwrap();
    drop(server);
    assert_eq!(did(), "start pause resume stop ");
    // A server that could not be ended may still be running.
    for (what, end) in [("stop", Server::stop as fn(&mut Server) -> _), ("kill", Server::kill)] {
        let mut server = lab.server(given(), |_| ());
        server.start().unwrap();
        let no = lab.path(&format!("no-{what}"));
        fs::write(&no, "").unwrap();
        assert!(end(&mut server).is_err());
        fs::remove_file(no).unwrap();
        drop(server);
        assert_eq!(did(), format!("start {what} stop "));
    }
}

/// As PostgreSQL does: on SIGTERM it waits for its clients, on another signal (there SIGINT) it does not. A shell cannot
/// trap SIGINT if the tests were started in the background, where it is ignored.
const WAITS: &str =
    "sh -c 'trap : TERM; trap \"echo bye; exit 0\" USR1; touch $FOLDER/up; while :; do sleep 0.01; done'";

#[test]
fn a_server_is_stopped_by_the_signal_or_the_command_that_it_understands() {
    let lab = Lab::new();
    let stop = |stop: StopBy, within: u64| {
        let mut server = lab.server(stopped_by(WAITS, stop), |spec| {
            spec.ready = Some("test -e $FOLDER/up".into());
            spec.stop_within = Duration::from_millis(within);
        });
        server.start().unwrap();
        server.wait_ready(&mut || Ok(())).unwrap();
        fs::write(lab.path("pid"), format!("{}\n", server.tree().pids()[0].number)).unwrap();
        let tree = server.tree();
        let stopped = server.stop();
        assert!(!tree.runs() && !server.is_started());
        fs::remove_file(lab.path("up")).unwrap();
        stopped
    };
    let kill_by = |line: &str| StopBy::Command(line.to_owned());
    assert_eq!(stop(StopBy::Signal(Signal::USR1), 30_000), Ok(()));
    assert_eq!(stop(kill_by("kill -USR1 $(cat $FOLDER/pid)"), 30_000), Ok(()));
    assert_eq!(server_said(&lab, "bye"), 2);
    let told = stop(StopBy::Signal(Signal::TERM), 100).unwrap_err().to_string();
    assert!(told.contains("within 100ms after SIGTERM") && told.contains("`stop_signal`"), "{told}");
    let told = stop(kill_by("kill -TERM $(cat $FOLDER/pid)"), 300).unwrap_err().to_string();
    assert!(told.contains("after `kill -TERM") && told.contains("correct `stop`"), "{told}");
    let told = stop(kill_by("echo no such server; false"), 30_000).unwrap_err().to_string();
    assert!(told.contains("stopping it") && told.contains("no such server"), "{told}");
    assert_eq!(server_said(&lab, "bye"), 2);
}

/// A script that runs the server and ends at the signal must not take the server with it before the server has shut
/// down.
#[test]
fn a_stop_reaches_the_server_that_a_script_has_started_and_waits_for_it() {
    let lab = Lab::new();
    let line = "sh -c 'sh -c \"trap \\\"sleep 0.2; echo saved; exit 0\\\" TERM; touch $FOLDER/up; while :; do sleep 0.01; done\" & wait'";
    let mut server = lab.server(run(line), |spec| spec.ready = Some("test -e $FOLDER/up".into()));
    server.start().unwrap();
    server.wait_ready(&mut || Ok(())).unwrap();
    let tree = server.tree();
    server.stop().unwrap();
    assert!(!tree.runs());
    assert_eq!(server_said(&lab, "saved"), 1);
}

#[test]
fn commands_run_as_the_user_of_the_server_and_its_folder_belongs_to_that_user() {
    use std::os::unix::fs::MetadataExt as _;
    let user = User::find("nobody").unwrap();
    if user.is_none() {
        println!("skipped: only root can run commands as another user");
        return;
    }
    let lab = Lab::new();
    fs::set_permissions(lab.0.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let line = "sh -c 'id -un; echo $HOME $(id -u); trap \"exit 0\" TERM; touch $FOLDER/data/up; while :; do sleep 0.01; done'";
    let mut server = lab.server(run(line), |spec| {
        spec.user.clone_from(&user);
        spec.prepare = Some("id -un > $FOLDER/data/prepared".into());
        spec.ready = Some("test -O $FOLDER/data/up".into());
    });
    server.start().unwrap();
    server.wait_ready(&mut || Ok(())).unwrap();
    // The process is the server, so that signals reach it and its use is seen.
    let tree = server.tree();
    assert_eq!(tree.pids()[0].number, server.child.as_ref().unwrap().id());
    server.stop().unwrap();
    assert!(!tree.runs());
    assert_eq!(fs::read_to_string(lab.path("data/prepared")).unwrap(), "nobody\n");
    assert!(server.said().starts_with("nobody\n/"), "{}", server.said());
    let [folder, file] = ["data", "data/up"].map(|name| fs::metadata(lab.path(name)).unwrap());
    assert_eq!((folder.uid(), folder.mode() & 0o777), (file.uid(), 0o700));
    // A folder of root, which the user cannot enter.
    fs::set_permissions(lab.0.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let told = server.start().unwrap_err().to_string();
    assert!(told.contains("user `nobody` cannot write to its data folder") && told.contains("/var/tmp/it"), "{told}");
}
