//! One commit: writes N pages and makes them durable, then does the same with the header.

use crate::result::name::named;
use crate::run::generator::Generator;
use crate::run::in_flight::InFlight;
use logforce_device::{AlignedBuf, Barrier, File, Write};
use std::io;
use std::sync::Arc;

/// Size of a page and of the header, bytes.
pub const PAGE: usize = 4096;

/// Positions of the pages of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Contiguous pages, after those of the commit before.
    Contiguous,
    /// Pages all over the file, none next to another.
    Scattered,
}

impl Layout {
    /// Both layouts.
    pub const ALL: [Layout; 2] = [Layout::Contiguous, Layout::Scattered];

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Contiguous => "contiguous",
            Layout::Scattered => "scattered",
        }
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Way to make pages durable, and the header likewise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// One write per page, each durable by itself.
    WriteThrough,
    /// One write per run of contiguous pages, each durable by itself, several in flight.
    Gathered,
    /// The same runs in plain writes, and one barrier after them.
    Barrier,
}

impl Way {
    /// All ways.
    pub const ALL: [Way; 3] = [Way::WriteThrough, Way::Gathered, Way::Barrier];

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Way::WriteThrough => "write-through",
            Way::Gathered => "gathered-write-through",
            Way::Barrier => "barrier",
        }
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

named!(Layout, Way);

/// State of the commits of one case.
pub(super) struct Commit {
    layout: Layout,
    way: Way,
    pages: u64,
    /// Number of pages of the file after the header.
    area: u64,
    /// Start of the next contiguous commit, or position of scattered pages within their parts.
    cursor: u64,
    /// One buffer for each write, created when first used.
    buffers: Vec<AlignedBuf>,
    header: Option<AlignedBuf>,
    generator: Generator,
}

impl Commit {
    /// Prepares commits to a file of `file_pages` pages, the header included.
    pub(super) fn new(layout: Layout, way: Way, pages: u64, file_pages: u64) -> Commit {
        Commit {
            layout,
            way,
            pages: pages.max(1),
            area: file_pages.saturating_sub(1),
            cursor: 0,
            buffers: Vec::new(),
            header: None,
            generator: Generator::fresh(),
        }
    }

    /// Returns the writes of the next commit: first page and number of pages of each.
    fn places(&mut self) -> Vec<(u64, u64)> {
        match self.layout {
            Layout::Contiguous => {
                if self.cursor + self.pages > self.area {
                    self.cursor = 0;
                }
                let first = 1 + self.cursor;
                self.cursor += self.pages;
                match self.way {
                    Way::WriteThrough => (0..self.pages).map(|n| (first + n, 1)).collect(),
                    Way::Gathered | Way::Barrier => vec![(first, self.pages)],
                }
            }
            Layout::Scattered => {
                // One page in each part of the file, at the same position, so that no two are adjacent.
                let part = (self.area / self.pages).max(1);
                self.cursor = (self.cursor + 7) % part;
                let at = |n| (1 + n * part + self.cursor, 1);
                (0..self.pages).map(at).collect()
            }
        }
    }

    /// Makes the bytes of the next commit.
    pub(super) fn renew(&mut self) {
        for buf in self.buffers.iter_mut().chain(&mut self.header) {
            self.generator.fill(buf);
        }
    }

    /// Makes one commit.
    pub(super) fn make(
        &mut self,
        file: &Arc<dyn File>,
        in_flight: &InFlight,
        number: u64,
    ) -> io::Result<()> {
        let through = self.way != Way::Barrier;
        let places = self.places();
        if self.buffers.len() != places.len() {
            let generator = &mut self.generator;
            self.buffers = places.iter().map(|(_, n)| filled(*n, generator)).collect();
        }
        let buffers = std::mem::take(&mut self.buffers);
        let writes = places
            .iter()
            .zip(buffers)
            .map(|((page, _), buf)| write(*page, buf, number, through));
        let (buffers, written) = match self.way {
            Way::WriteThrough => one_by_one(&**file, writes),
            Way::Gathered | Way::Barrier => in_flight.write(file, writes.collect()),
        };
        self.buffers = buffers;
        written?;
        self.barrier(&**file)?;
        // After the pages are durable, because the header makes them take effect.
        let header = self.header.take();
        let header = header.unwrap_or_else(|| filled(1, &mut self.generator));
        let done = file.complete(file.submit(write(0, header, number, through)));
        self.header = Some(done.buf);
        done.result?;
        self.barrier(&**file)
    }

    fn barrier(&self, file: &dyn File) -> io::Result<()> {
        match self.way {
            Way::Barrier => file.barrier(Barrier::Data),
            Way::WriteThrough | Way::Gathered => Ok(()),
        }
    }
}

fn filled(pages: u64, generator: &mut Generator) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(pages as usize * PAGE, PAGE);
    generator.fill(&mut buf);
    buf
}

/// Makes every page different from all that was written before, so that no device can skip the write.
fn write(page: u64, mut buf: AlignedBuf, number: u64, through: bool) -> Write {
    for (n, bytes) in buf.chunks_mut(PAGE).enumerate() {
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..16].copy_from_slice(&(page + n as u64).to_le_bytes());
    }
    Write {
        offset: page * PAGE as u64,
        range: 0..buf.len(),
        buf,
        through,
    }
}

/// Performs the writes one after the other; stops at the first error. Returns all buffers.
fn one_by_one(
    file: &dyn File,
    writes: impl Iterator<Item = Write>,
) -> (Vec<AlignedBuf>, io::Result<()>) {
    let mut result = Ok(());
    let mut buffers = Vec::new();
    for write in writes {
        if result.is_err() {
            buffers.push(write.buf);
            continue;
        }
        let done = file.complete(file.submit(write));
        buffers.push(done.buf);
        result = done.result;
    }
    (buffers, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_pages_never_touch_and_stay_in_the_file() {
        for pages in [1, 5, 160] {
            let file_pages = 4 * pages + 2;
            let mut commit = Commit::new(Layout::Scattered, Way::Barrier, pages, file_pages);
            for _ in 0..50 {
                let places = commit.places();
                assert_eq!(places.len() as u64, pages);
                assert!(places.windows(2).all(|w| w[0].0 + 1 < w[1].0), "{places:?}");
                assert!(places.iter().all(|(p, _)| (1..file_pages).contains(p)));
            }
        }
    }

    #[test]
    fn contiguous_ones_follow_each_other_and_wrap() {
        let mut commit = Commit::new(Layout::Contiguous, Way::Gathered, 3, 10);
        let firsts: Vec<_> = (0..4).map(|_| commit.places()).collect();
        assert_eq!(firsts, [[(1, 3)], [(4, 3)], [(7, 3)], [(1, 3)]]);
        let mut each = Commit::new(Layout::Contiguous, Way::WriteThrough, 3, 10);
        assert_eq!(each.places(), [(1, 1), (2, 1), (3, 1)]);
    }
}
