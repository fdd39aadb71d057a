//! Layers below a filesystem: its devices, their parts, and so on down.
//!
//! The guarantee of a sync is that of the weakest layer. Each layer is asked separately, because an upper one
//! may not report the truth. The kernel sends no flush to a device that is set to `write through`, and so
//! none to the devices below it, whatever cache they have.

use super::block::{self, Below, Located};
use super::error::{at, uninterrupted, uninterrupted_io};
use super::sysfs::{self, Roots};
use logforce_device::{Assessment, Barrier, FileState, ForceBy, Guarantee};
use logforce_device::{Facts, Layer, Plan, Source, Verdict, WriteCache};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Filesystem of a file, and the layers below it.
pub struct Stack {
    /// Facts that do not depend on a directory: without direct I/O, volume and size.
    pub facts: Facts,
    /// Device right below the filesystem.
    pub located: Option<Located>,
}

/// Function that examines the stack of a file down to a depth.
pub type Look = fn(BorrowedFd<'_>, &Path, &Roots, u32) -> io::Result<Stack>;

/// Layers that were found, and the state of the search.
pub struct Walk<'a> {
    pub roots: &'a Roots,
    pub layers: Vec<Layer>,
    pub notes: Vec<String>,
    /// Function that examines the filesystem of a file that a device consists of.
    pub look: Look,
}

/// Reason why a sync does not reach this layer; `None` if it does.
pub type Dropped<'a> = Option<&'a str>;

/// Advice about a part of the stack that cannot be seen.
pub const ACCEPT: &str = "make it visible, or accept the weaker guarantee explicitly";

