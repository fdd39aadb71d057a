//! What the name and the options of a filesystem mean for durability.

use logforce_device::FilesystemKind;
use rustix::fs::IFlags;
use std::fs;
use std::path::Path;

/// Whether a comma-separated list of options holds this one.
pub fn has_option(options: &str, wanted: &str) -> bool {
    options.split(',').any(|o| o == wanted)
}

/// What a filesystem of this name does with a write. What is not known to overwrite in place is
/// not believed to.
pub fn kind(name: &str, options: &str) -> FilesystemKind {
    match name {
        "ext2" | "ext3" | "ext4" if has_option(options, "data=journal") => {
            FilesystemKind::Relocating
        }
        "ext2" | "ext3" | "ext4" | "xfs" => FilesystemKind::InPlace,
        // f2fs, nilfs2 and ubifs are log-structured; the others copy on write. A btrfs file
        // without CoW (`chattr +C`) still relocates after a snapshot: not told apart.
        "btrfs" | "zfs" | "bcachefs" | "f2fs" | "nilfs2" | "ubifs" => FilesystemKind::Relocating,
        "tmpfs" | "ramfs" | "rootfs" | "devtmpfs" | "hugetlbfs" => FilesystemKind::Volatile,
        "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "9p" | "virtiofs" | "ceph" | "afs"
        | "lustre" | "vboxsf" => FilesystemKind::Remote,
        _ => FilesystemKind::Other,
    }
}

/// The name that goes with a `statfs` magic number, where no mount can be seen.
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

/// Whether a sync reaches the device, by the options.
pub fn barriers(name: &str, options: &str) -> bool {
    let off: &[&str] = match name {
        // An overlay mounted so drops every sync.
        "overlay" => &["volatile", "fsync=volatile"],
        _ => &["nobarrier", "barrier=0", "fsync_mode=nobarrier"],
    };
    !off.iter().any(|o| has_option(options, o))
}

/// A sentence for a flag of the directory that new files inherit and that keeps them from being
/// overwritten in place.
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

/// What only `/proc/fs` tells of an ext4: options that come from its superblock, which the mount
/// options leave out, and whether it has a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ext4 {
    pub data_journal: bool,
    pub barriers: bool,
    pub journal: bool,
}

/// Asks the ext4 on the block device of that kernel name (a partition's own); `None` where the
/// kernel does not tell.
pub fn ext4(device: &str) -> Option<Ext4> {
    let options =
        fs::read_to_string(Path::new("/proc/fs/ext4").join(device).join("options")).ok()?;
    let jbd2 = fs::read_dir("/proc/fs/jbd2").is_ok_and(|names| {
        let prefix = format!("{device}-");
        names
            .flatten()
            .any(|n| n.file_name().to_string_lossy().starts_with(&prefix))
    });
    Some(parse_ext4(&options, jbd2))
}

fn parse_ext4(options: &str, jbd2: bool) -> Ext4 {
    let is = |wanted: &str| options.lines().any(|l| l == wanted);
    Ext4 {
        data_journal: is("data=journal"),
        barriers: !is("nobarrier"),
        // A data mode is printed only where there is a journal. (jbd2's own entry is not to be
        // found if the journal is on another device.)
        journal: jbd2 || options.lines().any(|l| l.starts_with("data=")),
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
        assert!(!barriers("overlay", "rw,volatile"));
        assert!(barriers("btrfs", "rw,volatile"), "means nothing there");
    }

    #[test]
    fn ext4_options() {
        let plain = "rw\nbarrier\ndata=ordered\n";
        assert_eq!(
            parse_ext4(plain, true),
            Ext4 {
                data_journal: false,
                barriers: true,
                journal: true
            }
        );
        assert!(parse_ext4(plain, false).journal, "an external journal");
        let none = "rw\nnojournal_checksum\nnobarrier\n";
        assert_eq!(
            parse_ext4(none, false),
            Ext4 {
                data_journal: false,
                barriers: false,
                journal: false
            }
        );
        assert!(parse_ext4("data=journal\n", true).data_journal);
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
