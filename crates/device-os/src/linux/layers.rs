//! Layers below a filesystem: its devices, their parts, and so on down.
//!
//! The guarantee of a sync is that of the weakest layer. Each layer is asked separately, because an upper one
//! may not report the truth. The kernel sends no flush to a device that is set to `write through`, and so
//! none to the devices below it, whatever cache they have.

use super::attachment::Attachment;
use super::block::{self, Below, Located, reading};
use super::sysfs::{self, Roots};
use logforce_device::{Assessment, Barrier, FileState, ForceBy, Guarantee};
use logforce_device::{Facts, Layer, Plan, Source, Verdict, WriteCache};
use std::io;
use std::os::fd::BorrowedFd;
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
    /// Level of the next layer.
    pub level: u32,
    pub notes: Vec<String>,
    /// Function that examines the filesystem of a file that a device consists of.
    pub look: Look,
}

/// Behaviour of a mapped device.
pub enum Mapping {
    /// It keeps each block at the same location, and passes flushes on.
    ForGood,
    /// It gives blocks a location at the first write, and records it at a flush: thin volumes, caches and the
    /// like. Until then a crash of the system loses direct writes as well.
    AtFlush,
    /// Its targets are unknown, for this reason.
    Unseen(String),
    /// It has targets that are not of the kernel, for this reason.
    Foreign(String),
    /// It drops writes on purpose, for this reason.
    KeepsNothing(String),
}

/// Reason why a sync does not reach this layer; `None` if it does.
pub type Dropped<'a> = Option<&'a str>;

/// Advice about a part of the stack that cannot be seen.
pub const ACCEPT: &str = "make it visible, or accept the weaker guarantee explicitly";

