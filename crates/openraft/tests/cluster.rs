//! Three nodes in three processes over TCP. The leader is killed while clients write, then all three at once. All
//! that was acknowledged must be there.

#![cfg(target_os = "linux")]

#[path = "../examples/node/main.rs"]
#[allow(dead_code, reason = "its `main` reads arguments")]
mod node;

use logforce::{Guarantee, Options};
use logforce_testkit::process::{Start, same_test};
use node::machine::Set;
use node::network::Request;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Number, directory and address of a node, in its process.
const NODE: &str = "LOGFORCE_CLUSTER_NODE";
/// Maximum time until a cluster works again. Only a failure takes as long.
const PATIENCE: Duration = Duration::from_secs(120);
const CLIENTS: u64 = 4;

fn options() -> Options {
    Options::new()
        .create(true)
        .calibrate(false)
        .segment_size(256 << 10)
        .require(Guarantee::ProcessCrash)
}

/// Nodes of a cluster, which end with it.
struct Cluster {
    test: &'static str,
    dir: TempDir,
    addresses: BTreeMap<u64, String>,
    running: BTreeMap<u64, Child>,
}

impl Cluster {
    #[track_caller]
    fn start(test: &'static str) -> Cluster {
        // An address of this process alone: 127.0.0.0/8 is the loopback interface.
        let [_, _, a, b] = std::process::id().to_be_bytes();
        let address = |id: u64| (id, format!("127.{a}.{b}.{id}:7117"));
        let mut cluster = Cluster {
            test,
            dir: TempDir::new().unwrap(),
            addresses: (1..=3).map(address).collect(),
            running: BTreeMap::new(),
        };
        for id in 1..=3 {
            cluster.start_node(id);
        }
        cluster
    }

    #[track_caller]
    fn start_node(&mut self, id: u64) {
        let dir = self.dir.path().join(id.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        let node = format!("{id} {} {}", self.addresses[&id], dir.display());
        let mut command = Command::new(std::env::current_exe().unwrap());
        same_test(&mut command, self.test, NODE, node);
        let child = command.stdout(Stdio::null()).start().unwrap();
        self.running.insert(id, child);
    }

    fn kill(&mut self, id: u64) {
        let mut child = self.running.remove(&id).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Repeats a request, at all nodes in turn, until one answers it. Returns the answer and the node.
    async fn ask(&self, request: impl Fn() -> Request) -> (Option<String>, u64) {
        let begun = Instant::now();
        loop {
            for (id, address) in &self.addresses {
                if let Ok(answer) = attempt(address, request()).await {
                    return (answer, *id);
                }
            }
            assert!(begun.elapsed() < PATIENCE, "no node answers");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for id in self.running.keys().copied().collect::<Vec<_>>() {
            self.kill(id);
        }
    }
}

/// Makes a request of a node that may be frozen or gone.
async fn attempt(address: &str, request: Request) -> std::io::Result<Option<String>> {
    let asked = tokio::time::timeout(Duration::from_secs(2), node::done(address, request));
    asked.await.map_err(std::io::Error::from)?
}

/// Writes numbered keys until `stop` is set. Each is repeated until it is acknowledged; the highest
/// acknowledged one is in `acknowledged`.
async fn write(
    client: u64,
    nodes: Vec<String>,
    stop: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
) {
    let mut at = 0;
    for number in 1.. {
        loop {
            if stop.load(Relaxed) > 0 {
                return;
            }
            let (key, value) = (format!("{client}/{number}"), format!("value {number}"));
            match attempt(&nodes[at], Request::Set(Set { key, value })).await {
                Ok(_) => break,
                Err(_) => {
                    at = (at + 1) % nodes.len();
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
        acknowledged.store(number, Relaxed);
    }
}

async fn until(mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < PATIENCE, "the clients do not go on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[track_caller]
fn nodes_are_killed(test: &'static str, kills: u64, writes: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
    if let Ok(node) = std::env::var(NODE) {
        let mut parts = node.splitn(3, ' ');
        let id = parts.next().unwrap().parse().unwrap();
        let (address, dir) = (parts.next().unwrap(), parts.next().unwrap());
        let served = node::serve(id, Path::new(dir), address, options());
        panic!("{:?}", runtime.block_on(served));
    }
    let mut cluster = Cluster::start(test);
    runtime.block_on(run(&mut cluster, kills, writes));
}

async fn run(cluster: &mut Cluster, kills: u64, writes: u64) {
    let first = cluster.addresses[&1].clone();
    let begun = Instant::now();
    while let Err(e) = node::initialize(&first, &cluster.addresses).await {
        assert!(begun.elapsed() < PATIENCE, "{e}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let stop = Arc::new(AtomicU64::new(0));
    let nodes: Vec<String> = cluster.addresses.values().cloned().collect();
    let counters: Vec<Arc<AtomicU64>> = (0..CLIENTS).map(|_| Arc::default()).collect();
    let clients: Vec<_> = (0..)
        .zip(&counters)
        .map(|(n, counter)| tokio::spawn(write(n, nodes.clone(), stop.clone(), counter.clone())))
        .collect();
    let count = || counters.iter().map(|c| c.load(Relaxed)).sum::<u64>();
    for number in 0..kills {
        let before = count();
        until(|| count() >= before + writes).await;
        if number % 2 == 1 {
            // All at once: what is left then lies in the stores.
            (1..=3).for_each(|id| cluster.kill(id));
            (1..=3).for_each(|id| cluster.start_node(id));
            continue;
        }
        // The node that answers a linearizable read is the leader.
        let (_, leader) = cluster.ask(|| Request::Get(String::new())).await;
        cluster.kill(leader);
        let before = count();
        until(|| count() >= before + writes).await;
        cluster.start_node(leader);
    }
    stop.store(1, Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    for (client, counter) in (0..).zip(&counters) {
        let last = counter.load(Relaxed);
        assert!(last > 0, "client {client} wrote nothing");
        for number in 1..=last {
            let key = || Request::Get(format!("{client}/{number}"));
            let (value, _) = cluster.ask(key).await;
            assert_eq!(value, Some(format!("value {number}")), "{client}/{number}");
        }
    }
}

#[test]
fn killed_nodes_lose_nothing_acknowledged() {
    nodes_are_killed("killed_nodes_lose_nothing_acknowledged", 2, 100);
}

#[test]
#[ignore = "deep: many kills"]
fn many_killed_nodes_lose_nothing_acknowledged() {
    nodes_are_killed("many_killed_nodes_lose_nothing_acknowledged", 40, 500);
}
