//! Bytes of a page file: its two header slots, the nodes of a copy-on-write file's page table, and the redo
//! records that a logged file appends to its log.

mod header;
mod map;
mod redo;
mod table;

pub use header::{
    CopyOnWriteRoot, LoggedState, MAX_PAGE_SIZE, MIN_PAGE_SIZE, PAGE_DATA_OFFSET,
    PAGE_FORMAT_VERSION, PAGE_HEADER_LEN, PAGE_HEADER_OFFSETS, PageFileHeader, PageFileId,
    PageFileKind, PageHeaderReject, newest_page_header,
};
pub use map::{MAP_SECTOR_ENTRIES, MAP_SECTOR_LEN, MapEntry, MapReject, MapSector, page_crc};
pub use redo::{
    MAX_PAGES, PageChange, REDO_HEADER_LEN, Redo, RedoRecord, RedoReject, RedoWriter, Resize,
};
pub use table::{
    TABLE_ENTRY_LEN, TableEntry, TableReject, check_table_node, fan_out, place_crc, place_offset,
    set_table_entry, table_depth, table_entries, table_entry, table_index,
};
