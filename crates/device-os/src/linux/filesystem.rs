//! Durability of a filesystem by its name and its options.

use super::sysfs::{self, Roots};
use logforce_device::FilesystemKind;
use rustix::fs::IFlags;
use std::io;

/// Returns true if a comma-separated list of options contains this one.
pub fn has_option(options: &str, wanted: &str) -> bool {
    options.split(',').any(|o| o == wanted)
}

/// Returns the behaviour of a filesystem of this name on a write. A filesystem counts as overwriting in place
/// only if it is known to do so.
pub fn kind(name: &str, options: &str) -> FilesystemKind {
    match name {
        "ext2" | "ext3" | "ext4" if has_option(options, "data=journal") => {
            FilesystemKind::Relocating
        }
        "ext2" | "ext3" | "ext4" | "xfs" => FilesystemKind::InPlace,
        // f2fs, nilfs2 and ubifs are log-structured; the others copy on write. A btrfs file without CoW
        // (`chattr +C`) still relocates after a snapshot, so it is not treated differently.
        "btrfs" | "zfs" | "bcachefs" | "f2fs" | "nilfs2" | "ubifs" => FilesystemKind::Relocating,
        "tmpfs" | "ramfs" | "rootfs" | "devtmpfs" | "hugetlbfs" => FilesystemKind::Volatile,
        // Views of the kernel, which keep nothing.
        "proc" | "sysfs" | "cgroup" | "cgroup2" | "devpts" | "debugfs" | "tracefs"
        | "securityfs" | "configfs" | "mqueue" | "bpf" | "pstore" => FilesystemKind::Volatile,
        "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "9p" | "virtiofs" | "ceph" | "afs"
        | "lustre" | "vboxsf" => FilesystemKind::Remote,
        _ => FilesystemKind::Other,
    }
}

/// Returns true if a filesystem of this name needs no repair after a power cut and comes back as its last
/// sync left it. `None` if the name does not tell; an ext4 has to be asked.
pub fn journalled(name: &str) -> Option<bool> {
    match name {
        "xfs" | "btrfs" | "zfs" | "bcachefs" => Some(true),
        _ => None,
    }
}

/// Returns the name for a `statfs` magic number, for a mount that cannot be seen.
pub fn name_of_magic(magic: u64) -> String {
    match magic {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "zfs",
        0xca45_1a4e => "bcachefs",
        0xf2f5_2010 => "f2fs",
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        0x6969 => "nfs",
        0xff53_4d42 => "cifs",
        0xfe53_4d42 => "smb3",
        0x0102_1997 => "9p",
        0x6573_5546 => "fuse",
        0x794c_7630 => "overlay",
        _ => return format!("unknown (magic {magic:#x})"),
    }
    .to_owned()
}

/// Returns true if a program serves the filesystem (FUSE). The guarantee of a sync is then that of the
/// program.
pub fn is_served(name: &str) -> bool {
    name == "fuse" || name == "fuseblk" || name.starts_with("fuse.")
}

/// Returns true for a filesystem that writes to flash chips without a device's cache in between.
pub fn is_on_flash(name: &str) -> bool {
    matches!(name, "ubifs" | "jffs2")
}

/// Returns true for a filesystem that keeps its files on another one, which cannot be found from here.
pub fn is_stacked(name: &str) -> bool {
    matches!(name, "aufs" | "ecryptfs" | "unionfs" | "shiftfs")
}

/// Option of bcachefs. A sync then leaves the journal, which says where the data is, in the system's memory.
pub const JOURNAL_FLUSH_DISABLED: &str = "journal_flush_disabled";

/// Returns true if a sync reaches the device, by the options.
pub fn barriers(name: &str, options: &str) -> bool {
    let off: &[&str] = match name {
        // An overlay with this option drops every sync.
        "overlay" => &["volatile", "fsync=volatile"],
        _ => &[
            "nobarrier",
            "barrier=0",
            // reiserfs.
            "barrier=none",
            // f2fs.
            "fsync_mode=nobarrier",
            JOURNAL_FLUSH_DISABLED,
        ],
    };
    !off.iter().any(|o| has_option(options, o))
}

/// Returns a sentence about a flag of the directory that new files inherit and that prevents overwriting in
/// place.
pub fn relocating_flag(flags: IFlags) -> Option<&'static str> {
    // FS_ENCRYPT_FL and FS_VERITY_FL, which rustix does not name.
    const ENCRYPTED: u32 = 0x800;
    const VERITY: u32 = 0x10_0000;
    if flags.contains(IFlags::COMPRESSED) {
        Some("The directory is marked for compression: files in it are not overwritten in place.")
    } else if flags.contains(IFlags::JOURNALING) {
        Some(
            "The directory is marked for data journalling (chattr +j): data is written twice, first to the journal.",
        )
    } else if flags.bits() & ENCRYPTED != 0 {
        Some(
            "The directory is encrypted by the filesystem: direct writes may go through the system's cache.",
        )
    } else if flags.bits() & VERITY != 0 {
        Some("Files here are protected by fs-verity, and cannot be overwritten.")
    } else {
        None
    }
}

