//! `System` and `Directory` of the simulated disk.

use super::SimDisk;
use super::boot::{Boot, check};
use super::failing_calls::Call;
use super::file::SimFile;
use super::names::{Change, Names};
use super::state::{State, power_is_cut};
use crate::Points;
use logforce_device::{
    Access, DirEntry, Directory, Facts, File, FileIdentity, OpenFile, Runtime, System, Whereabouts,
};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) struct SimSystem {
    pub disk: SimDisk,
    pub runtime: Arc<dyn Points>,
}

struct SimDirectory {
    at: Boot,
    path: PathBuf,
    identity: FileIdentity,
}

fn missing(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(ErrorKind::NotFound, format!("{what} does not exist"))
}

fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\\', '\0']) {
        let text = format!("{name:?} is not a plain file name");
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    Ok(())
}

impl State {
    pub(super) fn directory_or_new(&mut self, path: &Path) -> &mut Names {
        if !self.directories.contains_key(path) {
            let id = self.next_number();
            self.directories.insert(path.to_owned(), Names::new(id));
        }
        self.directories.get_mut(path).expect("exists by now")
    }
}

impl SimSystem {
    fn open(&self, path: &Path, make: bool) -> io::Result<Arc<dyn Directory>> {
        self.runtime.point();
        let mut s = self.disk.lock();
        let call = if make {
            Call::MakeDirectory
        } else {
            Call::Directory
        };
        if let Some(how) = s.fails(call) {
            return Err(how.error());
        }
        if make {
            let fault = s.step(|| format!("make directory {}", path.display()))?;
            check(&s, fault)?;
            let parent = path.parent().unwrap_or(Path::new(""));
            let top = parent == Path::new("/") || parent == Path::new("");
            if !top && !s.directories.contains_key(parent) {
                return Err(missing(parent.display()));
            }
            s.directory_or_new(path);
        } else if s.cut {
            return Err(power_is_cut());
        }
        let names = s
            .directories
            .get(path)
            .ok_or_else(|| missing(path.display()))?;
        let identity = FileIdentity {
            volume: 1,
            file: names.id,
        };
        let (disk, runtime, boot) = (self.disk.clone(), self.runtime.clone(), s.boot);
        let at = Boot {
            disk,
            runtime,
            boot,
        };
        Ok(Arc::new(SimDirectory {
            at,
            path: path.to_owned(),
            identity,
        }))
    }
}

impl System for SimSystem {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.runtime.clone()
    }

    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        self.open(path, false)
    }

    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        self.open(path, true)
    }

    /// The paths of this disk are absolute, on Windows too, and have no links.
    fn resolved(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}

impl SimDirectory {
    fn names<'a>(&self, s: &'a mut State) -> &'a mut Names {
        s.directories
            .get_mut(&self.path)
            .expect("directories are never removed")
    }

    fn lookup(&self, s: &mut State, name: &str) -> io::Result<u64> {
        self.names(s)
            .now
            .get(name)
            .copied()
            .ok_or_else(|| missing(name))
    }

    fn held(&self, inode: u64) -> Box<dyn Send + Sync> {
        let at = self.at.clone();
        Box::new(Lock { at, inode })
    }

    fn create(&self, s: &mut State, name: &str) -> io::Result<u64> {
        let fault = s.step(|| format!("create {name}"))?;
        check(s, fault)?;
        s.counters.creates += 1;
        let inode = s.new_inode();
        self.names(s).change(Change::Create {
            name: name.to_owned(),
            inode,
        });
        Ok(inode)
    }
}

fn check_unlocked(s: &State, name: &str, inode: u64) -> io::Result<()> {
    if s.locks.contains(&inode) {
        let text = format!("{name} is locked by another opening");
        return Err(io::Error::new(ErrorKind::WouldBlock, text));
    }
    Ok(())
}

