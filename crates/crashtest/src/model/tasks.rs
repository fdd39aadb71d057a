//! Threads of the traced programs: their descriptors and current directories.

use super::history::{History, Ino, Kind, ROOT};
use super::line::Call;
use crate::explain::MarkKind;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Symbolic links that a path may have.
const MOST_LINKS: u32 = 40;

/// A file or a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Below the program's directory.
    Inside(Ino),
    /// Anywhere else.
    Outside(PathBuf),
    /// The destination of acknowledgements.
    Acks,
}

/// An open file.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) place: Place,
    pub(super) offset: u64,
    pub(super) append: bool,
    /// True with `O_SYNC` or `O_DSYNC`.
    pub(super) sync: bool,
}

type Shared<T> = Rc<RefCell<T>>;
/// Descriptors: the open file, and true if an `execve` closes it.
type Table = BTreeMap<i32, (Shared<Open>, bool)>;

/// A thread.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) table: Shared<Table>,
    pub(super) cwd: Shared<Place>,
    /// Text of a call that has not returned, and the number of changes when it began.
    pub(super) begun: Option<(String, usize)>,
    /// True if the thread that the call makes is known already.
    pub(super) has_child: bool,
}

/// Result of a walk along a path.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The directory of the program's in which the last name is or would be.
    pub(super) entry: Option<(Ino, OsString)>,
    pub(super) place: Option<Place>,
}

/// The traced programs and the files that they change.
pub(super) struct World {
    pub(super) history: History,
    pub(super) tasks: HashMap<u32, Task>,
    pub(super) root: PathBuf,
    pub(super) acks: PathBuf,
    /// Acknowledged bytes after the last newline.
    pub(super) rest: Vec<u8>,
    /// Time of the present line.
    pub(super) time: u64,
}

impl World {
    /// Returns the world before the first call. `acks` is the file of acknowledgements.
    pub(super) fn new(history: History, root: &Path, acks: &Path, cwd: PathBuf) -> World {
        let first = Task {
            table: Shared::default(),
            cwd: Rc::new(RefCell::new(Place::Outside(cwd))),
            begun: None,
            has_child: false,
        };
        World {
            history,
            tasks: HashMap::from([(0, first)]),
            root: root.to_owned(),
            acks: acks.to_owned(),
            rest: Vec::new(),
            time: 0,
        }
    }

    /// Begins with the first process, whose acknowledgements go to `fd` if they go to a descriptor.
    pub(super) fn start(&mut self, task: u32, fd: Option<i32>) {
        if let Some(first) = self.tasks.remove(&0) {
            self.tasks.insert(task, first);
            if let Some(fd) = fd {
                self.open(task, fd, Place::Acks, false, false, false);
            }
        }
    }

    /// Adds a descriptor.
    pub(super) fn open(
        &mut self,
        task: u32,
        fd: i32,
        place: Place,
        append: bool,
        sync: bool,
        cloexec: bool,
    ) {
        let open = Open {
            place,
            offset: 0,
            append,
            sync,
        };
        let table = &self.tasks[&task].table;
        table
            .borrow_mut()
            .insert(fd, (Rc::new(RefCell::new(open)), cloexec));
    }

    /// Returns an open file.
    pub(super) fn opened(&self, task: u32, fd: i32) -> Option<Shared<Open>> {
        let table = self.tasks.get(&task)?.table.borrow();
        table.get(&fd).map(|(open, _)| open.clone())
    }

    /// Returns the place of a descriptor.
    pub(super) fn place(&self, task: u32, fd: i32) -> Option<Place> {
        self.opened(task, fd)
            .map(|open| open.borrow().place.clone())
    }

    /// Returns the file or directory of the program's that a descriptor has open.
    pub(super) fn inside(&self, task: u32, fd: i32) -> Option<Ino> {
        match self.place(task, fd)? {
            Place::Inside(ino) => Some(ino),
            _ => None,
        }
    }

    /// Makes `to` a copy of a descriptor.
    pub(super) fn duplicate(&mut self, task: u32, from: i32, to: i32, cloexec: bool) {
        let open = self.opened(task, from);
        let mut table = self.tasks[&task].table.borrow_mut();
        match open {
            Some(open) => table.insert(to, (open, cloexec)),
            None => table.remove(&to),
        };
    }

