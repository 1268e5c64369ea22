//! Samples the resources that a store's processes, this machine and the store's folder use during a phase.

mod disk;
mod elsewhere;
mod sums;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use storebench_documents::Catalog;
use storebench_engine::measure::thread_cpu_ns;
use storebench_engine::{Companion, StoreUse, Watch};
use storebench_machine::{
    Device, HostMetrics, Pid, Tree, Watcher, folder_use, host_use, listeners, network_speed, network_use, scrape,
    server_roots,
};
use storebench_results::WatchedProcess;
use storebench_study::workload::Phase;

use super::servers::Managed;
use disk::DiskIdle;
use elsewhere::EndpointSample;
use sums::{UseSample, UseSamples};

pub(super) use sums::{limits_felt, settled};

/// Sampling interval.
const EVERY_NS: u64 = 1_000_000_000;
/// Sampling takes at most one part in this many of the time. A folder with very many files is therefore sampled less
/// often.
const MOST_SHARE: u64 = 100;
/// How long the idle disk is observed before a phase that writes, and the minimum length of such a phase. The
/// observation is then negligible.
pub(super) const IDLE: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(10);
/// The memory of processes is walked at the first and the last sample, and every this many samples between.
const PSS_EVERY: u64 = 10;

/// Timeout of a metrics endpoint.
const TELLS_WITHIN: Duration = Duration::from_secs(1);

/// Whether a phase writes for so long that its disk's idle activity is sampled before it.
pub(super) fn writes_for_long(phase: &Phase, catalog: &Catalog) -> bool {
    if phase.loads() {
        let loaded = phase.load.iter().filter_map(|name| catalog.find(name)).map(|at| catalog.get(at).count());
        // As many as the fastest loads write in that time.
        return loaded.fold(0, u64::saturating_add) >= 3_000_000;
    }
    phase.duration.is_some_and(|span| span.0 >= LONG) && phase.operations_of_mix().any(|of| of.writes())
}

/// Where a store's processes and data are.
#[derive(Debug, Clone)]
pub(super) enum StoreProcesses {
    /// A server of this run. If a command of the study lets somebody else start it, the process that listens on this
    /// port.
    Managed(Managed, Option<u16>),
    /// The process that listens on this port of this machine.
    Port(u16),
    /// This process.
    Here,
    /// Its processes are unknown.
    Unknown,
}

/// Takes samples during a phase.
pub(super) struct Sampling {
    place: StoreProcesses,
    paths: Vec<PathBuf>,
    watcher: Watcher,
    last_tree: Option<Tree>,
    /// The disk that holds the first of the paths, once known.
    disk: Option<Device>,
    /// The processes found to listen.
    listening: Vec<Pid>,
    pub(super) taken: UseSamples,
}

impl Sampling {
    /// Samples the store at this place, with its data at these paths.
    ///
    /// `endpoints` are the URLs of metrics.
    pub(super) fn of(place: StoreProcesses, paths: Vec<PathBuf>, endpoints: &[String]) -> Self {
        let whose = match &place {
            StoreProcesses::Managed(..) | StoreProcesses::Port(_) => WatchedProcess::Server,
            StoreProcesses::Here => WatchedProcess::ClientAndStore,
            StoreProcesses::Unknown => WatchedProcess::Nobody,
        };
        let endpoints = endpoints.iter().map(|url| (url.clone(), 0, None)).collect();
        let taken = UseSamples { whose, network_per_s: network_speed(), endpoints, ..UseSamples::default() };
        let (watcher, listening) = (Watcher::default(), Vec::new());
        Self { place, paths, watcher, last_tree: None, disk: None, listening, taken }
    }

