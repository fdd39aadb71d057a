//! Rounds: each lets an owner commit, does one thing to the cluster, and compares a restored log.

use crate::cluster::{Node, State, copy_directory, lock};
use crate::ledger::Ledger;
use crate::node::{Job, archive, insist, options, take_over};
use crate::store::Target;
use logforce::{Guarantee, Log};
use logforce_archive::{Archive, RestoreOptions, RestoreTo};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// Time within which the cluster must have one owner that commits, once there are no faults.
const PATIENCE: Duration = Duration::from_secs(60);

/// Seconds by which clocks are ahead: right, set back by hours, years in the future, in 1970, before it.
const CLOCKS: [i64; 5] = [0, -3 * 3600, 20 * YEAR, -56 * YEAR, -60 * YEAR];
const YEAR: i64 = 365 * 24 * 3600;

/// Actions of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    KillAndRestart,
    KillInStart,
    KillBehindAHole,
    Takeover,
    FreezeAndTakeover,
    TwoStandbys,
    StandbyKilled,
    StoreStopped,
    DeposedReturns,
    DeposedReturnsAtOnce,
    OldCopyReturns,
    Prune,
    FollowAndTakeover,
    ClockJumps,
}

impl Action {
    pub const ALL: [Action; 14] = [
        Action::KillAndRestart,
        Action::KillInStart,
        Action::KillBehindAHole,
        Action::Takeover,
        Action::FreezeAndTakeover,
        Action::TwoStandbys,
        Action::StandbyKilled,
        Action::StoreStopped,
        Action::DeposedReturns,
        Action::DeposedReturnsAtOnce,
        Action::OldCopyReturns,
        Action::Prune,
        Action::FollowAndTakeover,
        Action::ClockJumps,
    ];

    /// First actions of seed 1: the planted bugs are found within them. See `main.rs`.
    const FIRST: [Action; 5] = [
        Action::KillBehindAHole,
        Action::FreezeAndTakeover,
        Action::DeposedReturnsAtOnce,
        Action::ClockJumps,
        Action::Prune,
    ];
}

/// Cluster, its store, and what is known of both.
pub struct Chaos {
    target: Target,
    archive: Archive,
    home: TempDir,
    random: fastrand::Rng,
    ledger: Arc<Mutex<Ledger>>,
    nodes: Vec<Node>,
    /// Directories of machines that were deposed.
    deposed: Vec<PathBuf>,
    /// Directory of the newest owner.
    owner: Option<(u64, PathBuf)>,
    next: u64,
    /// Actions that are still to come before one is repeated.
    actions: Vec<Action>,
    counts: BTreeMap<Action, u64>,
    restores: u64,
    /// Variables of the nodes.
    environment: Vec<(String, String)>,
    /// Seconds by which the clocks of new nodes are ahead.
    ahead: i64,
    /// Latest time up to which the archive was pruned.
    pruned: u64,
}

type Outcome<T> = Result<T, String>;

fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

impl Chaos {
    pub fn new(target: Target, seed: u64) -> Chaos {
        Chaos {
            archive: archive(&target.url(), &target.environment()),
            environment: target.environment(),
            target,
            home: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            random: fastrand::Rng::with_seed(seed),
            ledger: Arc::default(),
            nodes: Vec::new(),
            deposed: Vec::new(),
            owner: None,
            next: 0,
            actions: match seed {
                1 => Action::FIRST.into_iter().rev().collect(),
                _ => Vec::new(),
            },
            counts: BTreeMap::new(),
            restores: 0,
            ahead: 0,
            pruned: 0,
        }
    }

    /// Plants a bug in the nodes. This process restores without it.
    #[cfg(planted)]
    pub fn plant(&mut self, name: &str) {
        let variable = ("LOGFORCE_PLANTED".to_owned(), name.to_owned());
        self.environment.push(variable);
    }

