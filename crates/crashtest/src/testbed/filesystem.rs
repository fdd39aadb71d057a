//! Filesystems that are tested, and their creation.

use super::Image;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fmt;
use std::process::Command;
use std::str::FromStr;

/// Filesystem, with the options that matter for durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(into = "&'static str")]
#[non_exhaustive]
pub enum Filesystem {
    /// ext4 in the mode that distributions use: metadata in a journal, data in order.
    Ext4,
    /// ext4 without a journal.
    Ext4NoJournal,
    /// ext4 that writes data through its journal too.
    Ext4DataJournal,
    /// xfs.
    Xfs,
    /// btrfs: copy-on-write instead of writes in place.
    Btrfs,
    /// A model of files by the rules of POSIX, which is not made or mounted. Only of the command.
    #[doc(hidden)]
    Model,
}

impl Filesystem {
    /// All filesystems that can be mounted.
    pub const ALL: [Filesystem; 5] = [
        Filesystem::Ext4,
        Filesystem::Ext4NoJournal,
        Filesystem::Ext4DataJournal,
        Filesystem::Xfs,
        Filesystem::Btrfs,
    ];

    /// Returns the name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "ext4",
            Filesystem::Ext4NoJournal => "ext4-nojournal",
            Filesystem::Ext4DataJournal => "ext4-datajournal",
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
            Filesystem::Model => "model",
        }
    }

    /// Returns the kernel's name.
    #[doc(hidden)]
    pub fn kind(self) -> &'static str {
        match self {
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
            _ => "ext4",
        }
    }

    /// Returns the program that creates the filesystem.
    #[doc(hidden)]
    pub fn mkfs(self) -> String {
        format!("mkfs.{}", self.kind())
    }

    /// Returns the size of its disk in bytes. It is small, because images are copied thousands of times.
    #[doc(hidden)]
    pub fn size(self) -> u64 {
        let mib = match self {
            // mkfs.xfs refuses less than 300 MiB.
            Filesystem::Xfs => 300,
            // mkfs.btrfs refuses less than 109 MiB.
            Filesystem::Btrfs => 128,
            _ => 48,
        };
        mib << 20
    }

    /// Returns the mount options.
    #[doc(hidden)]
    pub fn options(self) -> &'static str {
        match self {
            Filesystem::Ext4 | Filesystem::Ext4NoJournal => "errors=continue",
            Filesystem::Ext4DataJournal => "errors=continue,data=journal",
            // A copy has the UUID of its template, which may be mounted at the same time.
            Filesystem::Xfs => "nouuid",
            Filesystem::Btrfs => "nodiscard",
            Filesystem::Model => "",
        }
    }

    fn mkfs_arguments(self) -> &'static [&'static str] {
        // Blocks of 4096 bytes as on larger disks, because mkfs would choose smaller ones. A journal of 4 MiB wraps
        // around within one run. Lazy initialisation is off, because its kernel thread would write beside the log.
        const JOURNAL: &[&str] = &[
            "-q",
            "-F",
            "-m",
            "0",
            "-b",
            "4096",
            "-J",
            "size=4",
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
        ];
        // `uninit_bg` is off. With it, groups record which of their inodes were never used. The records are stale
        // after a power cut, and e2fsck trusts them while it copies blocks that two files claim. Such copies have
        // overwritten blocks of a synced file.
        const NONE: &[&str] = &[
            "-q",
            "-F",
            "-m",
            "0",
            "-b",
            "4096",
            "-O",
            "^has_journal,^metadata_csum,^uninit_bg",
            "-E",
            "lazy_itable_init=0,nodiscard",
        ];
        match self {
            Filesystem::Ext4 | Filesystem::Ext4DataJournal => JOURNAL,
            Filesystem::Ext4NoJournal => NONE,
            Filesystem::Xfs => &["-q", "-f", "-K"],
            Filesystem::Btrfs => &["-q", "-f", "-K"],
            Filesystem::Model => &[],
        }
    }

    /// Returns the sizes in bytes of the pieces into which a power cut may tear writes. Without a journal no program
    /// repairs a torn block of metadata, so there a block is written whole or not at all.
    #[doc(hidden)]
    pub fn grains(self) -> &'static [u64] {
        match self {
            Filesystem::Ext4NoJournal => &[4096],
            _ => &[512, 4096],
        }
    }

    /// Prepares the image as a machine does before it mounts the filesystem after a crash: repairs it with `e2fsck` if
    /// it has no journal, and otherwise does nothing.
    ///
    /// # Errors
    /// If `e2fsck` is missing or gives up.
    #[doc(hidden)]
    pub fn check_at_boot(self, image: &Image) -> Result<()> {
        if self != Filesystem::Ext4NoJournal {
            return Ok(());
        }
        let out = Command::new("e2fsck")
            .args(["-f", "-y"])
            .arg(image.path())
            .output()
            .context("e2fsck")?;
        // Exit status 1: e2fsck has repaired all errors.
        if out.status.code().is_none_or(|c| c > 1) {
            bail!("e2fsck: {}", String::from_utf8_lossy(&out.stdout));
        }
        Ok(())
    }

    /// Creates a disk of [`size`](Self::size) bytes with a new filesystem.
    ///
    /// # Errors
    /// If its `mkfs` is missing or fails, or if there is not enough memory.
    #[doc(hidden)]
    pub fn make(self) -> Result<Image> {
        self.make_of(self.size())
    }

    /// Creates a disk of `size` bytes with a new filesystem.
    ///
    /// # Errors
    /// The errors of [`make`](Self::make).
    #[doc(hidden)]
    pub fn make_of(self, size: u64) -> Result<Image> {
        let image = Image::new(size)?;
        let out = Command::new(self.mkfs())
            .args(self.mkfs_arguments())
            .arg(image.path())
            .output()
            .with_context(|| self.mkfs())?;
        if !out.status.success() {
            bail!("{}: {}", self.mkfs(), String::from_utf8_lossy(&out.stderr));
        }
        let sparse = Image::new(size)?;
        sparse.copy_from(&image)?;
        Ok(sparse)
    }
}

impl From<Filesystem> for &'static str {
    fn from(filesystem: Filesystem) -> &'static str {
        filesystem.name()
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Filesystem {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Filesystem::ALL
            .into_iter()
            .find(|f| f.name() == s)
            .ok_or_else(|| {
                let names = Filesystem::ALL.map(Filesystem::name).join(", ");
                format!("unknown filesystem '{s}', expected one of {names}")
            })
    }
}
