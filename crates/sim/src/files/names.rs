//! Names in the file's directory: what they may lead to after each call.

use super::coverage::Coverage;
use super::setup::DIR;
use super::workload::Reasons;
use logforce_commit::file::{
    Error, ErrorKind, create_durably, rename_durably, replace_durably, sync_parent,
};
use logforce_device::{AlignedBuf, Directory, OpenFile, System, Write};
use logforce_testkit::{Rng, SimDisk};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Number of names.
const NAMES: u64 = 4;
/// Name of a file that is written and not synced, before it is renamed.
const RAW: &str = "raw";

/// Contents of a named file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Contents {
    /// These bytes, as a whole.
    Whole(Vec<u8>),
    /// Any bytes: the file's creation has failed.
    Any,
}

/// Contents of all names at one moment.
type State = BTreeMap<String, Contents>;

/// States that a crash may leave: one, unless a call has failed or was interrupted.
#[derive(Debug, Default)]
pub struct Names {
    states: Vec<State>,
    next: u64,
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn is_ours(name: &str) -> bool {
    name.len() == 2 && name.starts_with('n')
}

/// Writes a new file without a sync.
fn write_unsynced(dir: &dyn Directory, name: &str, bytes: &[u8]) -> io::Result<()> {
    match dir.remove(name) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = dir.open(name, OpenFile::CREATE)?;
    let mut buf = AlignedBuf::zeroed(bytes.len(), 4096);
    buf.copy_from_slice(bytes);
    let ticket = file.submit(Write {
        offset: 0,
        range: 0..bytes.len(),
        buf,
        through: false,
    });
    file.complete(ticket).result
}

/// Checks that no file is made in a directory whose own entry cannot be made durable.
pub fn are_refused(system: &dyn System) {
    let dir = system.directory(Path::new(DIR)).expect("it is there");
    write_unsynced(&*dir, RAW, b"raw").expect("nothing else fails");
    for made in [
        create_durably(system, &path("n0"), b"new"),
        replace_durably(system, &path("n0"), b"new"),
        rename_durably(system, &path(RAW), &path("n0")),
    ] {
        let error = made.expect_err("its directory may not be durable");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }
    dir.remove(RAW).expect("nothing else fails");
}

/// End of a call on names.
enum Done {
    /// It was acknowledged.
    Durable,
    /// A call before it has failed. The state is the one before it.
    NotBegun,
    /// It has failed.
    Failed(Error),
}

impl From<Result<(), Error>> for Done {
    fn from(result: Result<(), Error>) -> Done {
        result.map_or_else(Done::Failed, |()| Done::Durable)
    }
}

impl Names {
    /// Checks the names that a crash has left. If a call was interrupted, clears them, unless changes of names
    /// are still `pending`.
    pub fn check(&mut self, disk: &SimDisk, pending: bool) {
        let names = disk.names(DIR);
        let ours = names.keys().filter(|name| is_ours(name));
        let read = |name: &String| disk.visible_bytes(DIR, name).expect("the name is there");
        let found: BTreeMap<String, Vec<u8>> =
            ours.map(|name| (name.clone(), read(name))).collect();
        let fits = |state: &State| {
            let all = state.keys().eq(found.keys());
            all && state
                .values()
                .zip(found.values())
                .all(|(want, got)| match want {
                    Contents::Whole(bytes) => bytes == got,
                    Contents::Any => true,
                })
        };
        let is_none = self.states.is_empty() && found.is_empty();
        assert!(
            is_none || self.states.iter().any(fits),
            "the names may be {:?}, but are {:?}",
            self.states.iter().map(brief).collect::<Vec<_>>(),
            found.iter().map(|(n, b)| (n, b.len())).collect::<Vec<_>>()
        );
        if self.states.len() > 1 && !pending {
            for name in found.keys() {
                disk.remove_file(DIR, name);
            }
            self.states.clear();
        }
    }

    /// Makes calls until one fails. Names that a failed call leaves are checked after the next crash.
    pub fn work(
        &mut self,
        system: &dyn System,
        rng: &mut Rng,
        count: u64,
        reasons: &Reasons,
        coverage: &mut Coverage,
    ) {
        if self.states.len() > 1 {
            return;
        }
        for _ in 0..count {
            let before = self.states.last().cloned().unwrap_or_default();
            let mut after = before.clone();
            coverage.calls += 1;
            let (done, between) = self.step(system, rng, &mut after);
            match done {
                Done::Durable => {
                    coverage.names += 1;
                    self.states = vec![after];
                }
                Done::NotBegun => return,
                Done::Failed(error) => {
                    reasons.expect(&error);
                    self.states = [Some(before), between, Some(after)]
                        .into_iter()
                        .flatten()
                        .collect();
                    return;
                }
            }
        }
    }

    /// Makes one call. Turns `state` into the one after it. Returns the result, and another state that may be
    /// left if it failed.
    fn step(
        &mut self,
        system: &dyn System,
        rng: &mut Rng,
        state: &mut State,
    ) -> (Done, Option<State>) {
        self.next += 1;
        let name = format!("n{}", rng.below(NAMES));
        let other = format!("n{}", rng.below(NAMES));
        let len = rng.pick(&[40, 700, 9_000]);
        let mut bytes = vec![0; len];
        let mut content = Rng::new(self.next);
        bytes.fill_with(|| content.bits() as u8);
        let whole = Contents::Whole(bytes.clone());
        let dir = system.directory(Path::new(DIR));
        let Ok(dir) = dir else {
            return (Done::NotBegun, None);
        };
        if !state.contains_key(&name) {
            let mut partly = state.clone();
            partly.insert(name.clone(), Contents::Any);
            state.insert(name.clone(), whole);
            return (
                create_durably(system, &path(&name), &bytes).into(),
                Some(partly),
            );
        }
        match rng.below(5) {
            0 => {
                state.insert(name.clone(), whole);
                (replace_durably(system, &path(&name), &bytes).into(), None)
            }
            1 => {
                let moved = state.remove(&name).expect("looked up above");
                state.insert(other.clone(), moved);
                (
                    rename_durably(system, &path(&name), &path(&other)).into(),
                    None,
                )
            }
            2 => {
                if write_unsynced(&*dir, RAW, &bytes).is_err() {
                    return (Done::NotBegun, None);
                }
                state.insert(name.clone(), whole);
                (
                    rename_durably(system, &path(RAW), &path(&name)).into(),
                    None,
                )
            }
            3 => {
                if dir.remove(&name).is_err() {
                    return (Done::NotBegun, None);
                }
                state.remove(&name);
                (sync_parent(system, &path(&name)).into(), None)
            }
            _ => {
                if dir.rename(&name, &other).is_err() {
                    return (Done::NotBegun, None);
                }
                let moved = state.remove(&name).expect("looked up above");
                state.insert(other, moved);
                (sync_parent(system, &path(&name)).into(), None)
            }
        }
    }
}

/// Returns the names and lengths of a state.
fn brief(state: &State) -> Vec<(&str, Option<usize>)> {
    let len = |contents: &Contents| match contents {
        Contents::Whole(bytes) => Some(bytes.len()),
        Contents::Any => None,
    };
    state.iter().map(|(n, c)| (n.as_str(), len(c))).collect()
}
