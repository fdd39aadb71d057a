//! Upper directory of an overlay, which holds everything that is written to it.

use super::error::{at, uninterrupted, uninterrupted_io};
use super::layers::{Walk, reachable};
use super::mounts::Mount;
use super::sysfs;
use logforce_device::{Assessment, Facts, Guarantee, Layer, Source, Verdict};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

impl Walk<'_> {
    /// Follows an overlay to its upper directory, unless the overlay drops syncs, and returns the facts of that
    /// directory. `path` leads to the open file or directory of the overlay.
    pub fn upper(
        &mut self,
        mount: &Mount,
        path: &Path,
        drops: bool,
        depth: u32,
    ) -> io::Result<Option<Facts>> {
        let Some(upper) = mount
            .options
            .split(',')
            .find_map(|o| o.strip_prefix("upperdir="))
        else {
            // Without an upper directory nothing can be written here.
            return Ok(None);
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
            self.add(Layer::new(name, synced));
            return Ok(None);
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
            return Ok(None);
        };
        let below = below.facts;
        self.notes.push(note(&format!(
            "the {} at {}.",
            below.filesystem, below.mount_point
        )));
        self.below(format!("the {} of {name}", below.filesystem), &below);
        let notes = below.notes.iter();
        self.notes
            .extend(notes.map(|n| format!("Below the overlay: {n}")));
        Ok(Some(below))
    }
}

/// Opens the upper directory, if its path leads here to the directory that the overlay uses. The path is
/// valid where the overlay was mounted; in a container another directory may have it. An overlay shows times,
/// owner and mode of its upper directory unchanged, so they are compared.
fn open_upper(mount: &Mount, upper: &str, path: &Path) -> io::Result<Option<std::os::fd::OwnedFd>> {
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
