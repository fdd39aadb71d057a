//! Starts of a node as the README has them: a lost log is refused, and a node that was killed in its first start is
//! initialized by a later one.

#[path = "../examples/node/machine.rs"]
#[allow(dead_code, reason = "used by the example")]
mod machine;

use logforce::Guarantee;
use logforce_openraft::v09::LogStore;
use logforce_testkit::process::{Start, same_test};
use machine::{StateMachine, TypeConfig as Types};
use openraft::error::{InstallSnapshotError, RPCError, RaftError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, Config, Raft, RaftNetworkFactory, storage::RaftStateMachine};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{collections::BTreeMap, error::Error, sync::Arc};
use tempfile::TempDir;

/// Number of the node, and whether it is new, in its process.
const NODE: &str = "LOGFORCE_START_NODE";

/// Options that accept the disks of the tests. The README begins with those of the log.
struct Options;

impl Options {
    #[allow(clippy::new_ret_no_self, reason = "the README's call")]
    fn new() -> logforce::Options {
        logforce::Options::new()
            .calibrate(false)
            .segment_size(256 << 10)
            .require(Guarantee::ProcessCrash)
    }
}

async fn start<N, M>(
    id: u64,
    is_new: bool,
    network: N,
    machine: M,
) -> Result<Raft<Types>, Box<dyn Error>>
where
    N: RaftNetworkFactory<Types>,
    M: RaftStateMachine<Types>,
{
    let log = LogStore::open("raft-log", Options::new().create_new(is_new)).await?;
    let config = Arc::new(Config::default().validate()?);
    let raft = Raft::new(id, config, network, log, machine).await?;
    if id == 1 && !raft.is_initialized().await? {
        let node = |id| (id, BasicNode::new(format!("10.0.0.{id}:7000")));
        raft.initialize(BTreeMap::from([1, 2, 3].map(node))).await?;
    }
    Ok(raft)
}

/// Network without other nodes.
struct Alone;

fn gone<E: Error>() -> RPCError<u64, BasicNode, RaftError<u64, E>> {
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    RPCError::Unreachable(Unreachable::new(&refused))
}

impl RaftNetworkFactory<Types> for Alone {
    type Network = Alone;

    async fn new_client(&mut self, _: u64, _: &BasicNode) -> Alone {
        Alone
    }
}

impl RaftNetwork<Types> for Alone {
    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        Err(gone())
    }

    async fn install_snapshot(
        &mut self,
        _: InstallSnapshotRequest<Types>,
        _: RPCOption,
    ) -> Result<
        InstallSnapshotResponse<u64>,
        RPCError<u64, BasicNode, RaftError<u64, InstallSnapshotError>>,
    > {
        Err(gone())
    }

    async fn vote(
        &mut self,
        _: VoteRequest<u64>,
        _: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        Err(gone())
    }
}

/// Runs in the process of the node, until it is killed: reports the members, or the error of the start.
async fn serve(node: &str) {
    let (id, age) = node.split_once(' ').unwrap();
    let machine = StateMachine::open(".").unwrap();
    let started = start(id.parse().unwrap(), age == "new", Alone, machine).await;
    let line = match &started {
        Ok(raft) => {
            let members = raft.with_raft_state(|state| {
                let voters = state.membership_state.effective().voter_ids();
                voters.collect::<Vec<u64>>()
            });
            format!("{:?}", members.await.unwrap())
        }
        Err(error) => error.to_string(),
    };
    let mut out = std::io::stdout();
    out.write_all(format!("@{line}\n").as_bytes()).unwrap();
    if started.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// Runs the node if this is its process.
fn is_node() -> bool {
    let Ok(node) = std::env::var(NODE) else {
        return false;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(serve(&node));
    true
}

#[track_caller]
fn node(test: &str, dir: &Path, node: &str) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    same_test(&mut command, test, NODE, node);
    command.current_dir(dir).stdout(Stdio::piped());
    let mut child = command.start().unwrap();
    let out = child.stdout.take().unwrap();
    (child, BufReader::new(out))
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Starts a node, kills it when it has started, and returns its members or its error.
#[track_caller]
fn started(test: &str, dir: &Path, of: &str) -> String {
    let (child, out) = node(test, dir, of);
    let line = { out }.lines().find_map(|line| {
        let line = line.unwrap();
        // The harness of the test prints lines, too.
        line.split_once('@').map(|(_, line)| line.to_owned())
    });
    kill(child);
    line.unwrap()
}

#[test]
fn the_readme_has_this_start() {
    let [test, readme] = [include_str!("start.rs"), include_str!("../README.md")]
        .map(|text| text.replace("\r\n", "\n"));
    let start = test.find("async fn start").unwrap();
    let len = test[start..].find("\n}\n").unwrap();
    assert!(readme.contains(&test[start..start + len]));
}

#[test]
fn a_lost_log_is_refused() {
    if is_node() {
        return;
    }
    let test = "a_lost_log_is_refused";
    let dir = TempDir::new().unwrap();
    assert_eq!(started(test, dir.path(), "1 new"), "[1, 2, 3]");
    assert_eq!(started(test, dir.path(), "1 old"), "[1, 2, 3]");
    // The argument was left in a unit file.
    let refused = started(test, dir.path(), "1 new");
    assert!(refused.contains("holds a log already"), "{refused}");
    std::fs::remove_dir_all(dir.path().join("raft-log")).unwrap();
    let refused = started(test, dir.path(), "1 old");
    assert!(refused.contains("raft-log holds no log"), "{refused}");
    assert!(!dir.path().join("raft-log").exists());
}

#[test]
fn a_node_killed_in_its_first_start_is_initialized() {
    if is_node() {
        return;
    }
    let test = "a_node_killed_in_its_first_start_is_initialized";
    let dir = TempDir::new().unwrap();
    // The log of another node is that of node 1 before `initialize`.
    assert_eq!(started(test, dir.path(), "2 new"), "[]");
    assert_eq!(started(test, dir.path(), "1 old"), "[1, 2, 3]");
    for round in 0..20 {
        let dir = TempDir::new().unwrap();
        // The process ends early if its output is closed.
        let (child, _out) = node(test, dir.path(), "1 new");
        std::thread::sleep(Duration::from_micros(fastrand::u64(..30_000)));
        kill(child);
        let mut line = started(test, dir.path(), "1 old");
        if line.contains("holds no log") {
            line = started(test, dir.path(), "1 new");
        }
        assert_eq!(line, "[1, 2, 3]", "round {round}");
    }
}
