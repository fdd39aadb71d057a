//! Contents of a file: blocks of which only those with data are kept.

use anyhow::Result;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

const BLOCK: u64 = 4096;

/// Contents and length. Copies share their blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    blocks: BTreeMap<u64, Rc<[u8; BLOCK as usize]>>,
    pub(super) len: u64,
}

impl Content {
    /// Reads a file.
    pub(super) fn read(mut file: File) -> Result<Content> {
        let (mut content, mut at) = (Content::default(), 0);
        let mut bytes = vec![0; 1 << 20];
        while let len @ 1.. = file.read(&mut bytes)? {
            for (number, block) in bytes[..len].chunks(BLOCK as usize).enumerate() {
                if block.iter().any(|b| *b != 0) {
                    content.put(at + number as u64 * BLOCK, block);
                }
            }
            at += len as u64;
        }
        content.len = at;
        Ok(content)
    }

    /// Returns the bytes of blocks with data.
    pub(super) fn size(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK
    }

    /// Puts bytes at an offset without a change of the length.
    pub(super) fn put(&mut self, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let within = (offset % BLOCK) as usize;
            let len = bytes.len().min(BLOCK as usize - within);
            let block = self.blocks.entry(offset / BLOCK);
            let block = Rc::make_mut(block.or_insert_with(|| Rc::new([0; BLOCK as usize])));
            block[within..within + len].copy_from_slice(&bytes[..len]);
            (offset, bytes) = (offset + len as u64, &bytes[len..]);
        }
    }

    /// Sets the length. Bytes beyond it are gone.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.trim(len);
        }
        self.len = len;
    }

    /// Removes the bytes from `len` on.
    pub(super) fn trim(&mut self, len: u64) {
        self.blocks.split_off(&len.div_ceil(BLOCK));
        if let Some(last) = self.blocks.get_mut(&(len / BLOCK)) {
            Rc::make_mut(last)[(len % BLOCK) as usize..].fill(0);
        }
    }

    /// Returns up to `len` bytes at an offset.
    pub(super) fn get(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = self.len.min(offset.saturating_add(len));
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        for (number, block) in self.blocks.range(offset / BLOCK..end.div_ceil(BLOCK)) {
            let start = number * BLOCK;
            let (from, to) = (offset.max(start), end.min(start + BLOCK));
            if from < to {
                bytes[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&block[(from - start) as usize..(to - start) as usize]);
            }
        }
        bytes
    }

    /// Writes the contents into an empty file.
    pub(super) fn write(&self, file: &File) -> Result<()> {
        file.set_len(self.len)?;
        for (number, block) in &self.blocks {
            let start = number * BLOCK;
            let len = self.len.saturating_sub(start).min(BLOCK) as usize;
            file.write_all_at(&block[..len], start)?;
        }
        Ok(())
    }

    /// Returns true if both have the same bytes.
    pub(super) fn is_like(&self, other: &Content) -> bool {
        let zeroes = Rc::new([0; BLOCK as usize]);
        let mut numbers = self.blocks.keys().chain(other.blocks.keys());
        let block = |of: &Content, number| of.blocks.get(number).unwrap_or(&zeroes).clone();
        self.len == other.len && numbers.all(|n| block(self, n) == block(other, n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_were_cut_off_do_not_come_back() {
        let mut content = Content::default();
        content.put(4090, b"0123456789");
        content.set_len(4100);
        assert_eq!(content.get(4088, 100), b"\0\x000123456789");
        content.set_len(4093);
        content.set_len(4100);
        assert_eq!(content.get(4090, 100), b"012\0\0\0\0\0\0\0");
        let mut like = Content::default();
        like.put(4090, b"012");
        like.put(9000, &[0]);
        like.len = 4100;
        assert!(content.is_like(&like));
    }
}