/// Properties of an ext4 that only `/proc/fs` shows: options from its superblock, which the mount options
/// leave out, and its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ext4 {
    pub data_journal: bool,
    /// `None` if the options say neither.
    pub barriers: Option<bool>,
    pub journal: Journal,
}

/// Location of the journal of an ext4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Journal {
    None,
    /// On the same device.
    Own,
    /// On another device.
    Elsewhere,
}

/// Returns the properties of the ext4 on the block device of that kernel name (a partition's own). `None` if
/// the kernel does not show them.
pub fn ext4(device: &str, roots: &Roots) -> io::Result<Option<Ext4>> {
    let options = roots.proc.join("fs/ext4").join(device).join("options");
    let Some(options) = sysfs::bytes(&options)? else {
        return Ok(None);
    };
    let journals = sysfs::names(&roots.proc.join("fs/jbd2"))?.unwrap_or_default();
    let prefix = format!("{device}-");
    let is_here = journals.iter().any(|n| n.starts_with(&prefix));
    Ok(Some(parse_ext4(
        &String::from_utf8_lossy(&options),
        is_here,
    )))
}

fn parse_ext4(options: &str, jbd2: bool) -> Ext4 {
    let is = |wanted: &str| options.lines().any(|l| l == wanted);
    Ext4 {
        data_journal: is("data=journal"),
        barriers: match (is("barrier"), is("nobarrier")) {
            (true, false) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        },
        journal: if jbd2 {
            Journal::Own
        } else if options.lines().any(|l| l.starts_with("data=")) {
            // The kernel prints a data mode only if there is a journal.
            Journal::Elsewhere
        } else {
            Journal::None
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FilesystemKind::*;

    #[test]
    fn kinds() {
        for (name, options, expected) in [
            ("ext4", "rw,relatime", InPlace),
            ("ext3", "rw,data=ordered", InPlace),
            ("ext4", "rw,data=journal", Relocating),
            ("xfs", "rw", InPlace),
            ("btrfs", "rw,nodatacow", Relocating),
            ("f2fs", "rw", Relocating),
            ("tmpfs", "rw", Volatile),
            ("nfs4", "rw", Remote),
            ("fuse.sshfs", "rw", Other),
            ("fuseblk", "rw", Other),
            ("overlay", "rw", Other),
            ("somethingfs", "", Other),
        ] {
            assert_eq!(kind(name, options), expected, "{name} {options}");
        }
    }

    #[test]
    fn barriers_can_be_off() {
        assert!(barriers("ext4", "rw,barrier=1"));
        assert!(!barriers("ext4", "rw,nobarrier"));
        assert!(!barriers("ext4", "rw,barrier=0"));
        assert!(!barriers("f2fs", "rw,fsync_mode=nobarrier"));
        assert!(!barriers("reiserfs", "rw,barrier=none"));
        assert!(!barriers("bcachefs", "rw,journal_flush_disabled"));
        assert!(barriers("bcachefs", "rw,nojournal_flush_disabled"));
        assert!(!barriers("overlay", "rw,volatile"));
        assert!(barriers("btrfs", "rw,volatile"), "means nothing there");
    }

    #[test]
    fn ext4_options() {
        let parsed = |text, jbd2| {
            let answer = parse_ext4(text, jbd2);
            (answer.data_journal, answer.barriers, answer.journal)
        };
        let plain = "rw\nbarrier\ndata=ordered\n";
        assert_eq!(parsed(plain, true), (false, Some(true), Journal::Own));
        assert_eq!(
            parsed(plain, false),
            (false, Some(true), Journal::Elsewhere)
        );
        let none = "rw\nnojournal_checksum\nnobarrier\n";
        assert_eq!(parsed(none, false), (false, Some(false), Journal::None));
        let silent = "data=journal\n";
        assert_eq!(parsed(silent, true), (true, None, Journal::Own));
        assert_eq!(parsed("", false), (false, None, Journal::None));
    }

    #[test]
    fn flags() {
        assert_eq!(relocating_flag(IFlags::NODUMP | IFlags::NOATIME), None);
        assert!(
            relocating_flag(IFlags::JOURNALING)
                .unwrap()
                .contains("journal")
        );
        assert!(
            relocating_flag(IFlags::from_bits_retain(0x800))
                .unwrap()
                .contains("encrypted")
        );
    }
}