impl<'a> Walk<'a> {
    /// Begins a search at the device of a filesystem.
    pub fn new(roots: &'a Roots, look: Look) -> Walk<'a> {
        Walk {
            roots,
            layers: Vec::new(),
            level: 1,
            notes: Vec::new(),
            look,
        }
    }

    /// Returns the party that answers for all layers: each of them has to keep its word.
    pub fn source(&self) -> Source {
        let sources = self.layers.iter().map(|layer| layer.synced.source);
        sources.min().unwrap_or(Source::Nobody)
    }

    /// Follows a device down, through at most `depth` devices and files.
    pub fn device(&mut self, device: &Located, dropped: Dropped<'_>, depth: u32) -> io::Result<()> {
        let name = device.whole_name();
        self.notes.extend(device.remarks()?);
        if device.is_memory() {
            self.notes
                .push(format!("The device {name} is memory of this machine."));
            let why =
                "it is memory of this machine: nothing in it survives a restart of the system";
            return self.push(device, in_memory(&name, why));
        }
        let mapping = self.mapping(device)?;
        if let Some(Mapping::KeepsNothing(why)) = &mapping {
            let synced = Assessment::new(
                Guarantee::Nothing,
                Verdict::Contradicted,
                Source::System,
                why.clone(),
            );
            let mut layer = Layer::new(&name, synced);
            layer.written = Guarantee::Nothing;
            self.push(device, layer)?;
        }
        let (file, parts) = (device.backing_file()?, device.made_of()?);
        if file.is_none() && parts.is_empty() {
            let leaf = leaf(device, dropped, self.roots)?;
            return self.push(device, leaf);
        }
        let cache = device.write_cache()?;
        let passes = match cache {
            WriteCache::Through => "it is set to `write through`: no flush passes it",
            _ => "it passes flushes on to the layers below it",
        };
        let mut layer = Layer::passing(&name, passes);
        match mapping {
            Some(Mapping::AtFlush) => {
                layer.synced.evidence =
                    "it records the location of its blocks only at a flush".to_owned();
                layer.written = Guarantee::ProcessCrash;
            }
            Some(Mapping::Unseen(why)) => layer = Layer::unseen(&name, Guarantee::OsCrash, why),
            Some(Mapping::Foreign(why)) => {
                layer = Layer::unseen(&name, Guarantee::OsCrash, why);
                layer.written = Guarantee::OsCrash;
            }
            _ => {}
        }
        if cache == WriteCache::Unknown && dropped.is_none() {
            let unknown = Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Unknown,
                Source::Nobody,
                "it is unknown whether it passes flushes on",
            );
            if layer.synced.verdict > Verdict::Unknown {
                layer.synced = unknown;
            }
            layer.written = layer.written.min(Guarantee::OsCrash);
        }
        self.push(device, layer)?;
        let why;
        let dropped = match (dropped, cache) {
            (None, WriteCache::Through) => {
                why = format!(
                    "{name} says `write through` (/sys/block/{name}/queue/write_cache), so the kernel \
                     drops the flushes that the layers below it need"
                );
                Some(why.as_str())
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
        self.level += 1;
        for part in parts {
            match block::by_name(&part, self.roots)? {
                Some(part) => self.device(&part, dropped, depth)?,
                None => self.unseen(&part, &format!("{name} is made of it")),
            }
        }
        if let Some(file) = file {
            self.file(device, &file, dropped, depth)?;
        }
        self.level -= 1;
        Ok(())
    }

    /// Adds the layer of a device, with everything that the device reports.
    fn push(&mut self, device: &Located, mut layer: Layer) -> io::Result<()> {
        layer.about = device.in_words()?;
        layer.write_cache = device.write_cache()?;
        layer.readings.extend(device.readings()?);
        self.add(layer);
        Ok(())
    }

    /// Adds a layer at the present level.
    pub fn add(&mut self, mut layer: Layer) {
        layer.level = self.level;
        self.layers.push(layer);
    }

    /// Adds the layers of a filesystem that was examined by itself, below the present one. `name` is that of
    /// the filesystem's own layer, and `written` its guarantee of an unsynced write.
    pub fn below(&mut self, name: String, facts: &Facts) {
        let sync = Plan {
            direct: false,
            force: ForceBy::Barrier(Barrier::Data),
        };
        let mut own = facts.clone();
        own.layers.clear();
        let mut layer = match own.assess_plan(sync, FileState::Growing) {
            Some(synced) => Layer::new(name, synced),
            None => through_the_cache(name),
        };
        layer.about = facts.filesystem.clone();
        if !facts.mount_options.is_empty() {
            let from = "/proc/self/mountinfo";
            layer
                .readings
                .push(reading("mount options", &facts.mount_options, from));
        }
        self.add(layer);
        for mut layer in facts.layers.iter().cloned() {
            layer.level += self.level;
            self.layers.push(layer);
        }
    }

    /// Adds a part that cannot be followed: it may be memory, or mounted without barriers.
    pub fn unseen(&mut self, name: &str, why: &str) {
        let why = format!(
            "{why}; it may drop syncs. Use a directory whose layers can be seen, or \
             {ACCEPT}"
        );
        self.add(Layer::unseen(name, Guarantee::OsCrash, why));
    }

    /// Follows the device of that path, such as a journal's.
    pub fn path(
        &mut self,
        source: &str,
        filesystem: &str,
        dropped: Dropped<'_>,
        depth: u32,
    ) -> io::Result<()> {
        match block::by_path(source, filesystem, self.roots)? {
            Below::Device(device) => self.device(&device, dropped, depth)?,
            _ => self.unseen(source, "it was not found in /dev and /sys"),
        }
        Ok(())
    }
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
fn leaf(device: &Located, dropped: Dropped<'_>, roots: &Roots) -> io::Result<Layer> {
    let name = device.whole_name();
    if device.is_of(&["loop", "dm-", "md", "md_d", "bcache"]) {
        return Ok(Layer::unseen(
            name.clone(),
            Guarantee::OsCrash,
            format!("what it is made of cannot be seen; {ACCEPT}"),
        ));
    }
    let judged = device.judge(roots)?;
    let synced = if let Attachment::Served(_) = device.attachment()? {
        let why = "it is served by a program or another machine, whose word it is that a flush \
                   reaches a medium";
        let guarantee = match (dropped, judged.cache) {
            (Some(_), WriteCache::Through) | (None, _) => Guarantee::PowerLoss,
            (Some(_), _) => Guarantee::OsCrash,
        };
        Assessment::new(guarantee, Verdict::Unknown, Source::Server, why)
    } else {
        match (judged.cache, dropped) {
            (WriteCache::Through, _) | (_, None) => judged.flushed,
            (WriteCache::Back, Some(why)) => Assessment::new(
                Guarantee::OsCrash,
                Verdict::Contradicted,
                Source::System,
                format!("it has a volatile cache that nothing flushes: {why}"),
            ),
            (_, Some(why)) => Assessment::new(
                Guarantee::OsCrash,
                Verdict::Unknown,
                judged.source,
                format!(
                    "it is unknown whether it has a volatile cache, and nothing would flush it: {why}"
                ),
            ),
        }
    };
    let mut layer = Layer::new(&name, synced);
    layer.written = judged.written;
    layer.readings = judged.readings;
    Ok(layer)
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
