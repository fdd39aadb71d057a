//! History of a directory: its files before the run, and every change, with the moment from which it was durable.

use super::content::Content;
use crate::explain::MarkKind;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Number of a file, a directory or a symbolic link.
pub(super) type Ino = usize;
/// The directory of the program.
pub(super) const ROOT: Ino = 0;
/// Moment in a run: the number of events before it.
pub(super) type Tick = usize;
/// The moment of a sync that never came.
pub(super) const NEVER: Tick = Tick::MAX;
/// Most bytes of data before the run.
const MOST: u64 = 256 << 20;

/// Kinds of inodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    /// A symbolic link, with its target.
    Link(Vec<u8>),
}

/// Contents of a file, or names in a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) content: Content,
    pub(super) names: BTreeMap<OsString, Ino>,
}

/// A file, a directory or a symbolic link.
#[derive(Debug, Clone)]
pub(super) struct Inode {
    pub(super) kind: Kind,
    pub(super) mode: u32,
    /// The body before the run, which is durable.
    pub(super) before: Body,
    /// The body as the program sees it.
    pub(super) now: Body,
    /// The last name: directory and entry.
    pub(super) last: Option<(Ino, OsString)>,
}

/// A change of an inode.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// Bytes at an offset.
    Data(u64, Vec<u8>),
    /// A new length, and the one before.
    Length { len: u64, before: u64 },
    /// One step of a directory: names and their inodes. In words, without the directory.
    Names(Vec<(OsString, Option<Ino>)>, String),
}

/// A change, when it was made, and from when it was durable.
#[derive(Debug, Clone)]
pub(super) struct Op {
    pub(super) ino: Ino,
    pub(super) change: Change,
    pub(super) at: Tick,
    pub(super) synced: Tick,
}

/// An acknowledged or announced line.
#[derive(Debug, Clone)]
pub(super) struct Ack {
    pub(super) at: Tick,
    pub(super) text: String,
    pub(super) begun: bool,
}

/// A recorded run.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) inodes: Vec<Inode>,
    pub(super) ops: Vec<Op>,
    pub(super) lines: Vec<Ack>,
    /// Time in microseconds and kind of each event. A tick is the number of events up to one.
    pub(super) events: Vec<(u64, MarkKind)>,
    /// Renames of files.
    pub(super) renames: Vec<(Tick, Ino)>,
    /// Changes that are not durable, of each inode.
    unsynced: BTreeMap<Ino, Vec<usize>>,
    /// Bytes of all changes.
    pub(super) bytes: u64,
}

impl History {
    /// Reads a directory as it is before the run.
    pub(super) fn read(dir: &Path) -> Result<History> {
        let mut history = History::default();
        let root = history.add(Kind::Directory, 0o755);
        history.read_names(root, dir, &mut HashMap::new())?;
        for inode in &mut history.inodes {
            inode.before = inode.now.clone();
        }
        Ok(history)
    }

