//! Power cuts of a recorded run, and the states that they may leave.
//!
//! The changes that are not durable at a cut form *chains*: those of one piece of a file, the lengths of a file, the
//! steps of a directory. A cut loses the end of a chain, of any length.

use super::history::{Body, Change, History, Ino, Kind, Op, ROOT, Tick};
use crate::explain::MarkKind;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Changes that survive in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Chain {
    /// One piece of a file.
    Data(Ino, u64),
    /// The length of a file.
    Length(Ino),
    /// The names in a directory.
    Names(Ino),
}

/// A lost change: later ones of its chain are lost too.
pub(super) type Lost = (Chain, usize);

/// A power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) at: Tick,
    /// Size of the pieces that survive as a whole.
    pub(super) grain: u64,
    pub(super) seed: u64,
}

impl Chain {
    pub(super) fn ino(self) -> Ino {
        match self {
            Chain::Data(ino, _) | Chain::Length(ino) | Chain::Names(ino) => ino,
        }
    }

    /// Returns random choices that do not depend on other chains: with one more sync all else is lost as before.
    fn choices(self, seed: u64) -> fastrand::Rng {
        choices(&self, seed)
    }
}

fn choices(of: &impl Hash, seed: u64) -> fastrand::Rng {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    fastrand::Rng::with_seed(seed ^ hasher.finish())
}

impl Cut {
    /// Chooses a cut: mostly after an acknowledgement, often in the very moment.
    pub(super) fn choose(history: &History, seed: u64) -> Cut {
        let mut rng = fastrand::Rng::with_seed(seed);
        let acks: Vec<Tick> = history.acks().collect();
        let (first, end) = (acks.first().copied().unwrap_or(0), history.now());
        let at = match rng.u8(..16) {
            0 => rng.usize(0..=first),
            1..8 => rng.usize(first..=end),
            _ => rng.choice(&acks).copied().unwrap_or(end),
        };
        Cut {
            at,
            grain: rng.choice([512, 4096]).unwrap_or(512),
            seed: rng.u64(..),
        }
    }

    /// Returns the changes that are not durable, by chain. `syncs` has the moment of each change's sync.
    pub(super) fn pending(&self, history: &History, syncs: &[Tick]) -> BTreeMap<Chain, Vec<usize>> {
        let mut pending = BTreeMap::<Chain, Vec<usize>>::new();
        for (number, op) in self.ops(history) {
            let is_durable = syncs[number] <= self.at;
            for chain in self.chains(op) {
                match is_durable {
                    true => drop(pending.remove(&chain)),
                    false => pending.entry(chain).or_default().push(number),
                }
            }
        }
        pending
    }