    /// Adds the thread that a call of `parent` made.
    pub(super) fn fork(&mut self, parent: u32, child: u32, call: &Call) {
        let shares = |flag: &str| call.has(0, flag) || call.has(1, flag);
        let of = &self.tasks[&parent];
        let mut task = of.clone();
        task.begun = None;
        if !shares("CLONE_FILES") {
            task.table = Rc::new(RefCell::new(of.table.borrow().clone()));
        }
        if !shares("CLONE_FS") {
            task.cwd = Rc::new(RefCell::new(of.cwd.borrow().clone()));
        }
        self.tasks.insert(child, task);
    }

    /// Closes what an `execve` closes, in a table that is the thread's alone.
    pub(super) fn exec(&mut self, task: u32) {
        let Some(task) = self.tasks.get_mut(&task) else {
            return;
        };
        let mut table = task.table.borrow().clone();
        table.retain(|_, (_, cloexec)| !*cloexec);
        task.table = Rc::new(RefCell::new(table));
    }

    /// Adds an event, and returns its moment.
    pub(super) fn tick(&mut self, kind: MarkKind) -> usize {
        self.history.events.push((self.time, kind));
        self.history.now()
    }

    /// Follows a path from a directory descriptor. A symbolic link at its end is followed if `follow`.
    pub(super) fn walk(&self, task: u32, dirfd: i32, path: &[u8], follow: bool) -> Found {
        let at = |place| Found {
            entry: None,
            place: Some(place),
        };
        if let Some(fd) = descriptor(path) {
            return Found {
                entry: None,
                place: self.place(task, fd),
            };
        }
        let mut here = match (path.first(), dirfd) {
            (Some(b'/'), _) => Place::Outside("/".into()),
            (_, -100) => self.tasks[&task].cwd.borrow().clone(),
            (_, fd) => match self.place(task, fd) {
                Some(place) => place,
                None => return Found::default(),
            },
        };
        let split = |path: &[u8]| -> VecDeque<OsString> {
            let names = path.split(|b| *b == b'/');
            let names = names.filter(|n| !n.is_empty() && *n != b".");
            names.map(|n| OsStr::from_bytes(n).to_owned()).collect()
        };
        let (mut names, mut links) = (split(path), 0);
        while let Some(name) = names.pop_front() {
            here = match here {
                Place::Acks => return Found::default(),
                Place::Outside(mut path) => {
                    match name == ".." {
                        true => drop(path.pop()),
                        false => path.push(name),
                    }
                    match path == self.root {
                        true => Place::Inside(ROOT),
                        false => Place::Outside(path),
                    }
                }
                Place::Inside(dir) if name == ".." => match &self.history.inodes[dir].last {
                    Some((parent, _)) => Place::Inside(*parent),
                    None => Place::Outside(self.root.parent().unwrap_or(&self.root).to_owned()),
                },
                Place::Inside(dir) => {
                    let known = self.history.inodes[dir].now.names.get(&name).copied();
                    let kind = known.map(|ino| &self.history.inodes[ino].kind);
                    match (known, kind) {
                        (Some(_), Some(Kind::Link(target))) if follow || !names.is_empty() => {
                            links += 1;
                            if links > MOST_LINKS {
                                return Found::default();
                            }
                            let mut target_names = split(target);
                            target_names.append(&mut names);
                            names = target_names;
                            match target.first() {
                                Some(b'/') => Place::Outside("/".into()),
                                _ => Place::Inside(dir),
                            }
                        }
                        _ if names.is_empty() => {
                            return Found {
                                entry: Some((dir, name)),
                                place: known.map(Place::Inside),
                            };
                        }
                        (Some(ino), _) => Place::Inside(ino),
                        (None, _) => return Found::default(),
                    }
                }
            };
        }
        match here {
            Place::Outside(path) if path == self.acks => at(Place::Acks),
            here => at(here),
        }
    }
}

/// Returns the descriptor that a path such as `/proc/self/fd/3` names.
fn descriptor(path: &[u8]) -> Option<i32> {
    let path = OsString::from_vec(path.to_owned()).into_string().ok()?;
    match &*path {
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        _ => {
            let (dir, number) = path.rsplit_once('/')?;
            let is_list = dir == "/dev/fd" || (dir.starts_with("/proc/") && dir.ends_with("/fd"));
            number.parse().ok().filter(|_| is_list)
        }
    }
}
