use super::redo::MAX_PAGES;
use crate::bytes::{are_zero, crc_with_hole, get_id, get_u32, get_u64, put};
use crate::{LogId, Lsn, planted};

/// Version of the format of page files that this crate writes, and the only one it reads.
pub const PAGE_FORMAT_VERSION: u16 = 2;
/// Smallest page, in bytes.
pub const MIN_PAGE_SIZE: u32 = 512;
/// Largest page, in bytes.
pub const MAX_PAGE_SIZE: u32 = 64 << 10;
/// Length of one header slot, in bytes.
pub const PAGE_HEADER_LEN: usize = 4096;
/// Offsets of the two header slots: 64 KiB apart, so that no physical block of any known device holds both. A
/// torn write of one leaves the other intact.
pub const PAGE_HEADER_OFFSETS: [u64; 2] = [0, 64 << 10];
/// Offset of the first page, in bytes.
pub const PAGE_DATA_OFFSET: u64 = 128 << 10;

const MAGIC: &[u8; 6] = b"LFPAGE";
/// Exclusive end of the numbers of headers and commits. No writer counts so far.
const NUMBER_END: u64 = 1 << 63;

/// Identifier of a page file: random, drawn when the file is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PageFileId(pub [u8; 16]);

impl std::fmt::Display for PageFileId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// Location of a copy-on-write file's page table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyOnWriteRoot {
    /// Place of the root node; `None` if no page was ever written.
    pub place: Option<u64>,
    /// CRC-32C of the root node.
    pub crc: u32,
    /// Number of levels of the table; 0 if there is no root.
    pub depth: u32,
    /// Exclusive end of the places in use: no node and no page lies at or above it.
    pub places_end: u64,
}

/// State of a logged file in relation to its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoggedState {
    /// Log of the file.
    pub log_id: LogId,
    /// Position where redo starts. Every commit that ends at or below it is durable in the data file.
    pub redo_from: Lsn,
}

/// Commit mode of a page file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFileKind {
    /// Pages get new places; the header that reaches them is written last.
    CopyOnWrite(CopyOnWriteRoot),
    /// Changes go to a log first and to the pages' fixed places later.
    Logged(LoggedState),
}

impl PageFileKind {
    /// Returns the name used in options and messages.
    pub fn name(&self) -> &'static str {
        match self {
            PageFileKind::CopyOnWrite(_) => "copy-on-write",
            PageFileKind::Logged(_) => "logged",
        }
    }
}

/// Header slot of a page file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFileHeader {
    /// File of the header.
    pub id: PageFileId,
    /// Number of writes of the header. The slot with the higher number is newer.
    pub sequence: u64,
    /// Size of a page in bytes: a power of two from [`MIN_PAGE_SIZE`] to [`MAX_PAGE_SIZE`].
    pub page_size: u32,
    /// True if each page has a checksum.
    pub checksums: bool,
    /// Number of pages; page numbers are below it.
    pub page_count: u64,
    /// Commit of this header. In a logged file, the last commit that is completely in the data file.
    pub commit: u64,
    /// Commit mode, with its own fields.
    pub kind: PageFileKind,
}

/// Reason why a header slot is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum PageHeaderReject {
    /// The slot is too short, or does not begin with the magic bytes.
    #[error("no header of a page file")]
    Magic,
    /// The checksum is wrong.
    #[error("header checksum")]
    Checksum,
    /// The format version is unknown to this program.
    #[error("format version {0}")]
    Version(u16),
    /// Reserved bytes are not zero.
    #[error("reserved bytes in use")]
    Reserved,
    /// Fields contradict each other or are impossible.
    #[error("impossible or contradictory fields")]
    Contradiction,
}

crate::names::names!(PageHeaderReject: Magic, Checksum, Version, Reserved, Contradiction);

