//! Three nodes in network namespaces: partitions, a dead node, and which node is asked.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Statement;
use storebench_engine::store::{
    Acknowledged, AnyStore, Durability, ErrorKind, Op, OpError, Persisted, Prepare, StoreSettings,
};
use storebench_machine::{ClientSees, Network, Partition};

use crate::driven::{Driven, PATIENCE, layout};

const NAMES: [&str; 3] = ["a", "b", "c"];
const PORT: u16 = 9042;
const ALL: Durability = Durability { acknowledged_by: Acknowledged::Nodes(3), persisted: Persisted::None, on: 0 };

/// A node in its namespace. It is killed when dropped.
struct Node {
    address: IpAddr,
    folder: tempfile::TempDir,
    /// The prefix of commands that run in the namespace.
    enter: String,
    options: Vec<String>,
}

impl Node {
    /// Starts it, if it does not run.
    fn start(&self) {
        let mut start = Command::new("sh");
        start.args(["-c", &format!("exec {}\"$@\"", self.enter), "sh"]).arg(script("start"));
        start.args(["cassandra", "--port", &PORT.to_string(), "--data"]).arg(self.folder.path()).args(&self.options);
        check(&start.output().unwrap());
    }

    fn kill(&self) {
        let mut stop = Command::new(script("stop"));
        check(&stop.args(["cassandra", "--kill", "--data"]).arg(self.folder.path()).output().unwrap());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut stop = Command::new(script("stop"));
        let _ = stop.args(["cassandra", "--kill", "--data"]).arg(self.folder.path()).output();
    }
}

fn script(name: &str) -> String {
    format!("{}/../../servers/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn check(done: &Output) {
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Starts the nodes one after the other. The last one has another setting than the others.
fn start(network: &Network) -> Vec<Node> {
    let address = |name: &str| network.address(name).unwrap();
    let seed = format!("{{seeds: '{}:7000'}}", address("a"));
    let provider = "org.apache.cassandra.locator.SimpleSeedProvider";
    let node = |name: &&str| {
        let mut lines = vec![
            format!("listen_address: {}", address(name)),
            format!("rpc_address: {}", address(name)),
            format!("seed_provider: [{{class_name: {provider}, parameters: [{seed}]}}]"),
            "storage_port: 7000".to_owned(),
            // All of them are empty.
            "auto_bootstrap: false".to_owned(),
            "-Dcassandra.ring_delay_ms=1000".to_owned(),
        ];
        let timeouts = ["write_request_timeout", "read_request_timeout", "cas_contention_timeout"];
        lines.extend(timeouts.map(|name| format!("{name}: 2000ms")));
        lines.extend((*name == "c").then(|| "concurrent_reads: 8".to_owned()));
        let node = Node {
            address: address(name),
            folder: tempfile::Builder::new().prefix("storebench-server-").tempdir().unwrap(),
            enter: network.enter_command(name).unwrap(),
            options: lines.into_iter().map(|line| format!("--option={line}")).collect(),
        };
        node.start();
        node
    };
    NAMES.iter().map(node).collect()
}

fn apart(groups: &[&[&str]], client_sees: ClientSees) -> Partition {
    let owned = |group: &&[&str]| group.iter().map(|name| (*name).to_owned()).collect();
    Partition::Groups { groups: groups.iter().map(owned).collect(), client_sees }
}

/// How operations ended: acknowledged keys, and how many had each kind of error.
#[derive(Debug, Default)]
struct Ended {
    acknowledged: Vec<String>,
    unknown: usize,
    temporary: usize,
    /// The texts of the errors, without numbers.
    said: BTreeMap<String, usize>,
}

impl Ended {
    fn failed(&mut self, error: &OpError) {
        match error.kind {
            ErrorKind::OutcomeUnknown => self.unknown += 1,
            ErrorKind::Temporary => self.temporary += 1,
            _ => panic!("neither unknown nor temporary: {error}"),
        }
        let said = error.to_string().chars().filter(|letter| !letter.is_ascii_digit()).take(140).collect();
        *self.said.entry(said).or_default() += 1;
    }

    /// How many ended in each way, and what was said.
    fn tell(&self, when: &str) {
        let (acknowledged, unknown, temporary) = (self.acknowledged.len(), self.unknown, self.temporary);
        println!("soak: {when}: {acknowledged} acknowledged, {unknown} unknown, {temporary} temporary");
        self.said.iter().for_each(|(said, times)| println!("  {times} times: {said}"));
    }
}

/// Writes keys that begin with `name`, alternately with and without a condition, until `enough`, one after the other.
fn write(driven: &mut Driven, name: &str, mut enough: impl FnMut(&Ended, Duration) -> bool) -> Ended {
    let (mut ended, begun) = (Ended::default(), Instant::now());
    for n in 0.. {
        if enough(&ended, begun.elapsed()) {
            break;
        }
        let key = format!("{name}{n}");
        let op = if n % 4 == 3 { Op::Insert { key: &key, body: b"{}" } } else { Op::Upsert { key: &key, body: b"{}" } };
        match driven.call(op) {
            Ok(_) => ended.acknowledged.push(key),
            Err(error) => {
                ended.failed(&error);
                // Time for background work.
                driven.wait(Duration::from_millis(20), |_| false);
            }
        }
    }
    ended.tell(name);
    ended
}

/// Waits until every node takes writes.
fn wait_for_all(store: &dyn AnyStore) {
    let (mut driven, begun) = (Driven::open(store, ALL).unwrap(), Instant::now());
    let mut in_a_row = 0;
    while in_a_row < 20 {
        assert!(begun.elapsed() < 2 * PATIENCE, "not all nodes take writes again");
        in_a_row = if driven.call(Op::Upsert { key: "all", body: b"{}" }).is_ok() { in_a_row + 1 } else { 0 };
        driven.wait(Duration::from_millis(50), |_| false);
    }
}

fn all_are_there(driven: &mut Driven, acknowledged: &[String]) {
    for key in acknowledged {
        driven.call_again(Op::Read { key }).unwrap_or_else(|error| panic!("{key} was acknowledged: {error}"));
    }
}

fn value<'s>(settings: &'s StoreSettings, name: &str) -> &'s str {
    &settings.all.iter().find(|setting| setting.name == name).unwrap().value
}

