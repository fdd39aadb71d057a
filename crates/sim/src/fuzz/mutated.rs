//! Files of a log under mutation, with their bytes addressed by structure.

use super::Files;
use super::base::Base;
use crate::model::PATH;
use arbitrary::Arbitrary;
use logforce_format::{BATCH_HEADER_LEN, CONTROL_SLOT_OFFSETS, META_SLOT_OFFSETS};
use logforce_testkit::SimDisk;
use std::sync::Arc;

/// Address of a byte by the structure that holds it.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub(super) enum ByteAddress {
    Byte { file: u8, at: u32 },
    Header { batch: u8, at: u8 },
    Payload { batch: u8, at: u16 },
    Segment { segment: u8, at: u8 },
    Control { second: bool, at: u16 },
    Meta { second: bool, at: u16 },
}

/// Kinds of mutations made, which decide what can be expected.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kinds {
    /// True if a part is older than the rest.
    pub(super) rolled_back: bool,
    /// True if a part has correct checksums but was never written by the log.
    pub(super) forged: bool,
}

/// Files of a log under mutation.
pub(super) struct Mutated<'b> {
    pub(super) base: &'b Base,
    pub(super) files: Files,
    pub(super) kinds: Kinds,
    /// Names and offsets of unreadable sectors.
    pub(super) unreadable: Vec<(String, u64)>,
}

impl<'b> Mutated<'b> {
    /// Makes the disk's unreadable places unreadable.
    pub(super) fn make_unreadable(&self, disk: &SimDisk) {
        for (name, at) in &self.unreadable {
            disk.make_unreadable(PATH, name, *at);
        }
    }

    /// Returns the files as the log left them.
    pub(super) fn new(base: &'b Base) -> Self {
        Mutated {
            base,
            files: base.files.clone(),
            kinds: Kinds::default(),
            unreadable: Vec::new(),
        }
    }

    /// Returns the name of the nth file.
    pub(super) fn name(&self, n: u8) -> Option<String> {
        let at = usize::from(n) % self.files.len().max(1);
        self.files.keys().nth(at).cloned()
    }

    /// Returns the file and the offset of an address.
    pub(super) fn place(&self, place: ByteAddress) -> Option<(String, usize)> {
        let of_batch = |batch: u8| {
            let count = self.base.batches.len().max(1);
            self.base.batches.get(usize::from(batch) % count)
        };
        Some(match place {
            ByteAddress::Byte { file, at } => {
                let name = self.name(file)?;
                let len = self.files[&name].len().max(1);
                (name, at as usize % len)
            }
            ByteAddress::Header { batch, at } => {
                let b = of_batch(batch)?;
                let within = usize::from(at) % BATCH_HEADER_LEN;
                (b.file.clone(), b.offset as usize + within)
            }
            ByteAddress::Payload { batch, at } => {
                let b = of_batch(batch)?;
                let within = usize::from(at) % (b.payload_len as usize).max(1);
                (
                    b.file.clone(),
                    b.offset as usize + BATCH_HEADER_LEN + within,
                )
            }
            ByteAddress::Segment { segment, at } => {
                let count = self.base.segments.len().max(1);
                let s = self.base.segments.get(usize::from(segment) % count)?;
                (s.name.clone(), usize::from(at) % 128)
            }
            ByteAddress::Control { second, at } => {
                let slot = CONTROL_SLOT_OFFSETS[usize::from(second)] as usize;
                ("control".to_owned(), slot + usize::from(at) % 4096)
            }
            ByteAddress::Meta { second, at } => {
                let slot = META_SLOT_OFFSETS[usize::from(second)] as usize;
                ("control".to_owned(), slot + usize::from(at) % 4096)
            }
        })
    }

    /// Returns the bytes of a file from `at` on; empty if there are none.
    pub(super) fn bytes(&mut self, name: &str, at: usize) -> &mut [u8] {
        let bytes = self.files.get_mut(name).map(Arc::make_mut);
        bytes.and_then(|b| b.get_mut(at..)).unwrap_or(&mut [])
    }

    pub(super) fn write(&mut self, name: &str, at: usize, bytes: &[u8]) {
        for (to, from) in self.bytes(name, at).iter_mut().zip(bytes) {
            *to = *from;
        }
    }

    pub(super) fn version(&self, n: u8) -> Option<&'b Files> {
        let count = self.base.versions.len().max(1);
        self.base.versions.get(usize::from(n) % count)
    }
}
