/// Behaviour of a filesystem on a write, as it affects durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FilesystemKind {
    /// Overwrites written blocks in place (ext4, xfs, NTFS).
    InPlace,
    /// Never overwrites in place, or writes data twice: copy-on-write (btrfs, zfs), ext4 with
    /// `data=journal`, compressed or encrypted files.
    Relocating,
    /// In memory only (tmpfs, ramfs): nothing survives a restart.
    Volatile,
    /// On another machine (NFS, SMB): durability depends on the server.
    Remote,
    /// Unknown.
    Other,
}

impl FilesystemKind {
    /// Returns the name used in reports, such as `in-place`.
    pub fn name(self) -> &'static str {
        match self {
            FilesystemKind::InPlace => "in-place",
            FilesystemKind::Relocating => "relocating",
            FilesystemKind::Volatile => "volatile",
            FilesystemKind::Remote => "remote",
            FilesystemKind::Other => "other",
        }
    }
}
