//! The effect of system calls on names: links, directories, renames.

use super::calls::{Followed, bytes, unknown};
use super::history::{Ino, Kind, ROOT};
use super::line::Call;
use super::tasks::{Place, World};
use crate::explain::MarkKind;
use std::ffi::OsString;

impl World {
    pub(super) fn links(&mut self, task: u32, call: &Call) -> Followed {
        let (path, follow) = (bytes(call, 1)?, call.has(4, "AT_SYMLINK_FOLLOW"));
        let source = match path.is_empty() {
            true => self.place(task, call.fd(0)),
            false => self.walk(task, call.fd(0), &path, follow).place,
        };
        let target = self.walk(task, call.fd(2), &bytes(call, 3)?, false);
        match (source, target.entry) {
            (Some(Place::Inside(ino)), Some(entry)) => {
                self.names(entry, ino, "link");
                Ok(())
            }
            (_, Some(_)) => Err(unknown(&call.name, &path)),
            _ => Ok(()),
        }
    }

    /// Gives a file a name.
    pub(super) fn names(&mut self, (dir, name): (Ino, OsString), ino: Ino, what: &str) {
        self.tick(MarkKind::Write);
        let words = format!("{what} of {}", name.to_string_lossy());
        self.history.step(dir, vec![(name, Some(ino))], words);
    }

    /// Makes a directory or a symbolic link. `dirfd` is the number of the argument before the path.
    pub(super) fn makes(&mut self, task: u32, call: &Call, dirfd: usize, kind: Kind) -> Followed {
        let path = bytes(call, dirfd + 1)?;
        if let Some(entry) = self.walk(task, call.fd(dirfd), &path, false).entry {
            let ino = self.history.add(kind, call.mode(dirfd + 2) & 0o755);
            self.names(entry, ino, "creation");
        }
        Ok(())
    }

    pub(super) fn removes(&mut self, task: u32, call: &Call) -> Followed {
        let found = self.walk(task, call.fd(0), &bytes(call, 1)?, false);
        // The names of sockets and pipes are not known.
        if let (Some((dir, name)), Some(_)) = (found.entry, found.place) {
            self.tick(MarkKind::Write);
            let words = format!("removal of {}", name.to_string_lossy());
            self.history.step(dir, vec![(name, None)], words);
        }
        Ok(())
    }

    pub(super) fn renames(&mut self, task: u32, call: &Call) -> Followed {
        let (old, new) = (bytes(call, 1)?, bytes(call, 3)?);
        let source = self.walk(task, call.fd(0), &old, false);
        let target = self.walk(task, call.fd(2), &new, false);
        let inside = |place: &Option<Place>| match place {
            Some(Place::Inside(ino)) if *ino != ROOT => Some(*ino),
            _ => None,
        };
        let (moved, replaced) = (inside(&source.place), inside(&target.place));
        let is_outside = moved.is_none() && target.entry.is_none();
        let (Some((dir, name)), Some((to, new)), Some(moved)) = (source.entry, target.entry, moved)
        else {
            // Between the program's directory and another: the model would have to invent a file, or lose one.
            return match is_outside {
                true => Ok(()),
                false => Err(unknown(&call.name, &old)),
            };
        };
        if replaced == Some(moved) {
            return Ok(());
        }
        let back = replaced.filter(|_| call.has(4, "RENAME_EXCHANGE"));
        let at = self.tick(MarkKind::Write);
        self.history.renames.push((at, moved));
        let words = format!(
            "rename of {} to {}",
            name.to_string_lossy(),
            new.to_string_lossy()
        );
        let (gone, come) = ((name, back), (new, Some(moved)));
        match dir == to {
            true => self.history.step(dir, vec![gone, come], words),
            false => {
                self.history.step(dir, vec![gone], words.clone());
                self.history.step(to, vec![come], words);
            }
        }
        Ok(())
    }
}
