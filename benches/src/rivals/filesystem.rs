//! Filesystems of a run: the directory itself, and filesystems in images in that directory.

use super::place::Ground;
use super::throttle::Limits;
use anyhow::{Context, Result, bail};
use std::path::Path;

/// Name of the directory itself in the list of filesystems.
pub const NO_LOOP: &str = "none";

/// Flags that choose the filesystems.
#[derive(Debug, Clone, clap::Args)]
pub struct Filesystems {
    /// Make filesystems (ext4, ext4-nojournal, xfs, btrfs) in images in --dir, each on a separate loop
    /// device, so that its counters include this run only; needs root. `none` in the list is --dir
    /// itself: with none,ext4,xfs one run compares all three
    #[arg(long = "loop", value_name = "KINDS", value_delimiter = ',', default_value = NO_LOOP)]
    pub names: Vec<String>,

    /// Size of each such filesystem, MiB; its image takes the whole size. Bulk needs three times --bulk
    #[arg(long, default_value_t = 4096, value_name = "MIB")]
    loop_size: u64,

    /// Limit each loop device, for reads and for writes, by the blkio controller of cgroup v1: million
    /// bytes and requests a second, such as 125MBps,3000. The limits are removed at the end
    #[arg(long, value_name = "LIMITS")]
    throttle: Option<Limits>,
}

/// A filesystem of a run.
pub struct Filesystem {
    /// Name on the command line, and `throttled` if it is.
    pub name: String,
    /// Title of its tables.
    pub title: String,
    /// Working directory on it.
    pub ground: Ground,
}

/// Creates all filesystems that the flags name, in their order, in `dir`.
///
/// # Errors
/// If a filesystem cannot be created, or is named twice.
pub fn all(dir: &Path, flags: &Filesystems) -> Result<Vec<Filesystem>> {
    let names = &flags.names;
    if let Some(twice) = names
        .iter()
        .enumerate()
        .find(|(at, n)| names[..*at].contains(n))
    {
        bail!("--loop names {} twice: leave one out", twice.1);
    }
    let of = |name: &String| of(dir, name, flags);
    names.iter().map(of).collect()
}

fn of(dir: &Path, name: &str, flags: &Filesystems) -> Result<Filesystem> {
    let kind = (name != NO_LOOP).then_some((name, flags.loop_size));
    let cannot = || format!("cannot measure on `{name}`");
    let mut ground = Ground::new(dir, kind).with_context(cannot)?;
    ground.write_all_blocks()?;
    let mut filesystem = match kind {
        Some(_) => (name.to_owned(), format!("{name} in an image")),
        None => (name.to_owned(), "in the directory itself".to_owned()),
    };
    if let Some(limits) = flags.throttle {
        ground.limit(limits).with_context(cannot)?;
        filesystem.0.push_str(" throttled");
        filesystem.1.push_str(&format!(", at most {limits}"));
    }
    let (name, title) = filesystem;
    Ok(Filesystem {
        name,
        title,
        ground,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(list: &[&str]) -> Result<Vec<Filesystem>> {
        let names = list.iter().map(|n| (*n).to_owned()).collect();
        let flags = Filesystems {
            names,
            loop_size: 1,
            throttle: None,
        };
        all(Path::new(env!("CARGO_MANIFEST_DIR")), &flags)
    }

    #[test]
    fn the_directory_itself_is_one_and_no_other_is_taken_twice() {
        let only = named(&[NO_LOOP]).unwrap();
        assert_eq!((only.len(), only[0].name.as_str()), (1, NO_LOOP));
        assert!(!only[0].ground.is_own_device());
        for bad in [["none", "none"], ["none", "no-such-filesystem"]] {
            assert!(named(&bad).is_err(), "{bad:?}");
        }
    }
}
