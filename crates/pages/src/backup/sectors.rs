//! Writer of the data file and the map of a logged file. Pages come in ascending order.

use super::stream::Stream;
use crate::error::Result;
use crate::logged::read::page_offset;
use logforce_format::{MAP_SECTOR_ENTRIES, MAP_SECTOR_LEN, MapEntry, MapSector, PageFileHeader};

pub(super) struct SectorWriter {
    data: Stream,
    map: Stream,
    checksums: bool,
    /// Number and contents of the sector that is being filled.
    sector: Option<(u64, MapSector)>,
}

impl SectorWriter {
    pub(super) fn new(data: Stream, map: Stream, source: &PageFileHeader) -> SectorWriter {
        SectorWriter {
            data,
            map,
            checksums: source.checksums,
            sector: None,
        }
    }

    pub(super) fn page(&mut self, page: u64, image: &[u8]) -> Result<()> {
        self.data.write(page_offset(image.len(), page), image)?;
        let entries = MAP_SECTOR_ENTRIES as u64;
        let number = page / entries;
        if self.sector.as_ref().is_some_and(|(n, _)| *n != number) {
            self.finish_sector()?;
        }
        let (_, sector) = self
            .sector
            .get_or_insert_with(|| (number, MapSector::default()));
        sector.entries[(page % entries) as usize] = match self.checksums {
            true => MapEntry::of(page, image),
            false => MapEntry::Present { crc: 0 },
        };
        Ok(())
    }

    /// Writes the last sector and hands all bytes to the system. They are durable after a barrier.
    pub(super) fn finish(mut self) -> Result<()> {
        self.finish_sector()?;
        self.map.flush()?;
        self.data.flush()
    }

    fn finish_sector(&mut self) -> Result<()> {
        match self.sector.take() {
            Some((n, sector)) => self.map.write(n * MAP_SECTOR_LEN as u64, &sector.encode(n)),
            None => Ok(()),
        }
    }
}