impl Walk<'_> {
    /// Follows a device down, through at most `depth` devices and files.
    pub fn device(&mut self, device: &Located, dropped: Dropped<'_>, depth: u32) -> io::Result<()> {
        let name = device.whole_name();
        if device.is_memory() {
            self.notes
                .push(format!("The device {name} is memory of this machine."));
            self.layers.push(in_memory(
                &name,
                "it is memory of this machine: nothing in it survives a restart of the system",
            ));
            return Ok(());
        }
        let (file, parts) = (device.backing_file()?, device.made_of()?);
        if file.is_none() && parts.is_empty() {
            let leaf = leaf(device, dropped)?;
            self.layers.push(leaf);
            return Ok(());
        }
        let why;
        let dropped = match (dropped, device.write_cache()?) {
            (None, WriteCache::Through) => {
                why = format!(
                    "{name} says `write through` (/sys/block/{name}/queue/write_cache), so the kernel \
                     drops the flushes that the layers below it need"
                );
                Some(why.as_str())
            }
            (None, WriteCache::Unknown) => {
                let synced = Assessment::new(
                    Guarantee::PowerLoss,
                    Verdict::Unknown,
                    Source::Nobody,
                    "it is unknown whether it passes flushes on",
                );
                let mut layer = Layer::new(&name, synced);
                layer.written = Guarantee::OsCrash;
                self.layers.push(layer);
                None
            }
            (dropped, _) => dropped,
        };
        let Some(depth) = depth.checked_sub(1) else {
            self.unseen(&name, "it is below the greatest depth that is examined");
            return Ok(());
        };
        if !parts.is_empty() {
            self.notes
                .push(format!("{name} is made of {}.", parts.join(", ")));
        }
        if device.is_of(&["dm-"]) && !self.maps_for_good(device, &parts)? {
            let synced = Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Declared,
                Source::System,
                "it records the location of its blocks only at a flush",
            );
            self.layers.push(Layer::new(&name, synced));
        }
        for part in parts {
            match block::by_name(&part, self.roots)? {
                Some(part) => self.device(&part, dropped, depth)?,
                None => self.unseen(&part, &format!("{name} is made of it")),
            }
        }
        match file {
            Some(file) => self.file(device, &file, dropped, depth),
            None => Ok(()),
        }
    }

    /// Follows an overlay to its upper directory, unless the overlay drops syncs. `path` leads to the open
    /// file or directory of the overlay.
    pub fn upper(
        &mut self,
        mount: &super::mounts::Mount,
        path: &Path,
        drops: bool,
        depth: u32,
    ) -> io::Result<()> {
        let Some(upper) = mount
            .options
            .split(',')
            .find_map(|o| o.strip_prefix("upperdir="))
        else {
            // Without an upper directory nothing can be written here.
            return Ok(());
        };
        let name = format!("the overlay's upper directory {upper}");
        let note = |what: &str| {
            format!(
                "An overlay keeps its files on another filesystem (upper directory {upper}), {what}"
            )
        };
        if drops {
            self.notes.push(note("and never syncs them there."));
            let synced = Assessment::new(
                Guarantee::ProcessCrash,
                Verdict::Contradicted,
                Source::System,
                "it is mounted `volatile`, without barriers: it drops every sync",
            );
            let name = format!("the overlay at {}", mount.mount_point.display());
            self.layers.push(Layer::new(name, synced));
            return Ok(());
        }
        let below = match depth.checked_sub(1) {
            Some(depth) => open_upper(mount, upper, path)?
                .map(|fd| (self.look)(fd.as_fd(), Path::new(upper), self.roots, depth))
                .transpose()?,
            None => None,
        };
        let Some(below) = below else {
            self.notes.push(note(
                "which cannot be seen from here; put the log on a separate volume.",
            ));
            self.unseen(
                &name,
                "it cannot be seen from here, nor how its filesystem is mounted",
            );
            return Ok(());
        };
        let below = below.facts;
        self.notes.push(note(&format!(
            "the {} at {}.",
            below.filesystem, below.mount_point
        )));
        let sync = Plan {
            direct: false,
            force: ForceBy::Barrier(Barrier::Data),
        };
        if let Some(synced) = below.assess_plan(sync, FileState::Growing) {
            let name = format!("the {} of {name}", below.filesystem);
            self.layers.push(Layer::new(name, synced));
        }
        let notes = below.notes.into_iter();
        self.notes
            .extend(notes.map(|n| format!("Below the overlay: {n}")));
        Ok(())
    }

    /// Returns true if a mapped device is known to keep each block at the same location. Thin volumes, caches
    /// and the like give blocks a location at the first write, and record it at a flush. Until then a crash
    /// of the system loses direct writes as well.
    fn maps_for_good(&self, device: &Located, parts: &[String]) -> io::Result<bool> {
        let uuid = |device: &Located| device.number::<String>("dm/uuid");
        let own = uuid(device)?.unwrap_or_default();
        let is_plain = ["CRYPT-", "mpath-", "DMRAID-"]
            .iter()
            .any(|kind| own.starts_with(kind))
            || own.starts_with("part") && own.contains("-mpath-");
        if is_plain || !own.starts_with("LVM-") {
            return Ok(is_plain);
        }
        // LVM marks the parts of a volume by a suffix: a thin pool is `LVM-…-tpool`.
        for part in parts {
            let Some(part) = block::by_name(part, self.roots)? else {
                return Ok(false);
            };
            let below = uuid(&part)?.unwrap_or_default();
            let suffix = below.strip_prefix("LVM-").and_then(|u| u.split_once('-'));
            if !matches!(suffix, None | Some((_, "real"))) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds a part that cannot be followed: it may be memory, or mounted without barriers.
    pub fn unseen(&mut self, name: &str, why: &str) {
        let why = format!(
            "{why}; it may drop syncs. Use a directory whose layers can be seen, or \
             {ACCEPT}"
        );
        self.layers
            .push(Layer::unseen(name, Guarantee::OsCrash, why));
    }

    /// Follows the device of that path, such as a journal's.
    pub fn path(&mut self, source: &str, filesystem: &str, depth: u32) -> io::Result<()> {
        match block::by_path(source, filesystem, self.roots)? {
            Below::Device(device) => self.device(&device, None, depth)?,
            _ => self.unseen(source, "it was not found in /dev and /sys"),
        }
        Ok(())
    }
}

/// Opens the upper directory, if its path leads here to the directory that the overlay uses. The path is
/// valid where the overlay was mounted; in a container another directory may have it. An overlay shows times,
/// owner and mode of its upper directory unchanged, so they are compared.
fn open_upper(
    mount: &super::mounts::Mount,
    upper: &str,
    path: &Path,
) -> io::Result<Option<std::os::fd::OwnedFd>> {
    let inner = mount.root.strip_prefix("/").unwrap_or(&mount.root);
    let upper = Path::new(upper).join(inner);
    let Some(shown) = sysfs::real(path)? else {
        return Ok(None);
    };
    let Ok(below) = shown.strip_prefix(&mount.mount_point) else {
        return Ok(None);
    };
    // A directory that was never changed is not in the upper directory. The nearest ancestor that is there is
    // used.
    for part in below.ancestors() {
        let real = upper.join(part);
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let open = || rustix::fs::open(&real, flags, Mode::empty()).map_err(io::Error::from);
        let Some(fd) = reachable(uninterrupted_io(open), "open", &real)? else {
            continue;
        };
        let shown = mount.mount_point.join(part);
        // Three attempts, because the directory may be changing.
        for _ in 0..3 {
            let there =
                uninterrupted(|| rustix::fs::fstat(&fd)).map_err(|e| at(e, "look at", &real))?;
            let Some(here) =
                sysfs::found(uninterrupted_io(|| fs::metadata(&shown)), "look at", &shown)?
            else {
                return Ok(None);
            };
            if (here.mtime(), here.mtime_nsec())
                == (there.st_mtime as i64, there.st_mtime_nsec as i64)
                && (here.ctime(), here.ctime_nsec())
                    == (there.st_ctime as i64, there.st_ctime_nsec as i64)
                && (here.mode(), here.uid(), here.gid())
                    == (there.st_mode, there.st_uid, there.st_gid)
            {
                return Ok(Some(fd));
            }
        }
        return Ok(None);
    }
    Ok(None)
}

/// Returns the answer about a path that another process chose. `None` if the path leads nowhere here, or if
/// this process may not read it. That only lowers the guarantee, so it is not an error.
pub fn reachable<T>(answer: io::Result<T>, doing: &str, path: &Path) -> io::Result<Option<T>> {
    match answer {
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        answer => sysfs::found(answer, doing, path),
    }
}

/// Returns the layer of a device that consists of no other device that the system shows.
fn leaf(device: &Located, dropped: Dropped<'_>) -> io::Result<Layer> {
    let name = device.whole_name();
    let (cache, source) = (device.write_cache()?, device.cache_source()?);
    let layer = |guarantee, verdict, source, evidence: String| {
        let synced = Assessment::new(guarantee, verdict, source, evidence);
        let mut layer = Layer::new(&name, synced);
        // Without a flush only the device's own report counts: a setting sends no flush.
        layer.written = match source.is_device() && cache == WriteCache::Through {
            true => guarantee,
            false => Guarantee::OsCrash,
        };
        layer
    };
    if device.is_of(&["loop", "dm-", "md", "md_d", "bcache"]) {
        return Ok(Layer::unseen(
            name.clone(),
            Guarantee::OsCrash,
            format!("what it is made of cannot be seen; {ACCEPT}"),
        ));
    }
    if device.is_of(block::SERVED) {
        let why = "it is served by a program or another machine, whose word it is that a flush \
                   reaches a medium";
        let guarantee = match (dropped, cache) {
            (Some(_), WriteCache::Through) | (None, _) => Guarantee::PowerLoss,
            (Some(_), _) => Guarantee::OsCrash,
        };
        return Ok(layer(
            guarantee,
            Verdict::Unknown,
            Source::Server,
            why.to_owned(),
        ));
    }
    let driver = device.driver_says_volatile()?;
    Ok(match (cache, dropped) {
        (WriteCache::Through, _) if driver == Some(true) => layer(
            Guarantee::OsCrash,
            Verdict::Contradicted,
            source,
            format!(
                "the kernel is configured to believe that it has no volatile cache \
                 (/sys/block/{name}/queue/write_cache says `write through`) and sends it no flushes, \
                 but it says itself that it has one (`write back`)"
            ),
        ),
        (WriteCache::Through, _) => layer(
            Guarantee::PowerLoss,
            Verdict::Declared,
            source,
            source.says_no_cache(&name),
        ),
        (WriteCache::Back, None) => layer(
            Guarantee::PowerLoss,
            Verdict::Declared,
            source,
            source.says_flushed(),
        ),
        (WriteCache::Back, Some(why)) => layer(
            Guarantee::OsCrash,
            Verdict::Contradicted,
            Source::System,
            format!("it has a volatile cache that nothing flushes: {why}"),
        ),
        (WriteCache::Unknown, None) => layer(
            Guarantee::PowerLoss,
            Verdict::Unknown,
            source,
            "it is unknown whether the device has a volatile cache".to_owned(),
        ),
        (_, why) => layer(
            Guarantee::OsCrash,
            Verdict::Unknown,
            source,
            format!(
                "it is unknown whether it has a volatile cache, and nothing would flush it: {}",
                why.unwrap_or_default()
            ),
        ),
    })
}

pub fn in_memory(name: &str, why: &str) -> Layer {
    let synced = Assessment::new(
        Guarantee::ProcessCrash,
        Verdict::Contradicted,
        Source::System,
        why,
    );
    Layer::new(name, synced)
}

/// Makes a layer that passes syncs on, and keeps unsynced data in the system's cache.
pub fn through_the_cache(name: String) -> Layer {
    let synced = Assessment::new(
        Guarantee::PowerLoss,
        Verdict::Declared,
        Source::System,
        "a flush is a sync of the file",
    );
    Layer::new(name, synced)
}
