//! Inspection of one page, and the source of its contents.

use super::data::Data;
use super::info::{FoundPage, Held, PageInfo, PageSource};
use super::{Inspector, ROUNDS, redo, table};
use crate::cow::node_store::What;
use crate::cow::tree::{PageLookup, Tree};
use crate::error::{Error, Result};
use crate::logged::read::{page_offset, put_ranges};
use logforce_core::Record;
use logforce_format::{
    Lsn, MAP_SECTOR_ENTRIES, MAX_PAGES, MapEntry, PageChange, PageFileHeader, PageFileKind, Redo,
};

const ABSENT: FoundPage = FoundPage {
    source: PageSource::Absent,
    bytes: None,
    damage: None,
};

fn check_range(page: u64, page_count: u64) -> Result<()> {
    let page_count = page_count.min(MAX_PAGES);
    match page < page_count {
        true => Ok(()),
        false => Err(Error::OutOfRange { page, page_count }),
    }
}

/// Finds a page of a copy-on-write file.
pub(super) fn by_table(inspector: &Inspector, page: u64) -> Result<FoundPage> {
    let mut header = inspector.header;
    for _ in 0..ROUNDS {
        let found = in_table(inspector, &header, page)?;
        let now = inspector.header_now()?;
        // As in `table`: places that a later header has released may have been overwritten.
        if found.damage.is_none() || now.sequence <= header.sequence.saturating_add(1) {
            return Ok(found);
        }
        header = now;
    }
    in_table(inspector, &header, page)
}

fn in_table(inspector: &Inspector, header: &PageFileHeader, page: u64) -> Result<FoundPage> {
    check_range(page, header.page_count)?;
    let PageFileKind::CopyOnWrite(root) = header.kind else {
        return Ok(ABSENT);
    };
    let medium = table::medium(inspector, 0);
    let at = match Tree::stored(&root).find(&medium, header.page_size, page) {
        Ok(PageLookup::Stored(at)) => at,
        Ok(_) => return Ok(ABSENT),
        Err(e) => {
            return Ok(FoundPage {
                damage: Some(inspector.damage(e, None, true)?),
                ..ABSENT
            });
        }
    };
    let mut bytes = vec![0; header.page_size as usize];
    let damage = match medium.read(What::Page(page), at, &mut bytes) {
        Ok(()) => None,
        Err(e) => Some(inspector.damage(e, Some(page), false)?),
    };
    let held = match (&damage, medium.checksums) {
        (Some(_), _) => Held::Damaged,
        (None, true) => Held::Whole,
        (None, false) => Held::Unverified,
    };
    Ok(FoundPage {
        source: PageSource::Data(PageInfo {
            page,
            place: Some(at.place),
            offset: medium.offset(at).unwrap_or(u64::MAX),
            crc: medium.checksums.then_some(at.crc),
            held,
        }),
        bytes: damage.is_none().then_some(bytes),
        damage,
    })
}

/// Page as rebuilt from the records of the log.
#[derive(Default)]
pub(super) struct Rebuilt {
    /// Contents of the page; `None` while the log has none.
    pub(super) bytes: Option<Vec<u8>>,
    records: Vec<Lsn>,
    is_dropped: bool,
}

impl Rebuilt {
    /// Applies a record. A record that cannot be decoded ends the walk earlier.
    pub(super) fn add(&mut self, record: &Record, page: u64, page_size: u32) {
        let Ok(redo) = Redo::decode(&record.data, page_size) else {
            return;
        };
        if redo.resize.drop_from <= page {
            self.drop_it();
        }
        match redo.pages.iter().find(|(p, _)| *p == page).map(|(_, c)| c) {
            Some(PageChange::Image(image)) => {
                self.bytes = Some(image.to_vec());
                self.records = vec![record.start];
                self.is_dropped = false;
            }
            Some(PageChange::Ranges(ranges)) => {
                if let Some(bytes) = &mut self.bytes {
                    put_ranges(bytes, ranges);
                }
                self.records.push(record.start);
            }
            Some(PageChange::Discard) => self.drop_it(),
            None => {}
        }
    }

    fn drop_it(&mut self) {
        *self = Rebuilt {
            is_dropped: true,
            ..Rebuilt::default()
        };
    }
}

/// Finds a page of a logged file.
pub(super) fn by_map(inspector: &Inspector, page: u64) -> Result<FoundPage> {
    let mut found = ABSENT;
    for round in 1..=ROUNDS {
        let mut rebuilt = Rebuilt::default();
        let page_size = inspector.header.page_size;
        let read = redo::read_undamaged(inspector, &mut |record| {
            rebuilt.add(record, page, page_size);
        })?;
        let in_log = match read {
            Ok(in_log) => in_log,
            Err(damage) => {
                return Ok(FoundPage {
                    damage: Some(damage),
                    ..ABSENT
                });
            }
        };
        if !in_log.is_whole && round < ROUNDS {
            continue;
        }
        check_range(page, in_log.page_count)?;
        if rebuilt.is_dropped && rebuilt.bytes.is_none() {
            return Ok(ABSENT);
        }
        if let Some(bytes) = rebuilt.bytes {
            return Ok(FoundPage {
                source: PageSource::Log(rebuilt.records),
                bytes: Some(bytes),
                damage: None,
            });
        }
        found = in_data(
            &Data::of(inspector, inspector.existing_map()?),
            &in_log.header,
            page,
        )?;
        // Tries again, because a checkpoint may have ended since the log was read. Or a commit that was not
        // yet in the log then may be in the data file.
        if found.damage.is_none() || !inspector.is_locked()? {
            break;
        }
    }
    Ok(found)
}

/// Reads a page from the data file, whose last header is `header`.
pub(super) fn in_data(data: &Data<'_>, header: &PageFileHeader, page: u64) -> Result<FoundPage> {
    // For such pages the map may hold any entry.
    if page >= header.page_count {
        return Ok(ABSENT);
    }
    let inspector = data.inspector;
    let entries = MAP_SECTOR_ENTRIES as u64;
    let entry = match data.map.read(page / entries) {
        Ok(sector) => sector.entries[(page % entries) as usize],
        Err(e) => {
            return Ok(FoundPage {
                damage: Some(inspector.damage(e, None, false)?),
                ..ABSENT
            });
        }
    };
    let MapEntry::Present { crc } = entry else {
        return Ok(FoundPage {
            damage: data.lost(page, entry)?,
            ..ABSENT
        });
    };
    let checksums = inspector.header.checksums;
    let mut bytes = vec![0; inspector.header.page_size as usize];
    let info = PageInfo {
        page,
        place: None,
        offset: page_offset(bytes.len(), page),
        crc: checksums.then_some(crc),
        held: Held::Whole,
    };
    let damage = data.read(&info, &mut bytes)?;
    let held = match (&damage, checksums) {
        (Some(_), _) => Held::Damaged,
        (None, true) => Held::Whole,
        (None, false) => Held::Unverified,
    };
    Ok(FoundPage {
        source: PageSource::Data(PageInfo { held, ..info }),
        bytes: damage.is_none().then_some(bytes),
        damage,
    })
}
