use aligned_vec::{AVec, RuntimeAlign};
use std::ops::{Deref, DerefMut};

/// Zeroed byte buffer of fixed size, at an alignment that direct I/O accepts.
///
/// A [`Write`](crate::Write) owns it while in flight, so that the memory outlives the operation. (Windows
/// reads the memory of an overlapped write after the call has returned.)
pub struct AlignedBuf {
    blocks: AVec<Block, RuntimeAlign>,
    len: usize,
}

/// Unit of clearing. Clearing byte by byte dominates the time of opening a log in builds with little
/// optimisation, such as tests.
type Block = [u8; 512];

impl AlignedBuf {
    /// Makes a buffer of `len` zero bytes at an address that is a multiple of `alignment`.
    ///
    /// # Panics
    /// If `alignment` is not a power of two.
    pub fn zeroed(len: usize, alignment: usize) -> Self {
        assert!(
            alignment.is_power_of_two(),
            "alignment {alignment} is not a power of two"
        );
        let count = len.div_ceil(size_of::<Block>());
        let mut blocks = AVec::with_capacity(alignment, count);
        blocks.resize(count, [0; size_of::<Block>()]);
        AlignedBuf { blocks, len }
    }

    /// Returns the alignment of the address in bytes.
    pub fn alignment(&self) -> usize {
        self.blocks.alignment()
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.blocks.as_flattened()[..self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.blocks.as_flattened_mut()[..self.len]
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
            let odd = AlignedBuf::zeroed(alignment - 1, alignment);
            assert_eq!((odd.len(), odd.alignment()), (alignment - 1, alignment));
        }
    }
}
