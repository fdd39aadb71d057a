//! The filesystems on which it is tried, and how each is made.

use super::Image;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fmt;
use std::process::Command;
use std::str::FromStr;

/// A filesystem, with what about it matters for durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(into = "&'static str")]
pub enum Filesystem {
    /// ext4 as distributions make it: metadata in a journal, data in order.
    Ext4,
    /// ext4 without a journal.
    Ext4NoJournal,
    /// ext4 that writes data through its journal too.
    Ext4DataJournal,
    /// xfs.
    Xfs,
    /// btrfs: nothing is overwritten in place.
    Btrfs,
}

impl Filesystem {
    /// All of them.
    pub const ALL: [Filesystem; 5] = [
        Filesystem::Ext4,
        Filesystem::Ext4NoJournal,
        Filesystem::Ext4DataJournal,
        Filesystem::Xfs,
        Filesystem::Btrfs,
    ];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "ext4",
            Filesystem::Ext4NoJournal => "ext4-nojournal",
            Filesystem::Ext4DataJournal => "ext4-datajournal",
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
        }
    }

    /// The kernel's name.
    pub fn kind(self) -> &'static str {
        match self {
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
            _ => "ext4",
        }
    }

    /// The program that makes it.
    pub fn mkfs(self) -> String {
        format!("mkfs.{}", self.kind())
    }

    /// Bytes of its disk: as few as it takes, since images are copied by the thousand.
    pub fn size(self) -> u64 {
        let mib = match self {
            // mkfs.xfs makes nothing smaller.
            Filesystem::Xfs => 300,
            // mkfs.btrfs makes nothing below 109.
            Filesystem::Btrfs => 128,
            _ => 48,
        };
        mib << 20
    }

    /// Mount options.
    pub fn options(self) -> &'static str {
        match self {
            Filesystem::Ext4 | Filesystem::Ext4NoJournal => "errors=continue",
            Filesystem::Ext4DataJournal => "errors=continue,data=journal",
            // A copy has the identity of its template, which may be mounted beside it.
            Filesystem::Xfs => "nouuid",
            Filesystem::Btrfs => "nodiscard",
        }
    }

    fn mkfs_arguments(self) -> &'static [&'static str] {
        // Blocks as on larger disks; mkfs would make smaller ones. A small journal comes round within
        // one run. Without lazy initialisation a kernel thread does not go on writing beside the log.
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
        // Without groups that say which of their inodes were never used: they are stale after a cut,
        // and e2fsck believes them while it copies blocks that two files claim. Such copies were
        // seen to go over the blocks of a synced file.
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
        }
    }

    /// The pieces, in bytes, in which writes to it may tear. Without a journal nothing mends a
    /// block of metadata that tore: there a block is written whole or not at all.
    pub fn grains(self) -> &'static [u64] {
        match self {
            Filesystem::Ext4NoJournal => &[4096],
            _ => &[512, 4096],
        }
    }

    /// What a machine does before it mounts this after a crash: without a journal, a check that
    /// mends.
    ///
    /// # Errors
    /// If `e2fsck` is missing or gives up.
    pub fn check_at_boot(self, image: &Image) -> Result<()> {
        if self != Filesystem::Ext4NoJournal {
            return Ok(());
        }
        let out = Command::new("e2fsck")
            .args(["-f", "-y"])
            .arg(image.path())
            .output()
            .context("e2fsck")?;
        // 1: mended.
        if out.status.code().is_none_or(|c| c > 1) {
            bail!("e2fsck: {}", String::from_utf8_lossy(&out.stdout));
        }
        Ok(())
    }

    /// A disk with a fresh one on it.
    ///
    /// # Errors
    /// If its `mkfs` is missing or fails.
    pub fn make(self) -> Result<Image> {
        self.make_of(self.size())
    }

    /// The same, of `size` bytes.
    ///
    /// # Errors
    /// As of [`make`](Self::make).
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
                format!("no filesystem '{s}'; there are {names}")
            })
    }
}
