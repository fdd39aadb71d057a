//! Verified reads of places of the file.

use crate::cache::Cache;
use crate::changes::{Image, Purpose};
use crate::cow::tree::Nodes;
use crate::error::{Error, Result};
use crate::file_read;
use crate::uses::Uses;
use logforce_device::{File, Runtime};
use logforce_format::{TableEntry, check_table_node, place_crc, place_offset, planted};
use std::path::PathBuf;
use std::sync::Arc;

/// Data file, as readers use it.
pub(crate) struct NodeStore {
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: PathBuf,
    pub(crate) page_size: u32,
    /// True if pages have checksums. Nodes always do.
    pub(crate) checksums: bool,
    pub(crate) cache: Cache,
    /// A page of zeroes.
    pub(crate) zeroes: Image,
    /// Reads of the file in progress.
    pub(crate) uses: Uses,
}

/// Expected contents of a place, for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Page(u64),
    Node,
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::Page(page) => write!(f, "page {page}"),
            What::Node => f.write_str("node of the page table"),
        }
    }
}

impl NodeStore {
    pub(crate) fn new(
        file: Arc<dyn File>,
        path: PathBuf,
        runtime: Arc<dyn Runtime>,
        page_size: u32,
        checksums: bool,
        cache: usize,
    ) -> NodeStore {
        NodeStore {
            file,
            path,
            page_size,
            checksums,
            cache: Cache::new(cache),
            zeroes: vec![0; page_size as usize].into(),
            uses: Uses::new(runtime),
        }
    }

    /// Returns a page's contents.
    pub(crate) fn page(&self, page: u64, at: TableEntry, purpose: Purpose) -> Result<Image> {
        if let Some(image) = self.cache.get(at.place) {
            return Ok(image);
        }
        // Reads into the image's own memory: the clone is shared, so this makes a new one.
        let mut image = self.zeroes.clone();
        self.read(What::Page(page), at, Arc::make_mut(&mut image))?;
        if purpose == Purpose::Read {
            self.cache.insert(at.place, image.clone());
        }
        Ok(image)
    }

    /// Reads a page as [`NodeStore::page`], into `buf`.
    pub(crate) fn page_into(&self, page: u64, at: TableEntry, buf: &mut [u8]) -> Result<()> {
        match self.cache.get(at.place) {
            Some(image) => buf.copy_from_slice(&image),
            None => {
                self.read(What::Page(page), at, buf)?;
                self.cache.insert(at.place, Image::from(&*buf));
            }
        }
        Ok(())
    }

    /// Reads a node's bytes as they were written, past the cache of places.
    pub(crate) fn read_node(&self, at: TableEntry) -> Result<Image> {
        let mut bytes = vec![0; self.page_size as usize];
        self.read(What::Node, at, &mut bytes)?;
        Ok(bytes.into())
    }

    /// Refuses a node that no writer makes: every place in it must be below `places_end`.
    pub(crate) fn check_node(&self, at: TableEntry, node: &Image, places_end: u64) -> Result<()> {
        check_table_node(node, self.page_size, places_end)
            .map_err(|reject| self.damaged(What::Node, at, reject.to_string()))
    }

    /// Reads a place. Repeats the read before the place counts as damaged, because a single wrong transfer is
    /// not damage of the medium.
    pub(crate) fn read(&self, what: What, at: TableEntry, buf: &mut [u8]) -> Result<()> {
        let start = self.offset(at).unwrap_or(0);
        let range = start..start.saturating_add(buf.len() as u64);
        let result =
            file_read::read_with_retries(&*self.file, range, || self.read_once(what, at, buf));
        if result.is_err() {
            // Damaged contents are not returned.
            buf.fill(0);
        }
        result
    }

    fn read_once(&self, what: What, at: TableEntry, buf: &mut [u8]) -> Result<()> {
        let _use = self.uses.begin()?;
        let Some(offset) = self.offset(at) else {
            return Err(self.damaged(
                what,
                at,
                "the place is beyond the largest possible file".to_owned(),
            ));
        };
        let read = file_read::read_all(&*self.file, offset, buf);
        if let Err(found) = read.map_err(Error::io("read", &self.path))? {
            return Err(self.damaged(what, at, found));
        }
        let is_checked = match what {
            What::Page(_) if planted!("page-checksum-unverified") => false,
            What::Page(_) => self.checksums,
            What::Node => !planted!("table-checksum-unverified"),
        };
        if is_checked && place_crc(buf) != at.crc {
            return Err(self.damaged(what, at, "its checksum does not match".to_owned()));
        }
        Ok(())
    }

    pub(crate) fn offset(&self, at: TableEntry) -> Option<u64> {
        place_offset(self.page_size, at.place)
    }

    pub(crate) fn damaged(&self, what: What, at: TableEntry, found: String) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            what: what.to_string(),
            offset: self.offset(at).unwrap_or(u64::MAX),
            found,
        }
    }
}

/// Nodes from memory or from the file.
impl Nodes for NodeStore {
    type Error = Error;

    fn node(&self, at: TableEntry) -> Result<Image> {
        if let Some(image) = self.cache.get(at.place) {
            return Ok(image);
        }
        // Opening has checked all places that a node names, and this process wrote all later nodes.
        let image = self.read_node(at)?;
        self.check_node(at, &image, u64::MAX)?;
        self.cache.insert(at.place, image.clone());
        Ok(image)
    }

    /// Views keep different headers, so none is known here.
    fn held_header(&self) -> u64 {
        0
    }
}