#[test]
#[ignore = "soak: three Cassandra nodes for minutes"]
fn soak_three_nodes_keep_what_a_quorum_acknowledged() {
    Network::available().unwrap();
    let leases = tempfile::tempdir().unwrap();
    let mut network = Network::begin(leases.path(), &NAMES).unwrap();
    let nodes = start(&network);
    let hosts = nodes.iter().map(|node| format!("{}:{PORT}", node.address)).collect::<Vec<_>>().join(",");
    let open = |options: &str| storebench_stores::open(&format!("cassandra://{hosts}?{options}")).unwrap();

    statements_go_to_replicas(&nodes, &*open("keyspace=routed&replication=1"));

    let store = open("replication=3");
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let settings = store.own_settings().unwrap();
    assert_eq!(value(&settings, "nodes"), "3 in datacenter1/rack1");
    assert_eq!(value(&settings, "concurrent_reads"), "2 with 16, 1 with 8");
    assert!(value(&settings, "replication of the keyspace").contains("\"3\""), "{settings:?}");
    wait_for_all(&*store);
    let mut quorum = Driven::open(&*store, Durability::MAJORITY).unwrap();
    let mut all = Driven::open(&*store, ALL).unwrap();
    let mut acknowledged = write(&mut quorum, "healthy", |ended, _| ended.acknowledged.len() >= 300).acknowledged;

    // One node apart from the others. It fails what it coordinates, and the others go on.
    network.partition(&apart(&[&["a", "b"], &["c"]], ClientSees::All)).unwrap();
    let first = write(&mut all, "one-apart-all", |ended, _| ended.unknown + ended.temporary >= 3);
    assert!(first.acknowledged.is_empty(), "{first:?}");
    let apart_now = write(&mut quorum, "one-apart", |ended, elapsed| {
        elapsed > 2 * PATIENCE
            || ended.acknowledged.len() >= 300 && ended.unknown > 0 && ended.temporary > 0 && elapsed > PATIENCE / 2
    });
    assert!(apart_now.acknowledged.len() >= 300 && apart_now.unknown > 0 && apart_now.temporary > 0, "{apart_now:?}");
    acknowledged.extend(apart_now.acknowledged);
    // By now each node knows that the other side is away.
    let later = write(&mut all, "one-apart-all-later", |ended, _| ended.unknown + ended.temporary >= 30);
    assert!(later.acknowledged.is_empty() && later.temporary > 0, "{later:?}");
    network.heal().unwrap();
    wait_for_all(&*store);
    all_are_there(&mut quorum, &acknowledged);

    // The client is apart from a node that the others do not reach either.
    network.partition(&apart(&[&["a", "b"], &["c"]], ClientSees::Group(0))).unwrap();
    let unseen = write(&mut quorum, "one-unseen", |ended, elapsed| {
        elapsed > 2 * PATIENCE || ended.acknowledged.len() >= 300 && elapsed > PATIENCE / 2
    });
    assert!(unseen.acknowledged.len() >= 300, "{unseen:?}");
    acknowledged.extend(unseen.acknowledged);
    network.heal().unwrap();
    wait_for_all(&*store);

    // The client is apart from all of them.
    let client = |from: &[&str], to: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Partition::OneWay { from: owned(from), to: owned(to) }
    };
    network.partition(&client(&NAMES, &[Network::CLIENT])).unwrap();
    let alone = write(&mut quorum, "alone", |ended, _| ended.unknown > 0 && ended.temporary > 3);
    assert!(alone.acknowledged.is_empty(), "{alone:?}");
    network.heal().unwrap();
    let back = write(&mut quorum, "back", |ended, elapsed| elapsed > PATIENCE || ended.acknowledged.len() >= 300);
    assert!(back.acknowledged.len() >= 300, "{back:?}");
    acknowledged.extend(back.acknowledged);
    wait_for_all(&*store);

    // A dead node.
    nodes[1].kill();
    let dead = write(&mut quorum, "one-dead", |ended, elapsed| {
        elapsed > 2 * PATIENCE || ended.acknowledged.len() >= 1_000 && elapsed > Duration::from_secs(10)
    });
    assert!(dead.acknowledged.len() >= 1_000, "{dead:?}");
    acknowledged.extend(dead.acknowledged);
    let dead = write(&mut all, "one-dead-all", |ended, _| ended.unknown + ended.temporary >= 30);
    assert!(dead.acknowledged.is_empty(), "{dead:?}");
    assert!(store.own_settings().unwrap().incomplete);
    all_are_there(&mut quorum, &acknowledged);
    nodes[1].start();
    wait_for_all(&*store);
    all_are_there(&mut quorum, &acknowledged);
    println!("soak: {} keys acknowledged by a quorum, none lost", acknowledged.len());
    drop((quorum, all));
    store.remove().unwrap();
    store.close().unwrap();
}

