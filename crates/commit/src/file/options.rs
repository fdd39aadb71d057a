//! Opening of a durable file.

use crate::advisor::Advisor;
use crate::file::File;
use crate::file::beside::Beside;
use crate::file::error::{Error, Result};
use crate::file::names::{located, sync_entry};
use crate::file::shared::{Forcing, Lock, Opened, Shared};
use crate::method::{ForceConfig, MethodChoice};
use crate::write_concurrency::{WriteConcurrency, WriteLimits};
use logforce_device::{
    self as device, Access, Barrier, Directory, Facts, FileState, FilesystemKind, ForceBy,
    Guarantee, Method, OpenFile, System, Verdict, planted,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of forces in flight. Only write-throughs past the system's cache overlap.
const MOST_IN_FLIGHT: usize = 16;
/// Size at and above which a write-through counts as large, bytes.
const LARGE_WRITE: u64 = 64 << 10;

/// Options of a durable file. The crate `logforce` wraps them, and documents each option.
#[derive(Debug, Clone)]
pub struct Options {
    create: bool,
    create_new: bool,
    lock: bool,
    aligned: bool,
    method: Option<Method>,
    require: Guarantee,
    require_verdict: Verdict,
    calibrate: bool,
    calibration_cache: Option<PathBuf>,
    file_mode: Option<u32>,
    in_flight_at_first: Option<usize>,
    advisor: Option<Arc<dyn Advisor>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            create: false,
            create_new: false,
            lock: false,
            aligned: false,
            method: None,
            require: Guarantee::PowerLoss,
            require_verdict: Verdict::Declared,
            calibrate: true,
            calibration_cache: None,
            file_mode: None,
            in_flight_at_first: None,
            advisor: None,
        }
    }
}

impl Options {
    /// Returns the defaults: an existing file, not locked, not aligned, safe against loss of power.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether an opening creates the file if it is missing.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets whether an opening creates the file, and fails if there is one.
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Sets whether the file is locked against other openings with this option.
    pub fn lock(mut self, lock: bool) -> Self {
        self.lock = lock;
        self
    }

    /// Sets whether each write begins and ends at a multiple of [`File::write_unit`].
    pub fn aligned(mut self, aligned: bool) -> Self {
        self.aligned = aligned;
        self
    }

    /// Sets the method of a durable write.
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Sets the minimum guarantee of a commit.
    pub fn require(mut self, guarantee: Guarantee) -> Self {
        self.require = guarantee;
        self
    }

    /// Sets the minimum verdict on that guarantee.
    pub fn require_verdict(mut self, verdict: Verdict) -> Self {
        self.require_verdict = verdict;
        self
    }

    /// Sets whether an opening measures the methods, if none is named and no result is cached.
    pub fn calibrate(mut self, calibrate: bool) -> Self {
        self.calibrate = calibrate;
        self
    }

    /// Sets the directory in which programs share measurements and results of power cuts.
    pub fn calibration_cache(mut self, dir: impl Into<PathBuf>) -> Self {
        self.calibration_cache = Some(dir.into());
        self
    }

    /// Sets the permission bits of a file that this opening creates.
    pub fn file_mode(mut self, mode: u32) -> Self {
        self.file_mode = Some(mode);
        self
    }

    /// Sets the number of forces in flight before anything is measured. 0: one sync, which waits for the
    /// threads whose commits were acknowledged last to commit again.
    #[doc(hidden)]
    pub fn in_flight_at_first(mut self, forces: usize) -> Self {
        self.in_flight_at_first = Some(forces);
        self
    }

    /// Sets the advisor that chooses the method if none is named.
    #[doc(hidden)]
    pub fn default_advisor(mut self, advisor: Arc<dyn Advisor>) -> Self {
        self.advisor.get_or_insert(advisor);
        self
    }