impl PageFileHeader {
    /// Returns the slot's bytes.
    pub fn encode(&self) -> [u8; PAGE_HEADER_LEN] {
        let mut b = [0; PAGE_HEADER_LEN];
        put(&mut b, 0, MAGIC);
        put(&mut b, 6, &PAGE_FORMAT_VERSION.to_le_bytes());
        b[13] = self.checksums.into();
        put(&mut b, 16, &self.id.0);
        put(&mut b, 32, &self.sequence.to_le_bytes());
        put(&mut b, 40, &self.page_size.to_le_bytes());
        put(&mut b, 48, &self.page_count.to_le_bytes());
        put(&mut b, 56, &self.commit.to_le_bytes());
        match self.kind {
            PageFileKind::CopyOnWrite(root) => {
                b[12] = 1;
                put(&mut b, 64, &root.place.unwrap_or(0).to_le_bytes());
                put(&mut b, 72, &root.crc.to_le_bytes());
                put(&mut b, 76, &root.depth.to_le_bytes());
                put(&mut b, 80, &root.places_end.to_le_bytes());
            }
            PageFileKind::Logged(state) => {
                b[12] = 2;
                put(&mut b, 64, &state.log_id.0);
                put(&mut b, 80, &state.redo_from.0.to_le_bytes());
            }
        }
        let crc = crc_with_hole(&b, 8);
        put(&mut b, 8, &crc.to_le_bytes());
        b
    }

    /// Reads a slot.
    pub fn decode(bytes: &[u8]) -> Result<PageFileHeader, PageHeaderReject> {
        let Some(b) = bytes.get(..PAGE_HEADER_LEN) else {
            return Err(PageHeaderReject::Magic);
        };
        if &b[..6] != MAGIC {
            return Err(PageHeaderReject::Magic);
        }
        let fits = planted!("page-header-checksum-ignored", true, else get_u32(b, 8) == crc_with_hole(b, 8));
        if !fits {
            return Err(PageHeaderReject::Checksum);
        }
        let version = u16::from_le_bytes([b[6], b[7]]);
        if version != PAGE_FORMAT_VERSION {
            return Err(PageHeaderReject::Version(version));
        }
        let unused = [&b[14..16], &b[44..48], &b[88..]];
        if !unused.into_iter().all(are_zero) || b[13] > 1 {
            return Err(PageHeaderReject::Reserved);
        }
        let page_size = get_u32(b, 40);
        let is_size =
            page_size.is_power_of_two() && (MIN_PAGE_SIZE..=MAX_PAGE_SIZE).contains(&page_size);
        let kind = match b[12] {
            1 => Some(PageFileKind::CopyOnWrite(decode_root(b)?)),
            2 => Some(PageFileKind::Logged(LoggedState {
                log_id: get_id(b, 64),
                redo_from: Lsn(get_u64(b, 80)),
            })),
            _ => None,
        };
        let (sequence, page_count, commit) = (get_u64(b, 32), get_u64(b, 48), get_u64(b, 56));
        // So that counting on never overflows.
        let is_countable = (1..NUMBER_END).contains(&sequence) && commit < NUMBER_END;
        let (true, Some(kind)) = (is_size && is_countable && page_count <= MAX_PAGES, kind) else {
            return Err(PageHeaderReject::Contradiction);
        };
        let mut id = [0; 16];
        id.copy_from_slice(&b[16..32]);
        Ok(PageFileHeader {
            id: PageFileId(id),
            sequence,
            page_size,
            checksums: b[13] == 1,
            page_count,
            commit,
            kind,
        })
    }
}

fn decode_root(b: &[u8]) -> Result<CopyOnWriteRoot, PageHeaderReject> {
    let depth = get_u32(b, 76);
    let place = get_u64(b, 64);
    let root = CopyOnWriteRoot {
        place: (depth > 0).then_some(place),
        crc: get_u32(b, 72),
        depth,
        places_end: get_u64(b, 80),
    };
    let fits = match root.place {
        Some(place) => place < root.places_end,
        None => place == 0 && root.crc == 0,
    };
    // 16 levels of the smallest nodes (32 entries) reach 2^80 pages.
    if fits && depth <= 16 {
        Ok(root)
    } else {
        Err(PageHeaderReject::Contradiction)
    }
}

/// Returns the newer of two slots, with its index; both reasons if neither is valid.
pub fn newest_page_header(
    slots: [Result<PageFileHeader, PageHeaderReject>; 2],
) -> Result<(usize, PageFileHeader), [PageHeaderReject; 2]> {
    match slots {
        [Ok(a), Ok(b)] if b.sequence > a.sequence => Ok((1, b)),
        [Ok(a), _] => Ok((0, a)),
        [_, Ok(b)] => Ok((1, b)),
        [Err(a), Err(b)] => Err([a, b]),
    }
}