/// Each statement is sent to the only replica of its document: no other node coordinates any.
fn statements_go_to_replicas(nodes: &[Node], store: &dyn AnyStore) {
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let building = SessionBuilder::new().known_node(format!("{}:{PORT}", nodes[0].address));
    let session = runtime.block_on(building.build()).unwrap();
    let state = session.get_cluster_state();
    let replica = |key: &str| {
        let replicas = state.get_endpoints("routed", "documents", &(key,)).unwrap();
        assert_eq!(replicas.len(), 1);
        replicas[0].0.address.ip()
    };
    let of_b: Vec<String> =
        (0..).map(|n| format!("k{n}")).filter(|key| replica(key) == nodes[1].address).take(300).collect();
    let mut driven = Driven::open(store, Durability::MEMORY).unwrap();
    for key in &of_b {
        driven.call_again(Op::Upsert { key, body: b"{}" }).unwrap();
        driven.call_again(Op::Read { key }).unwrap();
    }
    for kind in ["write", "read"] {
        let counts: Vec<(IpAddr, i64)> = runtime.block_on(coordinated(&session, kind));
        println!("soak: 300 documents of one replica, coordinated {kind}s: {counts:?}");
        for (address, count) in counts {
            assert_eq!(count, if address == nodes[1].address { 300 } else { 0 }, "{kind} {address}");
        }
    }
    drop(driven);
    {
        let _within = runtime.enter();
        drop((state, session));
    }
    store.remove().unwrap();
    store.close().unwrap();
}

/// How many operations on the documents each node has coordinated.
async fn coordinated(session: &Session, kind: &str) -> Vec<(IpAddr, i64)> {
    let mut all = Vec::new();
    for node in session.get_cluster_state().get_nodes_info() {
        let mut statement = Statement::new(format!(
            "SELECT count FROM system_views.coordinator_{kind}_latency \
             WHERE keyspace_name = 'routed' AND table_name = 'documents'"
        ));
        let target = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(Arc::clone(node)), None);
        statement.set_load_balancing_policy(Some(target));
        let rows = session.query_unpaged(statement, ()).await.unwrap().into_rows_result().unwrap();
        all.push((node.address.ip(), rows.first_row::<(i64,)>().map_or(0, |(count,)| count)));
    }
    all
}
