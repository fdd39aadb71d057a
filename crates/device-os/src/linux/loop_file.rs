//! File in which a loop device keeps its blocks.

use super::block::{self, Located};
use super::error::uninterrupted_io;
use super::extents;
use super::layers::{Dropped, Walk, in_memory, reachable, through_the_cache};
use logforce_device::{
    Assessment, Blocks, Facts, FilesystemKind, Guarantee, Layer, Source, Verdict,
};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

impl Walk<'_> {
    /// Follows a loop device to the filesystem of its file.
    pub fn file(
        &mut self,
        device: &Located,
        file: &Path,
        dropped: Dropped<'_>,
        depth: u32,
    ) -> io::Result<()> {
        let name = device.whole_name();
        self.notes.push(format!(
            "{name} keeps its blocks in the file {}: data here is only as durable as that file.",
            file.display()
        ));
        let held = format!("{}, the file of {name}", file.display());
        // Data written to the device is in the system's cache until something syncs the file.
        if let Some(why) = dropped {
            let why = format!("{why}: nothing writes the file out of the system's cache");
            self.add(in_memory(&held, &why));
            return Ok(());
        }
        if file.to_string_lossy().starts_with("/memfd:") {
            self.add(in_memory(&held, "the file is in memory"));
            return Ok(());
        }
        let stat = reachable(uninterrupted_io(|| fs::metadata(file)), "look at", file)?;
        // The kernel prints the path of a deleted file this way. An existing file may also have such a name.
        if file.to_string_lossy().ends_with(" (deleted)") {
            match stat {
                None => self.add(in_memory(
                    &held,
                    "the file was deleted: it disappears with the device, at the latest at a restart of the system",
                )),
                Some(_) => self.add(Layer::unseen(
                    held,
                    Guarantee::ProcessCrash,
                    "by its name the file was deleted, and then it disappears at a restart of the system",
                )),
            }
            return Ok(());
        }
        let Some(stat) = stat else {
            self.unseen(
                &held,
                "the file was not found here, or this process may not read it",
            );
            return Ok(());
        };
        if stat.file_type().is_block_device() {
            let number = stat.rdev();
            let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
            self.add(through_the_cache(held));
            self.level += 1;
            match block::by_number(major, minor, self.roots)? {
                Some(below) => self.device(&below, None, depth)?,
                None => self.unseen(&format!("{major}:{minor}"), &format!("{name} lies on it")),
            }
            self.level -= 1;
            return Ok(());
        }
        // The path is valid for the process that attached the file. In a container another file may have it.
        let sectors: u64 = device.number("size")?.unwrap_or(0);
        let offset: u64 = device.number("loop/offset")?.unwrap_or(0);
        let end = offset.saturating_add(sectors << 9);
        let is_it = stat.is_file() && stat.len() >= end;
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let open = || rustix::fs::open(file, flags, Mode::empty()).map_err(io::Error::from);
        let opened = match is_it {
            true => reachable(uninterrupted_io(open), "open", file)?,
            false => None,
        };
        let Some(opened) = opened else {
            self.unseen(&held, "its path leads to another file here");
            return Ok(());
        };
        let below = (self.look)(opened.as_fd(), file, self.roots, depth)?.facts;
        let at = match &*below.mount_point {
            "" => String::new(),
            point => format!(" at {point}"),
        };
        if below.kind == FilesystemKind::Volatile {
            self.notes.push(format!(
                "That file is on {}, in memory: nothing here survives a restart of the system.",
                below.filesystem
            ));
        }
        if below.barriers == Some(false) {
            self.notes.push(format!(
                "The filesystem of that file ({}) is mounted without barriers.",
                below.filesystem
            ));
        }
        if let Some(why) = fails_in_silence(device, file, end, &below)? {
            let synced =
                Assessment::new(Guarantee::PowerLoss, Verdict::Unknown, Source::System, why);
            self.add(Layer::new(&held, synced));
        }
        // A flush of the device becomes a sync of its file.
        self.below(format!("the {}{at} below {name}", below.filesystem), &below);
        let notes = below.notes.into_iter();
        self.notes
            .extend(notes.map(|n| format!("Below {name}: {n}")));
        Ok(())
    }
}

/// Returns the reason why a write to a loop device may fail after the device has acknowledged it. It is still
/// in the system's cache then, and the filesystem of the file may lack space for it. The kernel reports that
/// once, to the first flush, which may belong to another writer.
fn fails_in_silence(
    device: &Located,
    file: &Path,
    end: u64,
    below: &Facts,
) -> io::Result<Option<String>> {
    let name = device.whole_name();
    if device.number("loop/dio")? == Some(1) {
        return Ok(None);
    }
    let why = match below.kind {
        FilesystemKind::InPlace => {
            let how = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let open = || rustix::fs::open(file, how, Mode::empty()).map_err(io::Error::from);
            let opened = reachable(uninterrupted_io(open), "open", file)?;
            match opened.map_or(Blocks::Unknown, |f| extents::blocks(f.as_fd(), 0..end)) {
                Blocks::Written => return Ok(None),
                Blocks::Unknown => {
                    "it cannot be seen whether the file has all of its blocks".to_owned()
                }
                _ => "the file does not have all of its blocks yet".to_owned(),
            }
        }
        // In memory: that already is the answer.
        FilesystemKind::Volatile => return Ok(None),
        _ => format!("{} gives each write new blocks", below.filesystem),
    };
    Ok(Some(format!(
        "{why}, and {name} writes it through the system's cache (/sys/block/{name}/loop/dio is 0). \
         Where its filesystem fills up, the kernel reports the failed write once, to the flush that comes \
         first, and acknowledged data may be lost in silence. Attach it with `losetup --direct-io=on`, or \
         fill the file with data first"
    )))
}
