use aligned_vec::{AVec, RuntimeAlign};
use std::ops::{Deref, DerefMut};

/// A zeroed, fixed-size byte buffer at an alignment that direct I/O accepts.
///
/// Owned by a [`Write`](crate::Write) while that is in flight, so that the memory outlives the
/// operation (an overlapped write on Windows reads it after the call has returned).
pub struct AlignedBuf {
    bytes: AVec<u8, RuntimeAlign>,
}

impl AlignedBuf {
    /// `len` zero bytes at an address that is a multiple of `alignment`.
    ///
    /// # Panics
    /// If `alignment` is not a power of two.
    pub fn zeroed(len: usize, alignment: usize) -> Self {
        assert!(
            alignment.is_power_of_two(),
            "alignment {alignment} is not a power of two"
        );
        let mut bytes = AVec::with_capacity(alignment, len);
        bytes.resize(len, 0);
        AlignedBuf { bytes }
    }

    /// The address's alignment in bytes.
    pub fn alignment(&self) -> usize {
        self.bytes.alignment()
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBuf")
            .field("len", &self.len())
            .field("alignment", &self.alignment())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zeroed_and_aligned() {
        for alignment in [512, 4096, 65536] {
            let b = AlignedBuf::zeroed(3 * alignment, alignment);
            assert_eq!(b.as_ptr() as usize % alignment, 0);
            assert!(b.iter().all(|&x| x == 0));
        }
    }
}
