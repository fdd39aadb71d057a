//! The effect of system calls on the files of the program's directory.

use super::history::{Ino, Kind};
use super::line::Call;
use super::tasks::{Found, Open, Place, World};
use crate::explain::MarkKind;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Calls that are traced. Those with `?` do not exist everywhere.
pub(super) const TRACED: &str = "?open,openat,?openat2,?creat,close,?close_range,dup,?dup2,dup3,fcntl,write,pwrite64,\
    writev,pwritev,?pwritev2,lseek,read,readv,truncate,ftruncate,fallocate,?copy_file_range,sendfile,splice,fsync,\
    fdatasync,sync,syncfs,?link,linkat,?symlink,symlinkat,?mkdir,mkdirat,?rmdir,?unlink,unlinkat,?rename,?renameat,\
    ?renameat2,chdir,fchdir,?fork,?vfork,clone,?clone3,execve,execveat,unshare,mmap,?io_uring_setup,io_submit";

/// Bytes that one call may clear.
const MOST_CLEARED: u64 = 64 << 20;

/// A result, or the reason why the model cannot follow the program.
pub(super) type Followed<T = ()> = Result<T, String>;

/// Calls that make a thread.
pub(super) const FORKS: [&str; 4] = ["fork", "vfork", "clone", "clone3"];