    /// Opens the file `path` on `system`.
    ///
    /// # Errors
    /// See `logforce::file::Options::open`.
    #[doc(hidden)]
    pub fn open(self, system: &dyn System, path: &Path) -> Result<File> {
        // A link leads to the file that is meant: the lock and the name to sync are that file's.
        let target = system.resolved(path);
        let (dir, name) = located(system, &target)?;
        self.check_existence(&*dir, name, path)?;
        let runtime = system.runtime();
        let choice = MethodChoice {
            dir: &Beside::file(dir.clone(), name),
            runtime: &*runtime,
            // A file may get its size and its blocks with any write.
            state: FileState::Growing,
            method: self.method,
            require: self.require,
            require_verdict: self.require_verdict,
            advisor: self.advisor.as_deref(),
            calibrate: self.calibrate,
            cache: self.calibration_cache.as_deref(),
        };
        let facts = choice.facts();
        let mut facts = facts.map_err(Error::io("check the filesystem of", path))?;
        let direct_unit = facts.write_unit();
        if !self.aligned {
            // For a file whose writes are not aligned, the filesystem has no direct I/O.
            facts.direct = None;
            facts.direct_unknown = None;
        }
        // Fails before anything is created.
        let force = choice.choose(&facts).map_err(Error::Refused)?;
        let by_facts = forcing(&choice, &facts, force.clone())?;
        sync_entry(system, &*dir, name)?;
        if let Some(mode) = self.file_mode {
            dir.set_file_mode(mode);
        }
        let lock_name = format!("{name}.lock");
        let lock = self
            .lock
            .then(|| dir.lock(&lock_name).map_err(locking(path)));
        let lock = lock.transpose()?;
        // After locking: a calibration must not load the disk if the lock is not available.
        let advised = choice.advise(force, &facts, direct_unit);
        // The advice is for a log, whose segments are written before. It may be too weak for a file that grows.
        let advised = forcing(&choice, &facts, advised).ok();
        let is_enough = |f: &Forcing| f.by.granted() >= by_facts.by.granted();
        let forcing = advised.filter(is_enough).unwrap_or(by_facts);
        let access = FileAccess {
            dir: &dir,
            name,
            path,
            direct: forcing.method.plan().direct,
        };
        let (file, created) = access.open(&self)?;
        let opened = self.make_ready(&access, file, created, lock)?;
        let alignment = opened.file.direct_alignment();
        let alignment = alignment.map_or(0, |a| a.offset.max(a.memory));
        let direct_unit = direct_unit.max(alignment.next_power_of_two());
        let concurrency = WriteConcurrency::here(
            forcing.method.plan(),
            facts.kind == FilesystemKind::Relocating,
            WriteLimits {
                most: MOST_IN_FLIGHT,
                at_first: self.in_flight_at_first,
                large: LARGE_WRITE,
            },
        );
        let forcing = Forcing {
            direct_unit,
            unit: self.aligned.then_some(direct_unit),
            ..forcing
        };
        Ok(File::new(Shared::new(
            path.to_owned(),
            opened,
            runtime.clone(),
            forcing,
            concurrency,
        )))
    }

    /// Fails early if the file is missing, or if it should be. Otherwise a failing opening would leave a lock
    /// file and a measurement.
    fn check_existence(&self, dir: &dyn Directory, name: &str, path: &Path) -> Result<()> {
        use io::ErrorKind::{AlreadyExists, NotFound};
        let fail = |doing, kind: io::ErrorKind| Err(Error::io(doing, path)(kind.into()));
        match dir.identity_of(name).map_err(|e| e.kind()) {
            Err(NotFound) if !self.create && !self.create_new => fail("open", NotFound),
            Ok(_) if self.create_new => fail("create", AlreadyExists),
            _ => Ok(()),
        }
    }

