//! Nodes from outside: started, killed, frozen, and heard through a pipe.

use crate::content::Id;
use crate::ledger::{Ack, Ledger};
use crate::node::Job;
use logforce::Lsn;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// State of a node, as it has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Starting,
    /// It has claimed the archive, and does not write yet.
    Took,
    Owner,
    /// It ended, for this reason.
    Ended(String),
    /// It ended without a word: it was killed.
    Gone,
}

#[derive(Debug)]
struct Heard {
    state: State,
    epoch: u64,
    acks: u64,
}

/// Running node. It is killed with this value.
pub struct Node {
    child: Child,
    pub job: Job,
    heard: Arc<Mutex<Heard>>,
    reader: Option<JoinHandle<()>>,
    pub is_frozen: bool,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    pub fn start(job: Job, environment: &[(String, String)], ledger: &Arc<Mutex<Ledger>>) -> Node {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["node", "--exact", "--nocapture", "--test-threads=1"])
            .envs(environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        job.put_into(&mut command);
        let mut child = command.spawn().unwrap();
        let heard = Arc::new(Mutex::new(Heard {
            state: State::Starting,
            epoch: 0,
            acks: 0,
        }));
        let output = BufReader::new(child.stdout.take().unwrap());
        let (hearing, ledger) = (heard.clone(), ledger.clone());
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The framework of the tests writes as well.
                if let Some((_, line)) = line.split_once('@') {
                    hear(line, &hearing, &ledger);
                }
            }
            let mut heard = lock(&hearing);
            if !matches!(heard.state, State::Ended(_)) {
                heard.state = State::Gone;
            }
        });
        Node {
            child,
            job,
            heard,
            reader: Some(reader),
            is_frozen: false,
        }
    }

    pub fn state(&self) -> State {
        lock(&self.heard).state.clone()
    }

    pub fn epoch(&self) -> u64 {
        lock(&self.heard).epoch
    }

    pub fn acks(&self) -> u64 {
        lock(&self.heard).acks
    }

    pub fn is_alive(&self) -> bool {
        !matches!(self.state(), State::Ended(_) | State::Gone)
    }

    pub fn directory(&self) -> &Path {
        &self.job.directory
    }

    pub fn truncate(&mut self, front: Lsn) {
        self.command(&format!("front {}", front.0));
    }

    pub fn set_clock(&mut self, ahead: i64) {
        self.command(&format!("ahead {ahead}"));
    }

    fn command(&mut self, line: &str) {
        if let Some(input) = &mut self.child.stdin {
            let _ = writeln!(input, "{line}");
        }
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    pub fn freeze(&mut self) {
        self.signal(Signal::STOP);
        self.is_frozen = true;
    }

    pub fn thaw(&mut self) {
        self.signal(Signal::CONT);
        self.is_frozen = false;
    }

    /// Kills the node, and hears what it has said before.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

fn hear(line: &str, heard: &Mutex<Heard>, ledger: &Mutex<Ledger>) {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let numbers: Vec<u64> = rest.split(' ').map_while(|n| n.parse().ok()).collect();
    match (verb, &numbers[..]) {
        ("ack", [epoch, start, end, began]) => {
            let id = rest.rsplit(' ').next().and_then(Id::parse).unwrap();
            let (epoch, end, began) = (*epoch, *end, *began);
            let ack = Ack {
                epoch,
                end,
                began,
                id,
            };
            lock(ledger).acked(*start, ack);
            lock(heard).acks += 1;
        }
        ("took", [epoch, first]) => {
            lock(ledger).took(*epoch, *first);
            let mut heard = lock(heard);
            (heard.state, heard.epoch) = (State::Took, *epoch);
        }
        ("owner", [epoch]) => {
            let mut heard = lock(heard);
            (heard.state, heard.epoch) = (State::Owner, *epoch);
        }
        ("ended", _) => lock(heard).state = State::Ended(rest.to_owned()),
        _ => panic!("a node said {line:?}"),
    }
}

/// Copies the directory of a machine that does not run.
pub fn copy_directory(from: &Path, to: &PathBuf) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
