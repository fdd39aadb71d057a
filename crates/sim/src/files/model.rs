//! Contents that a file of slots must have: the versions that were acknowledged and begun.

use logforce_testkit::Rng;

/// Number of regions of the file, one for each thread that may write.
pub const REGIONS: u64 = 4;

/// Slot: a range of the file that one thread writes, as a whole and in increasing versions.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: usize,
    /// Region of the slot, which is also the number of its thread.
    pub region: u64,
    number: u64,
}

impl Slot {
    /// Returns the exclusive end, bytes.
    pub fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// Returns the bytes of a version: its number, then bytes that follow from slot and version.
    pub fn image(&self, version: u64) -> Vec<u8> {
        let mut image = version.to_le_bytes().to_vec();
        let mut rng = Rng::new(version << 16 | self.number);
        while image.len() < self.len {
            image.extend(rng.bits().to_le_bytes());
        }
        image.truncate(self.len);
        image
    }

    /// Returns the version in these bytes, or `None` if they are torn. A slot that was never written has
    /// version 0. The bytes may lack the part behind the end of the file.
    pub fn version_in(&self, bytes: &[u8]) -> Option<u64> {
        if bytes.iter().all(|b| *b == 0) {
            return Some(0);
        }
        let version = bytes.first_chunk().map(|b| u64::from_le_bytes(*b))?;
        (bytes == self.image(version)).then_some(version)
    }

    /// Returns true if the slot lies in one sector. A cut never tears it then.
    fn is_in_one_sector(&self, sector: u64) -> bool {
        self.offset / sector == (self.end() - 1) / sector
    }
}

/// Slots of a file, and the size of a region in bytes.
#[derive(Debug, Clone)]
pub struct Layout {
    /// All slots.
    pub slots: Vec<Slot>,
    /// Size of a region, bytes. A thread may prepare all of its region.
    pub region: u64,
    sector: u64,
}

impl Layout {
    /// Draws the slots of a file whose writes are multiples of `unit`. Slots of neighbours share sectors if
    /// the unit is 1.
    pub fn random(rng: &mut Rng, unit: u64, sector: u64) -> Layout {
        let region = match unit {
            1 => 11_000 + rng.below(3_000),
            unit => unit * (6 + rng.below(4)),
        };
        let mut slots = Vec::new();
        for thread in 0..REGIONS {
            let (mut at, end) = (region * thread, region * (thread + 1));
            for _ in 0..20 {
                let len = match (unit, rng.below(4)) {
                    (1, 0 | 1) => 40 + rng.below(200),
                    (1, 2) => {
                        at = at.next_multiple_of(sector);
                        sector
                    }
                    (1, _) => sector + 100 + rng.below(sector),
                    (_, 0 | 1) => unit,
                    _ => unit * (2 + rng.below(2)),
                };
                if at + len > end {
                    continue;
                }
                slots.push(Slot {
                    offset: at,
                    len: len as usize,
                    region: thread,
                    number: slots.len() as u64 + 1,
                });
                at += len + rng.pick(&[0, 0, unit]);
            }
        }
        Layout {
            slots,
            region,
            sector,
        }
    }
}

/// Versions of a slot.
#[derive(Debug, Clone, Copy, Default)]
pub struct Versions {
    /// Version that was acknowledged as durable, or shown as such by an opening.
    pub acknowledged: u64,
    /// Version whose write has completed since the opening; `acknowledged` if there is none.
    pub completed: u64,
    /// Version whose write began last.
    pub begun: u64,
}

/// State of a slot at an opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The version whose write began last.
    Newest,
    /// An older version, which is acknowledged or newer.
    Older,
    /// Parts of versions, while no whole one had to be there.
    Torn,
}

/// Expected contents of the file.
#[derive(Debug)]
pub struct Model {
    /// Slots of the file.
    pub layout: Layout,
    /// Versions of each slot.
    pub versions: Vec<Versions>,
    /// True if an opening has returned, which makes the name durable.
    pub is_created: bool,
    /// Durable length, bytes.
    pub len: u64,
}

impl Model {
    /// Creates the model of a file that does not exist.
    pub fn new(layout: Layout) -> Model {
        Model {
            versions: vec![Versions::default(); layout.slots.len()],
            layout,
            is_created: false,
            len: 0,
        }
    }

    /// Begins a write of the slot and returns its bytes.
    pub fn begin(&mut self, slot: usize) -> Vec<u8> {
        let version = &mut self.versions[slot].begun;
        *version += 1;
        self.layout.slots[slot].image(*version)
    }

    /// Notes that the last write of the slot has completed.
    pub fn completed(&mut self, slot: usize) {
        let versions = &mut self.versions[slot];
        versions.completed = versions.begun;
    }

    /// Returns the version of each slot whose write has completed.
    pub fn all_completed(&self) -> Vec<u64> {
        self.versions.iter().map(|v| v.completed).collect()
    }

    /// Notes that all these versions are durable.
    pub fn acknowledge_all(&mut self, versions: &[u64]) {
        for (slot, version) in versions.iter().enumerate() {
            self.acknowledge(slot, *version);
        }
    }

    /// Notes that a version is durable.
    pub fn acknowledge(&mut self, slot: usize, version: u64) {
        let versions = &mut self.versions[slot];
        versions.acknowledged = versions.acknowledged.max(version);
        if versions.acknowledged > 0 {
            self.len = self.len.max(self.layout.slots[slot].end());
        }
    }

    /// Checks the bytes of a slot at an opening. Notes them as durable if they are.
    pub fn found(&mut self, slot: usize, bytes: &[u8], is_durable: bool) -> Found {
        let place = &self.layout.slots[slot];
        let versions = self.versions[slot];
        let found = place.version_in(bytes);
        let (acknowledged, begun) = (versions.acknowledged, versions.begun);
        match found {
            Some(version) => assert!(
                (acknowledged..=begun).contains(&version),
                "slot {slot} at {}: version {acknowledged} is acknowledged and {begun} was written, but \
                 {version} is there",
                place.offset
            ),
            None => assert!(
                acknowledged < begun && !place.is_in_one_sector(self.layout.sector),
                "slot {slot} at {}, {} bytes: version {acknowledged} is acknowledged and {begun} was \
                 written, but it is torn",
                place.offset,
                place.len
            ),
        }
        if let Some(version) = found.filter(|_| is_durable) {
            self.acknowledge(slot, version);
        }
        let versions = &mut self.versions[slot];
        versions.completed = versions.acknowledged;
        match found {
            None => Found::Torn,
            Some(version) if version < begun => Found::Older,
            Some(_) => Found::Newest,
        }
    }
}