    /// Runs a round. Returns a line about it, or the violation.
    pub fn round(&mut self) -> Outcome<String> {
        if self.actions.is_empty() {
            self.actions = Action::ALL.to_vec();
            self.random.shuffle(&mut self.actions);
        }
        let probability = [0.0, 0.005, 0.02][self.random.usize(..3)];
        self.target.keep_after(self.random.u32(1..=4));
        let acks = lock(&self.ledger).acks();
        self.work(20)?;
        self.target.set_faults(probability, self.random.u64(..));
        let action = self.actions.pop().unwrap_or(Action::Takeover);
        self.act(action)?;
        *self.counts.entry(action).or_default() += 1;
        if self.random.bool() {
            // While nodes write, and requests fail.
            self.compare()?;
        }
        self.target.set_faults(0.0, 0);
        self.settle()?;
        // Before the first acknowledgement there may be no archive yet: the probe deletes objects too.
        if let Some(kept) = self.target.kept()
            && !acks.is_empty()
        {
            // As if all machines had been lost between two deletions.
            let archive = archive(&kept.url(), &kept.environment());
            self.restored(&archive, RestoreTo::End, |ledger, log| {
                ledger.compare_acks(log, &acks).map(drop)
            })?;
        }
        self.compare()?;
        let ledger = lock(&self.ledger);
        Ok(format!(
            "{action:?}, faults {probability}, {} acknowledged, {} compared, {} requests failed",
            ledger.acknowledged,
            ledger.compared,
            self.target.faults()
        ))
    }

    /// Ends the nodes, and compares and verifies the archive. Returns a table.
    pub fn end(&mut self) -> Outcome<String> {
        self.nodes.clear();
        self.compare()?;
        let verified = self.archive.verify(None, &mut |_| {});
        let verified = verified.map_err(|error| format!("cannot verify: {error}"))?;
        if !verified.damage.is_empty() {
            return Err(format!("damage: {:?}", verified.damage));
        }
        let ledger = lock(&self.ledger);
        let mut table = String::from("| action | rounds |\n|---|---|\n");
        for (action, count) in &self.counts {
            table += &format!("| {action:?} | {count} |\n");
        }
        table += &format!(
            "\n{} acknowledged, {} compared in {} restores, {} nodes, {} requests failed; 0 lost\n",
            ledger.acknowledged,
            ledger.compared,
            self.restores,
            self.next,
            self.target.faults()
        );
        Ok(table)
    }

    fn act(&mut self, action: Action) -> Outcome<()> {
        match action {
            Action::KillAndRestart => {
                let directory = self.kill_owner()?;
                self.start(directory, false);
            }
            Action::KillInStart => {
                let directory = self.kill_owner()?;
                for _ in 0..3 {
                    self.start(directory.clone(), false);
                    pause(self.random.u64(..150));
                    self.nodes.pop();
                }
                self.start(directory, false);
            }
            Action::KillBehindAHole => {
                self.target.set_faults(0.0, 0);
                // The chunks that follow the stalled one lie behind a hole, where the standby puts its seal.
                self.target.stall_next();
                pause(self.random.u64(20..100));
                self.kill_owner()?;
                self.stand_by();
                self.await_start()?;
            }
            Action::Takeover => {
                self.stand_by();
                self.await_start()?;
            }
            Action::FreezeAndTakeover => {
                self.freeze_owner();
                self.stand_by();
                self.await_start()?;
                pause(self.random.u64(..100));
                for node in &mut self.nodes {
                    node.thaw();
                }
            }
            Action::TwoStandbys => {
                self.stand_by();
                pause(self.random.u64(..50));
                self.stand_by();
            }
            Action::StandbyKilled => {
                self.stand_by();
                pause(self.random.u64(30..300));
                self.nodes.pop();
                self.stand_by();
            }
            Action::StoreStopped => {
                self.target.stop();
                pause(self.random.u64(..300));
                self.target.start_again();
            }
            Action::DeposedReturns => self.deposed_returns()?,
            Action::DeposedReturnsAtOnce => self.deposed_returns_at_once()?,
            Action::OldCopyReturns => self.old_copy_returns()?,
            Action::Prune => self.prune()?,
            Action::FollowAndTakeover => self.follow_and_take_over()?,
            Action::ClockJumps => self.clock_jumps()?,
        }
        Ok(())
    }

    fn directory(&self, number: u64) -> PathBuf {
        self.home.path().join(format!("machine-{number}"))
    }

    fn start(&mut self, directory: PathBuf, is_standby: bool) {
        self.next += 1;
        let job = Job {
            directory,
            url: self.target.url(),
            number: self.next,
            is_standby,
            ahead: self.ahead,
        };
        let node = Node::start(job, &self.environment, &self.ledger);
        self.nodes.push(node);
    }

    fn stand_by(&mut self) {
        self.start(self.directory(self.next + 1), true);
    }