    fn read_names(&mut self, dir: Ino, path: &Path, known: &mut HashMap<u64, Ino>) -> Result<()> {
        for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
            let (entry, path) = entry.map(|e| (e.file_name(), e.path()))?;
            let meta = fs::symlink_metadata(&path)?;
            let kind = match meta.file_type() {
                t if t.is_file() => Kind::File,
                t if t.is_dir() => Kind::Directory,
                t if t.is_symlink() => {
                    Kind::Link(fs::read_link(&path)?.into_os_string().into_vec())
                }
                // Sockets and the like hold no data.
                _ => continue,
            };
            let (is_file, is_dir) = (kind == Kind::File, kind == Kind::Directory);
            let ino = match known.get(&meta.ino()) {
                Some(ino) => *ino,
                None => self.add(kind, meta.mode() & 0o7777),
            };
            if is_file && known.insert(meta.ino(), ino).is_none() {
                let file = File::open(&path).with_context(|| path.display().to_string())?;
                let content = Content::read(file)?;
                self.bytes += content.size();
                if self.bytes > MOST {
                    bail!(
                        "the directory has more than {} MiB of data, which the model cannot hold",
                        MOST >> 20
                    );
                }
                self.inodes[ino].now.content = content;
            }
            self.inodes[ino].last = Some((dir, entry.clone()));
            self.inodes[dir].now.names.insert(entry, ino);
            if is_dir {
                self.read_names(ino, &path, known)?;
            }
        }
        Ok(())
    }

    /// Adds an inode without a name.
    pub(super) fn add(&mut self, kind: Kind, mode: u32) -> Ino {
        self.inodes.push(Inode {
            kind,
            mode,
            before: Body::default(),
            now: Body::default(),
            last: None,
        });
        self.inodes.len() - 1
    }

    /// Returns the present moment.
    pub(super) fn now(&self) -> Tick {
        self.events.len()
    }

    /// Returns the moments of acknowledgements.
    pub(super) fn acks(&self) -> impl Iterator<Item = Tick> {
        let acked = self.lines.iter().filter(|line| !line.begun);
        acked.map(|line| line.at)
    }

    /// Returns the length of a file.
    pub(super) fn len(&self, ino: Ino) -> u64 {
        self.inodes[ino].now.content.len
    }

    /// Returns the last path of an inode; `.` for the program's directory.
    pub(super) fn path(&self, ino: Ino) -> String {
        let (mut path, mut at, mut steps) = (PathBuf::new(), ino, 0);
        while let Some((dir, name)) = &self.inodes[at].last {
            path = Path::new(name).join(&path);
            (at, steps) = (*dir, steps + 1);
            if steps > 100 {
                break;
            }
        }
        match (ino, path.to_string_lossy().trim_end_matches('/')) {
            (ROOT, _) => ".".to_owned(),
            (_, "") => "a file without a name".to_owned(),
            (_, path) => path.to_owned(),
        }
    }

    fn change(&mut self, ino: Ino, change: Change) {
        self.unsynced.entry(ino).or_default().push(self.ops.len());
        let at = self.now();
        self.ops.push(Op {
            ino,
            change,
            at,
            synced: NEVER,
        });
    }

    /// Writes into a file.
    pub(super) fn write(&mut self, ino: Ino, offset: u64, bytes: Vec<u8>) {
        let end = offset + bytes.len() as u64;
        if bytes.is_empty() {
            return;
        }
        self.bytes += bytes.len() as u64;
        self.inodes[ino].now.content.put(offset, &bytes);
        self.change(ino, Change::Data(offset, bytes));
        if end > self.len(ino) {
            self.set_len(ino, end);
        }
    }

    /// Sets the length of a file.
    pub(super) fn set_len(&mut self, ino: Ino, len: u64) {
        let before = self.len(ino);
        if len != before {
            self.inodes[ino].now.content.set_len(len);
            self.change(ino, Change::Length { len, before });
        }
    }

    /// Fills a range within the length of a file with zeroes.
    pub(super) fn clear(&mut self, ino: Ino, offset: u64, len: u64) {
        let end = self.len(ino).min(offset.saturating_add(len));
        self.write(ino, offset, vec![0; end.saturating_sub(offset) as usize]);
    }

    /// Changes names of a directory in one step, which `words` describe.
    pub(super) fn step(&mut self, dir: Ino, names: Vec<(OsString, Option<Ino>)>, words: String) {
        for (name, ino) in &names {
            match ino {
                Some(ino) => {
                    self.inodes[*ino].last = Some((dir, name.clone()));
                    self.inodes[dir].now.names.insert(name.clone(), *ino);
                }
                None => drop(self.inodes[dir].now.names.remove(name)),
            }
        }
        self.change(dir, Change::Names(names, words));
    }

    /// Makes changes of an inode durable: those before number `until`.
    pub(super) fn sync(&mut self, ino: Ino, until: usize) {
        let now = self.now();
        let Some(list) = self.unsynced.get_mut(&ino) else {
            return;
        };
        let later = list.split_off(list.partition_point(|op| *op < until));
        for op in std::mem::replace(list, later) {
            self.ops[op].synced = now;
        }
    }

    /// Makes all changes before number `until` durable.
    pub(super) fn sync_all(&mut self, until: usize) {
        for ino in self.unsynced.keys().copied().collect::<Vec<_>>() {
            self.sync(ino, until);
        }
    }

    /// Makes a write durable that was made with `O_DSYNC`: the changes from number `from` on, and the length.
    pub(super) fn sync_write(&mut self, ino: Ino, from: usize) {
        let now = self.now();
        let (ops, list) = (&mut self.ops, self.unsynced.entry(ino).or_default());
        list.retain(|op| {
            let is_durable = *op >= from || matches!(ops[*op].change, Change::Length { .. });
            if is_durable {
                ops[*op].synced = now;
            }
            !is_durable
        });
    }

    /// Returns the acknowledged and the announced lines before a moment.
    pub(super) fn lines_until(&self, until: Tick) -> (Vec<String>, Vec<String>) {
        let lines = self.lines.iter().take_while(|line| line.at <= until);
        let (begun, acked): (Vec<&Ack>, Vec<&Ack>) = lines.partition(|line| line.begun);
        let texts = |lines: Vec<&Ack>| lines.iter().map(|line| line.text.clone()).collect();
        (texts(acked), texts(begun))
    }
}