impl World {
    /// Takes the beginning of a call in: a descriptor is free, and a line acknowledges, before the call returns.
    pub(super) fn enter(&mut self, task: u32, call: &Call) -> Followed {
        match &*call.name {
            "close" => drop(self.tasks[&task].table.borrow_mut().remove(&call.fd(0))),
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2"
                if self.place(task, call.fd(0)) == Some(Place::Acks) =>
            {
                self.acknowledge(&bytes(call, 1)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn acknowledge(&mut self, data: &[u8]) {
        let at = self.tick(MarkKind::Ack);
        self.rest.extend_from_slice(data);
        let all = std::mem::take(&mut self.rest);
        let mut lines = all.split(|b| *b == b'\n');
        self.rest = lines.next_back().unwrap_or_default().to_vec();
        for line in lines {
            let line = String::from_utf8_lossy(line);
            if !line.is_empty() && !line.starts_with('#') {
                self.history.lines.push(super::history::Ack {
                    at,
                    text: line.strip_prefix('?').unwrap_or(&line).to_owned(),
                    begun: line.starts_with('?'),
                });
            }
        }
    }

    /// Takes a call in that has returned. It began when there were `before` changes.
    pub(super) fn exit(&mut self, task: u32, call: &Call, before: usize) -> Followed {
        let Some(result) = call.result.filter(|result| *result >= 0) else {
            return Ok(());
        };
        let (fd, new) = (call.fd(0), result as i32);
        match &*call.name {
            "openat" => self.opens(task, call, call.mode(3))?,
            "openat2" => self.opens(task, call, call.mode(2))?,
            "close_range" => {
                let range = fd..=call.number(1).unwrap_or(0).min(i32::MAX.into()) as i32;
                let only_marks = call.has(2, "CLOSE_RANGE_CLOEXEC");
                let mut table = self.tasks[&task].table.borrow_mut();
                table.retain(|fd, _| only_marks || !range.contains(fd));
                table
                    .range_mut(range)
                    .for_each(|(_, (_, cloexec))| *cloexec = true);
            }
            "dup" => self.duplicate(task, fd, new, false),
            "dup2" | "dup3" if fd != new => self.duplicate(task, fd, new, call.has(2, "O_CLOEXEC")),
            "fcntl" if call.text(1).starts_with("F_DUPFD") => {
                self.duplicate(task, fd, new, call.text(1) == "F_DUPFD_CLOEXEC");
            }
            "fcntl" if call.text(1) == "F_SETFD" => {
                if let Some((_, cloexec)) = self.tasks[&task].table.borrow_mut().get_mut(&fd) {
                    *cloexec = call.has(2, "FD_CLOEXEC");
                }
            }
            "fcntl" if call.text(1) == "F_SETFL" => {
                if let Some(open) = self.opened(task, fd) {
                    open.borrow_mut().append = call.has(2, "O_APPEND");
                }
            }
            "write" | "writev" => self.writes(task, call, None, 9)?,
            "pwrite64" | "pwritev" => self.writes(task, call, call.unsigned(3), 9)?,
            "pwritev2" => self.writes(task, call, call.unsigned(3), 4)?,
            "lseek" => self.moves(task, fd, |open| open.offset = result as u64),
            "read" | "readv" => self.moves(task, fd, |open| open.offset += result as u64),
            "truncate" => {
                if let Some(Place::Inside(ino)) = self.walk(task, fd, &bytes(call, 1)?, true).place
                {
                    self.resizes(ino, call.unsigned(2));
                }
            }
            "ftruncate" => {
                if let Some(ino) = self.inside(task, fd) {
                    self.resizes(ino, call.unsigned(1));
                }
            }
            "fallocate" => self.allocates(task, call)?,
            "sendfile" => self.copies(task, call, (1, 2), (0, 9))?,
            "copy_file_range" | "splice" => self.copies(task, call, (0, 1), (2, 3))?,
            "fsync" | "fdatasync" => {
                if let Some(ino) = self.inside(task, fd) {
                    self.tick(MarkKind::Flush);
                    self.history.sync(ino, before);
                }
            }
            "syncfs" | "sync" if call.name == "sync" || self.inside(task, fd).is_some() => {
                self.tick(MarkKind::Flush);
                self.history.sync_all(before);
            }
            "linkat" => self.links(task, call)?,
            "symlinkat" => self.makes(task, call, 1, Kind::Link(bytes(call, 0)?))?,
            "mkdirat" => self.makes(task, call, 0, Kind::Directory)?,
            "unlinkat" => self.removes(task, call)?,
            "renameat2" => self.renames(task, call)?,
            "chdir" => {
                if let Some(place) = self.walk(task, -100, &bytes(call, 0)?, true).place {
                    *self.tasks[&task].cwd.borrow_mut() = place;
                }
            }
            "fchdir" => {
                if let Some(place) = self.place(task, fd) {
                    *self.tasks[&task].cwd.borrow_mut() = place;
                }
            }
            "execve" | "execveat" => self.exec(task),
            "unshare" if call.has(0, "CLONE_FILES") => {
                if let Some(task) = self.tasks.get_mut(&task) {
                    let table = task.table.borrow().clone();
                    task.table = std::rc::Rc::new(table.into());
                }
            }
            "mmap" if call.text(3).contains("MAP_SHARED") && call.has(2, "PROT_WRITE") => {
                if let Some(ino) = self.inside(task, call.fd(4)) {
                    return Err(format!(
                        "mmap maps {} shared and writable, and the model cannot see what is written through memory; \
                         let the program write by calls (SQLite in WAL mode: PRAGMA locking_mode=EXCLUSIVE), or test \
                         it as root without --model",
                        self.history.path(ino)
                    ));
                }
            }
            "io_uring_setup" | "io_submit" => {
                return Err(format!(
                    "the program calls {}, and the model cannot see what is written by it; turn asynchronous I/O off \
                     in the program, or test it as root without --model",
                    call.name
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn moves(&self, task: u32, fd: i32, how: impl FnOnce(&mut Open)) {
        if let Some(open) = self.opened(task, fd) {
            how(&mut open.borrow_mut());
        }
    }

    fn opens(&mut self, task: u32, call: &Call, mode: u32) -> Followed {
        let has = |flag| call.has(2, flag);
        let follow = !(has("O_NOFOLLOW") || has("O_CREAT") && has("O_EXCL"));
        let (path, mode) = (bytes(call, 1)?, mode & 0o755);
        let mut found = self.walk(task, call.fd(0), &path, follow);
        if has("O_TMPFILE") {
            if let Some(Place::Inside(_)) = found.place {
                found.place = Some(Place::Inside(self.history.add(Kind::File, mode)));
            }
        } else if let Found {
            entry: Some(entry),
            place: None,
        } = &found
        {
            if !has("O_CREAT") {
                return Err(unknown(&call.name, &path));
            }
            let ino = self.history.add(Kind::File, mode);
            self.names(entry.clone(), ino, "creation");
            found.place = Some(Place::Inside(ino));
        } else if let Some(Place::Inside(ino)) = found.place
            && has("O_TRUNC")
        {
            self.resizes(ino, Some(0));
        }
        let (append, sync) = (has("O_APPEND"), has("O_SYNC") || has("O_DSYNC"));
        let place = found.place.unwrap_or(Place::Outside("/".into()));
        let fd = call.result.unwrap_or(-1) as i32;
        self.open(task, fd, place, append, sync, has("O_CLOEXEC"));
        Ok(())
    }

    fn resizes(&mut self, ino: Ino, len: Option<u64>) {
        if self.history.inodes[ino].kind == Kind::File
            && len.is_some_and(|len| len != self.history.len(ino))
        {
            self.tick(MarkKind::Write);
            self.history.set_len(ino, len.unwrap_or(0));
        }
    }

    /// Writes what a call wrote, at `offset` or at that of the descriptor. `flags` is the number of that argument.
    fn writes(&mut self, task: u32, call: &Call, offset: Option<u64>, flags: usize) -> Followed {
        let Some(open) = self.opened(task, call.fd(0)) else {
            return Ok(());
        };
        if self.inside(task, call.fd(0)).is_some() {
            let mut data = bytes(call, 1)?;
            data.truncate(call.result.unwrap_or(0) as usize);
            let has = |flag| call.has(flags, flag);
            let sync = has("RWF_DSYNC") || has("RWF_SYNC");
            self.write_open(
                &mut open.borrow_mut(),
                data,
                offset,
                has("RWF_APPEND"),
                sync,
            );
        }
        Ok(())
    }

    fn write_open(
        &mut self,
        open: &mut Open,
        data: Vec<u8>,
        offset: Option<u64>,
        append: bool,
        sync: bool,
    ) {
        let Place::Inside(ino) = open.place else {
            return;
        };
        let at = match open.append || append {
            true => self.history.len(ino),
            false => offset.unwrap_or(open.offset),
        };
        if offset.is_none() {
            open.offset = at + data.len() as u64;
        }
        self.tick(MarkKind::Write);
        let from = self.history.ops.len();
        self.history.write(ino, at, data);
        if sync || open.sync {
            self.history.sync_write(ino, from);
        }
    }

    fn allocates(&mut self, task: u32, call: &Call) -> Followed {
        let Some(ino) = self.inside(task, call.fd(0)) else {
            return Ok(());
        };
        let (from, len) = (call.unsigned(2).unwrap_or(0), call.unsigned(3).unwrap_or(0));
        for mode in ["FALLOC_FL_COLLAPSE_RANGE", "FALLOC_FL_INSERT_RANGE"] {
            if call.has(1, mode) {
                let path = self.history.path(ino);
                return Err(format!(
                    "the model does not know fallocate with {mode}, which {path} got"
                ));
            }
        }
        if len.min(self.history.len(ino)) > MOST_CLEARED {
            return Err("fallocate clears more bytes than the model can hold".to_owned());
        }
        self.tick(MarkKind::Write);
        if call.has(1, "FALLOC_FL_PUNCH_HOLE") || call.has(1, "FALLOC_FL_ZERO_RANGE") {
            self.history.clear(ino, from, len);
        }
        if !call.has(1, "FALLOC_FL_KEEP_SIZE") && from + len > self.history.len(ino) {
            self.history.set_len(ino, from + len);
        }
        Ok(())
    }

    /// Copies between descriptors, each given by its argument and that of its offset.
    fn copies(
        &mut self,
        task: u32,
        call: &Call,
        from: (usize, usize),
        to: (usize, usize),
    ) -> Followed {
        let len = call.result.unwrap_or(0) as u64;
        let (source, target) = (
            self.opened(task, call.fd(from.0)),
            self.opened(task, call.fd(to.0)),
        );
        let start = source.as_ref().map_or(0, |open| {
            call.unsigned(from.1).unwrap_or_else(|| {
                open.borrow_mut().offset += len;
                open.borrow().offset - len
            })
        });
        let Some(target) = target.filter(|open| matches!(open.borrow().place, Place::Inside(_)))
        else {
            return Ok(());
        };
        let data = match source.map(|open| open.borrow().place.clone()) {
            Some(Place::Inside(ino)) => self.history.inodes[ino].now.content.get(start, len),
            Some(Place::Outside(path)) => read_at(&path, start, len).map_err(|e| {
                format!(
                    "{} from {}, which cannot be read: {e}",
                    call.name,
                    path.display()
                )
            })?,
            _ => {
                return Err(format!(
                    "{} writes what the model cannot see, from a pipe or a socket",
                    call.name
                ));
            }
        };
        self.write_open(
            &mut target.borrow_mut(),
            data,
            call.unsigned(to.1),
            false,
            false,
        );
        Ok(())
    }
}

/// Returns the bytes of an argument.
pub(super) fn bytes(call: &Call, at: usize) -> Followed<Vec<u8>> {
    let shortened = || format!("{} has more data than strace prints", call.name);
    call.bytes(at).ok_or_else(shortened)
}

pub(super) fn unknown(call: &str, path: &[u8]) -> String {
    format!(
        "{call} of {}, which the model does not know: it was made by another program, or by a call that the model does \
         not see, or it comes from outside of the program's directory",
        String::from_utf8_lossy(path)
    )
}

fn read_at(path: &Path, at: u64, len: u64) -> std::io::Result<Vec<u8>> {
    let mut data = vec![0; len as usize];
    File::open(path)?.read_exact_at(&mut data, at)?;
    Ok(data)
}