    fn ops<'a>(&self, history: &'a History) -> impl Iterator<Item = (usize, &'a Op)> + use<'a> {
        let at = self.at;
        let ops = history.ops.iter().enumerate();
        ops.take_while(move |(_, op)| op.at <= at)
    }

    fn chains(&self, op: &Op) -> Vec<Chain> {
        match &op.change {
            Change::Data(offset, bytes) => {
                let pieces =
                    offset / self.grain..(offset + bytes.len() as u64).div_ceil(self.grain);
                pieces.map(|piece| Chain::Data(op.ino, piece)).collect()
            }
            Change::Length { .. } => vec![Chain::Length(op.ino)],
            Change::Names(..) => vec![Chain::Names(op.ino)],
        }
    }

    /// Returns the range of a file that a change has in a piece.
    pub(super) fn range(&self, chain: Chain, op: &Op) -> Range<u64> {
        match (chain, &op.change) {
            (Chain::Data(_, piece), Change::Data(offset, bytes)) => {
                let start = piece * self.grain;
                start.max(*offset)..(start + self.grain).min(offset + bytes.len() as u64)
            }
            _ => 0..0,
        }
    }

    /// Chooses what is lost: everything, one thing alone, or a random part of each.
    pub(super) fn lose(&self, pending: &BTreeMap<Chain, Vec<usize>>) -> Vec<Lost> {
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let (kind, kept) = (rng.u8(..8), rng.choice([0, 10, 50, 90]).unwrap_or(0));
        let inodes = pending.keys().map(|chain| chain.ino());
        let alone = inodes.min_by_key(|ino| choices(ino, self.seed).u64(..));
        let mut lost = Vec::new();
        for (chain, ops) in pending {
            let mut rng = chain.choices(self.seed);
            let survive = match (kind, chain) {
                (0, _) => 0,
                (1..4, _) if Some(chain.ino()) != alone => ops.len(),
                (1..4, _) => 0,
                (_, Chain::Names(_)) => rng.usize(0..=ops.len()),
                _ if rng.u8(..100) < kept => ops.len(),
                _ => rng.usize(0..ops.len()),
            };
            lost.extend(ops[survive..].iter().map(|op| (*chain, *op)));
        }
        lost
    }

    /// Returns the files as the cut leaves them, and the name of each directory: the latest of those that survive.
    fn left(&self, history: &History, lost: &[Lost]) -> (Vec<Body>, HashMap<Ino, (Ino, OsString)>) {
        let mut first = HashMap::<Chain, usize>::new();
        for (chain, op) in lost {
            let known = first.entry(*chain).or_insert(*op);
            *known = (*known).min(*op);
        }
        let is_lost = |chain, op| first.get(&chain).is_some_and(|first| *first <= op);
        let mut bodies: Vec<Body> = history.inodes.iter().map(|i| i.before.clone()).collect();
        let mut named = HashMap::new();
        for (dir, body) in bodies.iter().enumerate() {
            let names = body.names.iter();
            named.extend(names.map(|(name, ino)| (*ino, (dir, name.clone()))));
        }
        // Files whose last truncation is lost: later data went to blocks that they do not have.
        let mut untruncated = HashSet::new();
        for (number, op) in self.ops(history) {
            let body = &mut bodies[op.ino];
            match &op.change {
                Change::Data(offset, bytes) if !untruncated.contains(&op.ino) => {
                    for chain in self.chains(op) {
                        if !is_lost(chain, number) {
                            let range = self.range(chain, op);
                            let part =
                                (range.start - offset) as usize..(range.end - offset) as usize;
                            body.content.put(range.start, &bytes[part]);
                        }
                    }
                }
                Change::Length { len, before } => match is_lost(Chain::Length(op.ino), number) {
                    false => body.content.set_len(*len),
                    true if len < before => drop(untruncated.insert(op.ino)),
                    true => {}
                },
                Change::Names(names, _) if !is_lost(Chain::Names(op.ino), number) => {
                    for (name, ino) in names {
                        match ino {
                            Some(ino) => {
                                named.insert(*ino, (op.ino, name.clone()));
                                body.names.insert(name.clone(), *ino);
                            }
                            None => drop(body.names.remove(name)),
                        }
                    }
                }
                _ => {}
            }
        }
        for body in &mut bodies {
            body.content.trim(body.content.len);
        }
        (bodies, named)
    }

    /// Writes the state without what is lost into a directory that exists and is empty.
    pub(super) fn write(&self, history: &History, lost: &[Lost], dir: &Path) -> Result<()> {
        let (bodies, named) = self.left(history, lost);
        let mut written = HashMap::<Ino, PathBuf>::new();
        let mut todo = vec![(ROOT, dir.to_owned())];
        while let Some((dir, path)) = todo.pop() {
            for (name, ino) in &bodies[dir].names {
                let (path, inode) = (path.join(name), &history.inodes[*ino]);
                let failed = || path.display().to_string();
                match (&inode.kind, written.get(ino)) {
                    (Kind::Directory, _) => {
                        if named.get(ino) == Some(&(dir, name.clone())) {
                            fs::create_dir(&path).with_context(failed)?;
                            todo.push((*ino, path.clone()));
                        }
                        continue;
                    }
                    (_, Some(first)) => fs::hard_link(first, &path).with_context(failed)?,
                    (Kind::Link(target), None) => {
                        symlink(OsString::from_vec(target.clone()), &path).with_context(failed)?;
                    }
                    (Kind::File, None) => {
                        let file = File::create_new(&path).with_context(failed)?;
                        bodies[*ino].content.write(&file).with_context(failed)?;
                        file.set_permissions(Permissions::from_mode(inode.mode))?;
                    }
                }
                written.insert(*ino, path);
            }
        }
        Ok(())
    }

    /// Returns the time of the cut.
    pub(super) fn time(&self, history: &History) -> u64 {
        time(history, self.at)
    }
}

/// Returns the time of an event in microseconds.
pub(super) fn time(history: &History, at: Tick) -> u64 {
    let event = history.events.get(at.saturating_sub(1));
    event.map_or(0, |(time, _): &(u64, MarkKind)| *time)
}