    fn newest(&self) -> Option<usize> {
        let alive = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.is_alive());
        alive.max_by_key(|(_, node)| node.epoch()).map(|(n, _)| n)
    }

    /// Kills the newest owner. Returns its directory.
    fn kill_owner(&mut self) -> Outcome<PathBuf> {
        let n = self.newest().ok_or("there is no owner")?;
        let node = self.nodes.swap_remove(n);
        Ok(node.directory().to_owned())
    }

    fn freeze_owner(&mut self) {
        if let Some(n) = self.newest() {
            self.nodes[n].freeze();
        }
    }

    /// Waits until the node that was started last writes, or has ended.
    fn await_start(&mut self) -> Outcome<State> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            lock(&self.ledger).result()?;
            match self.nodes.last().map(Node::state) {
                Some(State::Starting | State::Took) => pause(5),
                Some(state) => return Ok(state),
                None => return Ok(State::Gone),
            }
        }
        Err("a node did not start".to_owned())
    }

    /// Starts a machine that must not become the owner again.
    fn must_be_refused(&mut self, directory: PathBuf) -> Outcome<()> {
        self.start(directory, false);
        let state = self.await_start()?;
        let node = self.nodes.pop();
        match state {
            State::Ended(why) if why.starts_with("deposed") || why.starts_with("refused") => Ok(()),
            state => Err(format!(
                "node {:?} was deposed or old, and is {state:?}",
                node.map(|node| node.job.number)
            )),
        }
    }

    fn deposed_returns(&mut self) -> Outcome<()> {
        match self.deposed.pop() {
            Some(directory) => self.must_be_refused(directory),
            None => {
                self.stand_by();
                self.await_start().map(drop)
            }
        }
    }

    /// Takes the archive over, and starts the owner before its successor writes. Its log contains the chain.
    fn deposed_returns_at_once(&mut self) -> Outcome<()> {
        let deposed = self.kill_owner()?;
        let successor = self.directory(self.next + 1);
        let take = || take_over(&self.archive, &successor, "successor");
        let (epoch, end) = insist(take).map_err(|error| format!("cannot take over: {error}"))?;
        lock(&self.ledger).took(epoch, end.0);
        self.must_be_refused(deposed)?;
        self.start(successor, false);
        self.await_start().map(drop)
    }

    fn old_copy_returns(&mut self) -> Outcome<()> {
        let directory = self.kill_owner()?;
        let copy = self.home.path().join(format!("copy-{}", self.next));
        copy_directory(&directory, &copy);
        self.start(directory.clone(), false);
        self.work(5)?;
        self.kill_owner()?;
        self.must_be_refused(copy)?;
        self.start(directory, false);
        Ok(())
    }

    /// Returns a time of the last seconds, by the clock of the newest node: Unix time in ns.
    fn recent(&mut self) -> u64 {
        let ahead = i128::from(self.ahead) * 1_000_000_000;
        let since = SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |since| since.as_nanos());
        let ago = i128::from(self.random.u64(..4_000)) * 1_000_000;
        u64::try_from(since as i128 + ahead - ago).unwrap_or_default()
    }

    fn prune(&mut self) -> Outcome<()> {
        let before = self.recent();
        self.pruned = self.pruned.max(before);
        let pruned = self.archive.prune(before, false);
        pruned.map_err(|error| format!("cannot prune: {error}"))?;
        self.work(5)
    }

    /// Sets the owner's clock twice, and takes over on a machine with a third clock.
    fn clock_jumps(&mut self) -> Outcome<()> {
        for _ in 0..2 {
            self.ahead = CLOCKS[self.random.usize(..CLOCKS.len())];
            if let Some(n) = self.newest() {
                self.nodes[n].set_clock(self.ahead);
            }
            self.work(5)?;
        }
        self.compare_to_a_time()?;
        self.ahead = CLOCKS[self.random.usize(..CLOCKS.len())];
        self.stand_by();
        self.await_start().map(drop)
    }

    fn follow_and_take_over(&mut self) -> Outcome<()> {
        let directory = self.directory(self.next + 1);
        let until = Instant::now() + Duration::from_millis(self.random.u64(..600));
        let stop = || Instant::now() >= until;
        let followed = self
            .archive
            .follow(&directory, Guarantee::ProcessCrash, &stop, &mut |_| {});
        followed.map_err(|error| format!("cannot follow: {error}"))?;
        self.stand_by();
        self.await_start().map(drop)
    }

    /// Waits until an owner has had `count` further commits acknowledged.
    fn work(&mut self, count: u64) -> Outcome<()> {
        let until = Instant::now() + PATIENCE;
        let mut before = None;
        while Instant::now() < until {
            self.reap()?;
            match self.newest() {
                None => self.restart_or_take_over()?,
                Some(n) => {
                    let node = &self.nodes[n];
                    let (number, acks) = (node.job.number, node.acks());
                    match before {
                        Some((of, first)) if of == number => {
                            if acks >= first + count {
                                return Ok(());
                            }
                        }
                        _ => before = Some((number, acks)),
                    }
                    pause(2);
                }
            }
        }
        Err(format!("no progress: {:?}", self.states()))
    }

    fn states(&self) -> Vec<(u64, State, u64)> {
        let state = |node: &Node| (node.job.number, node.state(), node.acks());
        self.nodes.iter().map(state).collect()
    }

    /// Waits until one owner is left, and that one commits.
    fn settle(&mut self) -> Outcome<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.work(10)?;
            let alive = self.nodes.iter().filter(|node| node.is_alive()).count();
            if alive == 1 {
                break;
            }
            if Instant::now() > until {
                return Err(format!("more than one left: {:?}", self.states()));
            }
            pause(10);
        }
        if let Some(front) = lock(&self.ledger).allow_truncation()
            && let Some(n) = self.newest()
            && self.random.u8(..4) > 0
        {
            self.nodes[n].truncate(front);
        }
        Ok(())
    }

    /// Removes nodes that have ended, and notes who owned last.
    fn reap(&mut self) -> Outcome<()> {
        lock(&self.ledger).result()?;
        for node in &self.nodes {
            let (epoch, state) = (node.epoch(), node.state());
            let is_newest = self
                .owner
                .as_ref()
                .is_none_or(|(newest, _)| *newest < epoch);
            if epoch > 0 && is_newest {
                self.owner = Some((epoch, node.directory().to_owned()));
            }
            match state {
                State::Ended(why) if why.starts_with("deposed") => {
                    self.deposed.push(node.directory().to_owned());
                }
                State::Ended(why) => return Err(format!("node {}: {why}", node.job.number)),
                State::Gone => return Err(format!("node {} has crashed", node.job.number)),
                _ => {}
            }
        }
        self.nodes.retain(Node::is_alive);
        while self.deposed.len() > 2 {
            let _ = std::fs::remove_dir_all(self.deposed.remove(0));
        }
        Ok(())
    }

    /// Starts the machine that owned last, unless it was deposed since; then another one takes over.
    fn restart_or_take_over(&mut self) -> Outcome<()> {
        let last = self.owner.as_ref().map(|(_, directory)| directory.clone());
        match last {
            None => self.start(self.directory(1), false),
            Some(directory) if !self.deposed.contains(&directory) => self.start(directory, false),
            Some(_) => self.stand_by(),
        }
        self.await_start().map(drop)
    }

    /// Restores the log, and compares it with what was acknowledged before.
    fn compare(&mut self) -> Outcome<()> {
        let acks = lock(&self.ledger).acks();
        let archive = self.archive.clone();
        self.restored(&archive, RestoreTo::End, |ledger, log| {
            ledger.compare(log, &acks)
        })
    }

    /// Restores the log to a time of the last seconds, and checks that it has nothing later.
    fn compare_to_a_time(&mut self) -> Outcome<()> {
        let time = self.recent();
        let archive = self.archive.clone();
        let compared = self.restored(&archive, RestoreTo::Time(time), |ledger, log| {
            ledger.compare_to_a_time(log, time)
        });
        match compared {
            // The oldest chunk may be later already.
            Err(why) if why.contains("nothing that is older") => Ok(()),
            // The log then began below what is left.
            Err(why) if time < self.pruned && why.contains("Choose a later end") => Ok(()),
            compared => compared,
        }
    }

    fn restored(
        &mut self,
        archive: &Archive,
        to: RestoreTo,
        compare: impl FnOnce(&mut Ledger, &Log) -> Outcome<()>,
    ) -> Outcome<()> {
        let copy = self.home.path().join("restored");
        let to_restore = RestoreOptions::new().require(Guarantee::ProcessCrash);
        let restored = archive.restore(&copy, &to_restore.to(to), &mut |_| {});
        restored.map_err(|error| format!("cannot restore: {error}"))?;
        let log = logforce::open_existing(&copy, options()).map_err(|error| error.to_string())?;
        compare(&mut lock(&self.ledger), &log)?;
        drop(log);
        self.restores += 1;
        std::fs::remove_dir_all(&copy).map_err(|error| error.to_string())?;
        lock(&self.ledger).result()
    }
}