    /// Observes the disk for a while before a phase, while there are no requests. What it writes then is not caused by
    /// the phase.
    pub(super) fn look_at_idle_disk(&mut self, span: Duration) {
        if let StoreProcesses::Managed(server, port) = self.place.clone() {
            self.tree_of(&server, port);
        }
        self.find_disk();
        let written = |disk: Option<Device>| disk.and_then(|disk| disk.block_use().ok()).map(|used| used.write_bytes);
        let (began, Some(before)) = (Instant::now(), written(self.disk)) else { return };
        std::thread::sleep(span);
        let Some(after) = written(self.disk) else { return };
        let (span_ns, write_bytes) = (began.elapsed().as_nanos() as u64, after.saturating_sub(before));
        self.taken.idle = Some(DiskIdle { span_ns, write_bytes });
    }

    /// What the store has used since the first sample, as of the last one, if it is not this process.
    fn apart(&self) -> Option<StoreUse> {
        let used = self.taken.samples.last()?.store.filter(|_| self.taken.whose == WatchedProcess::Server)?;
        let before = self.taken.samples.iter().find_map(|sample| sample.store)?;
        Some(StoreUse { cpu_ns: used.cpu_ns.saturating_sub(before.cpu_ns), rss_bytes: used.rss_bytes })
    }

    /// Takes a sample, and tells those who observe the phase what the store uses.
    fn look_and_tell(&mut self, watch: &Watch, pss: bool) -> Duration {
        let took = self.look(watch.now_ns(), pss);
        if let Some(used) = self.apart() {
            watch.store_uses(used);
        }
        took
    }

    fn find_disk(&mut self) {
        if self.disk.is_none() {
            self.disk = self.paths.first().and_then(|path| Device::disk_of(path).ok());
            self.taken.disk = self.disk.and_then(Device::name);
        }
    }

    /// Takes a sample. Returns how long that took, without waiting for endpoints.
    fn look(&mut self, at_ns: u64, pss: bool) -> Duration {
        let began = Instant::now();
        let tree = match self.place.clone() {
            StoreProcesses::Managed(server, port) => self.tree_of(&server, port),
            StoreProcesses::Port(port) => self.listening_on(port),
            StoreProcesses::Here => Pid::own().map(|own| Tree::of(&[own])),
            StoreProcesses::Unknown => None,
        };
        let store = tree.map(|tree| self.watcher.look(&tree, pss));
        let folder = (!self.paths.is_empty()).then(|| folder_use(&self.paths));
        self.find_disk();
        let disk = self.disk.and_then(|disk| disk.block_use().ok());
        let (host, network) = (host_use(), network_use());
        let took = began.elapsed();
        let told = self.taken.endpoints.iter_mut().map(ask).collect();
        self.taken.samples.push(UseSample { at_ns, store, host, folder, disk, network, told });
        took
    }

    fn tree_of(&mut self, server: &Managed, port: Option<u16>) -> Option<Tree> {
        if let Some((tree, data)) = server.seen() {
            if let Some(data) = data
                && !self.paths.contains(&data)
            {
                self.paths.push(data);
            }
            let tree = if tree.pids().is_empty() { port.and_then(|port| self.listening_on(port)) } else { Some(tree) };
            // While nothing runs, use the processes that ran last.
            self.last_tree = tree.or(self.last_tree.take());
        }
        self.last_tree.clone()
    }

    /// Finding a listener means reading the open files of every process, so it is done once while the processes run.
    fn listening_on(&mut self, port: u16) -> Option<Tree> {
        if self.listening.is_empty() || self.listening.iter().any(|pid| !pid.runs()) {
            self.listening = server_roots(&listeners(port));
        }
        (!self.listening.is_empty()).then(|| Tree::of(&self.listening))
    }
}

/// The current metrics of an endpoint. Failures are counted.
fn ask((url, failed, message): &mut (String, u64, Option<String>)) -> EndpointSample {
    match scrape(url, TELLS_WITHIN) {
        Ok(samples) => Some(HostMetrics::of(&samples)),
        Err(why) => {
            *failed += 1;
            message.get_or_insert(why);
            None
        }
    }
}

impl Companion for Sampling {
    fn breaks(&self) -> bool {
        false
    }