impl Directory for SimDirectory {
    fn system(&self) -> io::Result<Arc<dyn System>> {
        Ok(Arc::new(SimSystem {
            disk: self.at.disk.clone(),
            runtime: self.at.runtime.clone(),
        }))
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn identity(&self) -> FileIdentity {
        self.identity
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let (mut s, how) = self.at.look(Call::Entries)?;
        let mut names = self.names(&mut s).now.clone();
        match how {
            None => {}
            Some(how) if how.is_short() => {
                let part = how.part_of(names.len());
                names = names.into_iter().take(part).collect();
            }
            Some(how) => return Err(how.error()),
        }
        let entry = |(name, id)| DirEntry {
            name,
            len: s.inodes[&id].size,
            is_file: true,
        };
        Ok(names.into_iter().map(entry).collect())
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let call = match how.access {
            Access::CreateNew => Call::Create,
            _ => Call::Open,
        };
        let mut s = self.at.enter(call)?;
        if how.direct && !s.options.direct {
            let text = "this simulated filesystem has no direct I/O";
            return Err(io::Error::new(ErrorKind::Unsupported, text));
        }
        let inode = if how.access == Access::CreateNew {
            if self.names(&mut s).now.contains_key(name) {
                return Err(io::Error::new(
                    ErrorKind::AlreadyExists,
                    format!("{name} exists"),
                ));
            }
            self.create(&mut s, name)?
        } else {
            self.lookup(&mut s, name)?
        };
        let medium = s.options.direct && s.options.medium_reads;
        let unit = u64::from(s.options.write_unit());
        let mark = s.inodes[&inode].write_back_errors.mark();
        drop(s);
        Ok(Arc::new(SimFile {
            at: self.at.clone(),
            inode,
            name: name.into(),
            direct: how.direct,
            writable: how.access != Access::Read,
            medium,
            unit,
            mark,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut s = self.at.enter(Call::Rename)?;
        let inode = self.lookup(&mut s, from)?;
        let fault = s.step(|| format!("rename {from} to {to}"))?;
        check(&s, fault)?;
        s.counters.renames += 1;
        // If both names lead to the same file, both stay, as POSIX requires.
        if self.lookup(&mut s, to).ok() != Some(inode) {
            let (from, to) = (from.to_owned(), to.to_owned());
            self.names(&mut s)
                .change(Change::Rename { from, to, inode });
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        let mut s = self.at.enter(Call::Remove)?;
        self.lookup(&mut s, name)?;
        let fault = s.step(|| format!("remove {name}"))?;
        check(&s, fault)?;
        s.counters.removes += 1;
        self.names(&mut s).change(Change::Remove {
            name: name.to_owned(),
        });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut s = self.at.enter(Call::Sync)?;
        let fault = s.step(|| "sync directory".to_owned())?;
        check(&s, fault)?;
        s.counters.dir_syncs += 1;
        if !s.rules.lie {
            self.names(&mut s).sync();
        }
        drop(s);
        self.at.runtime.point();
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        check_name(name)?;
        let mut s = self.at.enter(Call::Lock)?;
        let found = self.lookup(&mut s, name);
        if let Ok(inode) = found {
            check_unlocked(&s, name, inode)?;
        }
        let inode = found.or_else(|_| self.create(&mut s, name))?;
        let fault = s.step(|| format!("lock {name}"))?;
        check(&s, fault)?;
        s.locks.insert(inode);
        Ok(self.held(inode))
    }

    /// Locks without a scheduling point or a step of a plan, because the directory's lock comes right before
    /// it.
    fn lock_file(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        check_name(name)?;
        let (mut s, how) = self.at.state(Call::Lock)?;
        if let Some(how) = how {
            return Err(how.error());
        }
        let inode = self.lookup(&mut s, name)?;
        check_unlocked(&s, name, inode)?;
        s.locks.insert(inode);
        drop(s);
        Ok(self.held(inode))
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        check_name(name)?;
        let mut s = self.at.enter(Call::IsLocked)?;
        let found = self.lookup(&mut s, name);
        Ok(found.is_ok_and(|inode| s.locks.contains(&inode)))
    }

    fn facts(&self) -> io::Result<Facts> {
        Ok(self.at.enter(Call::Facts)?.options.facts())
    }

    fn free_space(&self) -> io::Result<u64> {
        let s = self.at.enter(Call::FreeSpace)?;
        Ok(s.free_sectors()
            .map_or(1 << 50, |free| free * u64::from(s.options.sector)))
    }

    fn whereabouts(&self) -> io::Result<Whereabouts> {
        let mut s = self.at.enter(Call::Whereabouts)?;
        Ok(self.names(&mut s).elsewhere.unwrap_or(Whereabouts::Here))
    }

    fn identity_of(&self, name: &str) -> io::Result<FileIdentity> {
        check_name(name)?;
        let mut s = self.at.enter(Call::Identity)?;
        let file = self.lookup(&mut s, name)?;
        Ok(FileIdentity { volume: 1, file })
    }
}

/// A held lock. Dropping it is not a scheduling point, because destructors run anywhere.
struct Lock {
    at: Boot,
    inode: u64,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut s = self.at.disk.lock();
        if s.boot == self.at.boot {
            s.locks.remove(&self.inode);
        }
    }
}