    /// Makes durable what the program will find when it begins, and completes the lock.
    fn make_ready(
        &self,
        access: &FileAccess<'_>,
        file: Arc<dyn device::File>,
        created: bool,
        lock: Option<Lock>,
    ) -> Result<Opened> {
        let &FileAccess {
            dir, name, path, ..
        } = access;
        let lock: Option<Lock> = match lock {
            // Locks the file as well: otherwise a second opening could write beside this one after the lock
            // file was deleted.
            Some(lock) if !planted!("file-itself-unlocked") => {
                let of_file = dir.lock_file(name).map_err(locking(path))?;
                Some(Box::new((of_file, lock)))
            }
            lock => lock,
        };
        // The program will act on what it reads, which an earlier process may have written and not synced.
        // Otherwise a power cut takes back what this program has seen. (After a sync that has failed, the
        // cache may show what the medium lacks, and this one succeeds: `File::read_medium_at`.)
        if !created && !planted!("file-opened-unsynced") {
            let synced = file.barrier(Barrier::Full);
            synced.map_err(Error::io("sync", path))?;
        }
        // Otherwise a power cut removes the name, and with it everything that was committed. A process that
        // created the file may have ended before its own sync.
        if !planted!("file-name-unsynced") {
            dir.sync()
                .map_err(Error::io("sync the directory of", path))?;
        }
        Ok(Opened {
            dir: dir.clone(),
            name: name.to_owned(),
            file,
            lock,
        })
    }
}

/// The file to open.
struct FileAccess<'a> {
    dir: &'a Arc<dyn Directory>,
    name: &'a str,
    /// Path as the user gave it, for messages.
    path: &'a Path,
    direct: bool,
}

impl FileAccess<'_> {
    fn attempt(&self, access: Access) -> io::Result<Arc<dyn device::File>> {
        let direct = self.direct;
        self.dir.open(self.name, OpenFile { access, direct })
    }

    /// Opens or creates the file. Returns true if it was created.
    fn open(&self, options: &Options) -> Result<(Arc<dyn device::File>, bool)> {
        if options.create_new {
            let made = self.attempt(Access::CreateNew);
            return Ok((made.map_err(Error::io("create", self.path))?, true));
        }
        match self.attempt(Access::Write) {
            Err(e) if options.create && e.kind() == io::ErrorKind::NotFound => {}
            opened => return Ok((opened.map_err(Error::io("open", self.path))?, false)),
        }
        match self.attempt(Access::CreateNew) {
            // Another opening has created it meanwhile.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let opened = self.attempt(Access::Write);
                Ok((opened.map_err(Error::io("open", self.path))?, false))
            }
            made => Ok((made.map_err(Error::io("create", self.path))?, true)),
        }
    }
}

/// Returns the forcing by the chosen method. A commit needs a barrier, also if the method is a write-through.
///
/// # Errors
/// [`Error::Refused`] if the barrier guarantees too little.
fn forcing(choice: &MethodChoice<'_>, facts: &Facts, chosen: ForceConfig) -> Result<Forcing> {
    let companion = companion(chosen.method);
    let method = companion.unwrap_or(chosen.method);
    let minimum = (choice.require, choice.require_verdict);
    let by = choice.assess(method, minimum, facts);
    let by = by.map_err(Error::Refused)?;
    let method = match chosen.granted() >= by.granted() {
        true => chosen.method,
        false => by.method,
    };
    Ok(Forcing {
        barrier: match by.plan.force {
            ForceBy::Barrier(barrier) => Some(barrier),
            _ => None,
        },
        by,
        method,
        in_place: facts.kind == FilesystemKind::InPlace,
        // Acceptance of any doubt includes this one.
        needs_written: facts.journalled == Some(false)
            && choice.require == Guarantee::PowerLoss
            && choice.require_verdict >= Verdict::Declared,
        direct_unit: 0,
        unit: None,
    })
}

/// Returns the method of a barrier, for a method that writes through; `None` for any other one.
fn companion(method: Method) -> Option<Method> {
    match method {
        Method::Dsync => Some(Method::Fdatasync),
        Method::DirectDsync => Some(Method::DirectFdatasync),
        Method::WriteThrough | Method::NoBufferingWriteThrough => Some(Method::FlushData),
        _ => None,
    }
}

/// Returns a function that makes the error of a lock that was not granted.
fn locking(path: &Path) -> impl Fn(io::Error) -> Error + use<'_> {
    move |e| match e.kind() {
        io::ErrorKind::WouldBlock => Error::Locked {
            path: path.to_owned(),
        },
        _ => Error::io("lock", path)(e),
    }
}