    fn accompany(&mut self, watch: &Watch) {
        let cpu = thread_cpu_ns();
        let mut number = 0;
        loop {
            let now = watch.now_ns();
            let took = self.look_and_tell(watch, number % PSS_EVERY == 0);
            number += 1;
            let pause = EVERY_NS.max(took.as_nanos() as u64 * MOST_SHARE);
            if !watch.wait_until(now.saturating_add(pause)) {
                self.look_and_tell(watch, true);
                break;
            }
        }
        self.taken.cost_ns = thread_cpu_ns().saturating_sub(cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_listens_on_a_port_is_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut sampling = Sampling::of(StoreProcesses::Port(port), Vec::new(), &[]);
        sampling.look(0, false);
        assert!(sampling.taken.samples[0].store.unwrap().rss_bytes > 0);
        drop(listener);
        let mut nobody = Sampling::of(StoreProcesses::Port(port), Vec::new(), &[]);
        nobody.look(0, false);
        assert_eq!((nobody.taken.samples[0].store, nobody.taken.whose), (None, WatchedProcess::Server));
    }

    /// A server has run for some time when a phase begins.
    #[test]
    fn only_what_the_store_used_since_the_first_sample_is_told() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sampling = Sampling::of(StoreProcesses::Port(listener.local_addr().unwrap().port()), Vec::new(), &[]);
        assert_eq!(sampling.apart(), None);
        let use_processor = || {
            let begun = thread_cpu_ns();
            while thread_cpu_ns() - begun < 50_000_000 {}
        };
        use_processor();
        sampling.look(0, false);
        assert!(sampling.taken.samples[0].store.unwrap().cpu_ns > 0);
        assert_eq!(sampling.apart().unwrap().cpu_ns, 0);
        use_processor();
        sampling.look(1, false);
        let (first, last) = (sampling.taken.samples[0].store.unwrap(), sampling.taken.samples[1].store.unwrap());
        let told = sampling.apart().unwrap();
        assert!(told.cpu_ns > 0 && told.cpu_ns == last.cpu_ns - first.cpu_ns, "{told:?}");
        assert_eq!(told.rss_bytes, last.rss_bytes);
    }

    #[test]
    fn this_process_and_a_folder_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("data"), vec![7; 100_000]).unwrap();
        let mut sampling = Sampling::of(StoreProcesses::Here, vec![folder.path().to_owned()], &[]);
        sampling.look(0, true);
        sampling.look(5, true);
        let [first, last] = &sampling.taken.samples[..] else { panic!("two were taken") };
        let (before, after) = (first.store.unwrap(), last.store.unwrap());
        assert!(before.pss_bytes > 0 && after.user_ns + after.system_ns >= before.user_ns + before.system_ns);
        assert_eq!(last.folder.unwrap().files, 1);
        assert_eq!(sampling.taken.whose, WatchedProcess::ClientAndStore);
        let mut unknown = Sampling::of(StoreProcesses::Unknown, Vec::new(), &[]);
        unknown.look(0, true);
        assert_eq!((unknown.taken.samples[0].store, unknown.taken.samples[0].folder), (None, None));
    }

    #[test]
    fn endpoints_are_asked_and_those_that_do_not_answer_are_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = |path: &str| format!("http://{}{path}", listener.local_addr().unwrap());
        let mut sampling =
            Sampling::of(StoreProcesses::Unknown, Vec::new(), &[url("/metrics"), "http://127.0.0.1:1/x".to_owned()]);
        let answering = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let body = "process_cpu_seconds_total 1.5\n";
            let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            std::io::Write::write_all(&mut stream, (head + body).as_bytes()).unwrap();
        });
        sampling.look(0, false);
        answering.join().unwrap();
        let told = &sampling.taken.samples[0].told;
        assert_eq!((told[0].and_then(|of| of.process_cpu_s), told[1]), (Some(1.5), None));
        let (_, failed, message) = &sampling.taken.endpoints[1];
        assert!(*failed == 1 && message.as_ref().unwrap().contains("127.0.0.1:1"), "{message:?}");
    }
}
