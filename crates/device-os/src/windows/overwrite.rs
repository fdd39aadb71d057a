//! Files that are overwritten in place.

/// `FILE_ATTRIBUTE_…` of files whose blocks NTFS moves on an overwrite, or at least whose block map it
/// rewrites.
const MOVED: [(u32, &str); 3] = [
    (0x800, "compressed"),
    (0x4000, "encrypted"),
    (0x200, "sparse"),
];

/// Returns the reason why files of these attributes are not overwritten in place; `None` if they are.
pub fn moved_because(attributes: u32) -> Option<&'static str> {
    let found = MOVED.iter().find(|(bit, _)| attributes & bit != 0);
    found.map(|(_, what)| *what)
}

/// Returns true if a file is overwritten in place, so that only its bytes have to be flushed. This is known
/// only of NTFS.
pub fn is(filesystem: &str, attributes: u32) -> bool {
    filesystem == "NTFS" && moved_because(attributes).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_files_of_ntfs_are() {
        // Archived, hidden, a directory.
        for plain in [0, 0x20, 0x2, 0x10, 0x80] {
            assert!(is("NTFS", plain));
            assert_eq!(moved_because(plain), None);
        }
        for (attribute, what) in [
            (0x200, "sparse"),
            (0x800, "compressed"),
            (0x4000, "encrypted"),
        ] {
            assert!(!is("NTFS", 0x20 | attribute), "{what}");
            assert_eq!(moved_because(0x20 | attribute), Some(what));
        }
        for other in ["ReFS", "FAT32", "exFAT", "ntfs-like", ""] {
            assert!(!is(other, 0), "{other}");
        }
    }
}
