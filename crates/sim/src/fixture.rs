//! Small logs with known contents, which tests damage; and every way to open the result.

use crate::memory::{FileImage, MemorySystem};
use crate::mending::OnDamage;
use crate::model::{Known, Model, PATH, lock};
use crate::workload::{Step, World};
use logforce_core::{
    BatchInfo, Damage, Error, Inspector, LiveStats, Log, LogSummary, Lsn, OpenMode, Options,
    ReadOnly, Record, RecoveryCase, VerifyReport, Visit,
};
use logforce_format::{BATCH_HEADER_LEN, BatchHeader};
use logforce_testkit::{Failure, SimOptions, Survival};

/// A log on a medium, and its known contents.
pub struct Fixture {
    /// Name of the log, for messages.
    pub name: String,
    /// Files of the log.
    pub image: FileImage,
    /// Options with which it is opened.
    pub options: Options,
    /// Model of the calls that were made on it.
    pub model: Model,
    /// Live records, in order.
    pub live: Vec<(Lsn, Known)>,
    /// Batches, in order.
    pub batches: Vec<BatchInfo>,
    /// Header of a torn write, of whose batch only a part exists.
    pub torn: Option<BatchHeader>,
    /// Result of inspecting it.
    pub look: Look,
    /// Result of opening it.
    pub shown: Shown,
}

/// End of the work on a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The log was closed.
    Closed,
    /// Power was lost, and with it everything that had not been forced.
    Cut,
    /// Power was lost while a record of this many bytes was written. Its header and a part of the record
    /// exist.
    Torn(usize),
}

/// Result of an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Summary of the directory and the control file.
    pub summary: LogSummary,
    /// Result of the walk.
    pub finding: VerifyReport,
    /// Damage that the walk reported.
    pub damages: Vec<Damage>,
    /// The records.
    pub records: Vec<Record>,
    /// The metadata.
    pub meta: Meta,
    /// The statistics.
    pub live: Option<LiveStats>,
}

/// Metadata as read: a value, none, or damaged.
pub type Meta = Result<Option<Vec<u8>>, Box<Damage>>;

/// Result of an opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Records that could be read.
    pub records: Vec<Record>,
    /// Damage that ended the reading.
    pub damage: Option<Damage>,
    /// Damage before which a repair ended the log.
    pub lost: Option<Damage>,
    /// The metadata.
    pub meta: Meta,
    /// LSN at which the log ended.
    pub end: Lsn,
    /// Reason for that end.
    pub case: Option<RecoveryCase>,
    /// True if the log was closed cleanly.
    pub clean: bool,
    /// LSN below which records are gone.
    pub front: Lsn,
    /// LSN of the next record.
    pub tail: Lsn,
}

/// Inspects the log, which changes nothing. With `salvage`, also without a usable control file.
pub fn look(memory: &MemorySystem, salvage: bool) -> Result<Look, Error> {
    let inspector = match salvage {
        true => Inspector::salvage(memory, PATH)?,
        false => Inspector::open(memory, PATH)?,
    };
    let (mut damages, mut records) = (Vec::new(), Vec::new());
    let finding = inspector.walk(&mut |visit| {
        match visit {
            Visit::Damage(d) => damages.push(d.clone()),
            Visit::Record { record, .. } => records.push(record.clone()),
            Visit::Batch(_) | Visit::Part(_) => {}
        }
        true
    })?;
    Ok(Look {
        summary: inspector.summary(),
        finding,
        damages,
        records,
        meta: meta(inspector.meta())?,
        live: inspector.live(),
    })
}

fn meta(read: Result<Option<Vec<u8>>, Error>) -> Result<Meta, Error> {
    match read {
        Ok(meta) => Ok(Ok(meta)),
        Err(Error::Damaged(d)) => Ok(Err(d)),
        Err(e) => Err(e),
    }
}

/// Returns the records up to the first that cannot be read, and the damage there.
fn gather<R>(reader: Result<R, Error>) -> Result<(Vec<Record>, Option<Damage>), Error>
where
    R: Iterator<Item = Result<Record, Error>>,
{
    let (mut records, mut damage) = (Vec::new(), None);
    let mut take = |read: Result<Record, Error>| match read {
        Ok(record) => {
            assert!(damage.is_none(), "a record after damage");
            records.push(record);
            Ok(())
        }
        Err(Error::Damaged(d)) => {
            damage = Some(*d);
            Ok(())
        }
        Err(e) => Err(e),
    };
    match reader {
        Ok(mut reader) => reader.try_for_each(&mut take)?,
        Err(e) => take(Err(e))?,
    }
    Ok((records, damage))
}

/// Opens for reading, and reads everything.
pub fn open_to_read(memory: &MemorySystem) -> Result<Shown, Error> {
    let log = ReadOnly::open(memory, PATH)?;
    let (records, damage) = gather(log.read_from(log.front_lsn()))?;
    Ok(Shown {
        records,
        damage,
        lost: None,
        meta: meta(log.meta())?,
        end: log.durable_lsn(),
        case: None,
        clean: false,
        front: log.front_lsn(),
        tail: log.durable_lsn(),
    })
}

/// Opens for writing, reads everything, and cuts the power.
pub fn open_to_write(
    memory: &MemorySystem,
    options: &Options,
    on_damage: OnDamage,
) -> Result<Shown, Error> {
    let mended = on_damage.mend(memory)?;
    let log = Log::open(memory, PATH, OpenMode::OpenExisting, options.clone())?;
    let (lost, lost_meta) = match mended {
        Some(report) => (report.cut.map(|cut| cut.damage), report.lost_meta),
        None => (None, None),
    };
    let read = gather(log.read_from(log.front_lsn()));
    let recovered = log.recovered().clone();
    let shown = read.map(|(records, damage)| Shown {
        records,
        damage,
        lost,
        meta: match lost_meta {
            Some(lost) => Err(Box::new(lost)),
            None => Ok(log.meta()),
        },
        end: recovered.end,
        case: Some(recovered.case),
        clean: recovered.clean,
        front: log.front_lsn(),
        tail: log.tail_lsn(),
    });
    memory.cut();
    shown
}

/// Cuts the power while one more record is written, and searches for a crash that leaves a part of it.
fn tear(world: &World, steps: &[Step], len: usize) {
    let empty = world.image();
    let all = [steps, &[Step::Commit(len)]].concat();
    let work = || world.work(1, std::slice::from_ref(&all));
    work().expect("nothing fails");
    for op in (0..world.disk.ops()).rev() {
        world.restore(&empty);
        world.disk.cut_at(op);
        let _ = work();
        let cut = world.image();
        for seed in 0..16 {
            world.restore(&cut);
            world
                .disk
                .crash(Failure::Power, Some(Survival::Sectors), seed);
            let image = FileImage::of(&world.disk, PATH);
            let Ok(look) = look(&image.system(PATH), false) else {
                continue;
            };
            let long = |t: BatchHeader| t.payload_len as usize >= len;
            if torn(&image, &look).is_some_and(long) {
                return;
            }
        }
    }
    panic!("no crash leaves a part of the write");
}

/// Returns the header of the torn batch.
fn torn(image: &FileImage, look: &Look) -> Option<BatchHeader> {
    let end = look.finding.end;
    let holds = |s: &&logforce_core::SegmentInfo| s.start <= end && end < s.start.plus(s.len);
    let segment = look.summary.segments.iter().find(holds)?;
    let bytes = image.files[&segment.name].get(end.since(segment.start) as usize..)?;
    let header = BatchHeader::decode(bytes.get(..BATCH_HEADER_LEN)?).ok()?;
    (look.finding.case == RecoveryCase::TornEnd && header.lsn == end).then_some(header)
}

impl Fixture {
    /// Performs `steps` in an empty directory, then `ending`.
    pub fn new(name: &str, options: Options, steps: &[Step], ending: Ending) -> Fixture {
        let mut disk = SimOptions::default();
        if let Ending::Torn(_) = ending {
            // Sectors smaller than a write unit, so that a write unit can tear.
            disk.sector = 512;
        }
        let world = World::new(name, disk, options, 1);
        let mut steps = steps.to_vec();
        match ending {
            Ending::Closed => world.work(1, &[steps]).expect("nothing fails"),
            Ending::Cut => {
                steps.push(Step::Cut);
                // Closing fails, because the power is cut.
                let _ = world.work(1, &[steps]);
            }
            Ending::Torn(len) => tear(&world, &steps, len),
        }
        match ending {
            // The statistics page is never forced; `Kept` keeps it among the files of a closed log.
            Ending::Closed => world.disk.crash(Failure::Power, Some(Survival::Kept), 1),
            Ending::Cut => world.disk.crash(Failure::Power, Some(Survival::Lost), 1),
            Ending::Torn(_) => {}
        }
        let image = FileImage::of(&world.disk, PATH);
        let mut batches = Vec::new();
        let inspector = Inspector::open(&image.system(PATH), PATH).expect("healthy");
        let walked = inspector.walk(&mut |visit| {
            if let Visit::Batch(b) = visit {
                batches.push(b.clone());
            }
            true
        });
        assert_eq!(walked.expect("a healthy log").damages, 0);
        let options = world.options.clone();
        let look = look(&image.system(PATH), false).expect("healthy");
        let shown = open_to_write(&image.system(PATH), &options, OnDamage::Refuse);
        let torn = torn(&image, &look);
        if let Ending::Torn(_) = ending {
            assert!(torn.is_some(), "nothing is torn");
            // Removes from the model what was not acknowledged and does not exist.
            let recovered = world.recover(1, Failure::Power, &[]);
            recovered.expect("a healthy log");
        }
        let model = lock(&world.model).clone();
        let fixture = Fixture {
            name: name.to_owned(),
            image,
            options,
            live: model.live(),
            model,
            batches,
            torn,
            look,
            shown: shown.expect("healthy"),
        };
        fixture.check_complete();
        fixture
    }

    /// Checks that the medium holds all acknowledged work.
    fn check_complete(&self) {
        self.is_prefix(&self.look.records, &self.name);
        self.is_prefix(&self.shown.records, &self.name);
        assert_eq!(self.look.records.len(), self.live.len());
        assert_eq!(self.shown.records.len(), self.live.len());
        assert_eq!(self.shown.meta, Ok(self.model.meta.clone()));
        assert_eq!(self.look.meta, Ok(self.model.meta.clone()));
    }

    /// Returns a new system with a copy of the files.
    pub fn system(&self) -> MemorySystem {
        self.image.system(PATH)
    }

    /// Checks that `records` are the first live ones, with the bytes that were appended.
    pub fn is_prefix(&self, records: &[Record], what: &str) {
        assert!(
            records.len() <= self.live.len(),
            "{what}: more records than were appended"
        );
        for (e, (lsn, k)) in records.iter().zip(&self.live) {
            assert!(
                (e.start, e.end, &e.data) == (*lsn, k.end, &k.data),
                "{what}: a record at {}, not the one at {lsn}",
                e.start
            );
        }
    }

    /// Checks that `records` were all appended once, with these bytes, in this order.
    pub fn were_appended(&self, records: &[Record], what: &str) {
        assert!(records.is_sorted_by_key(|e| e.start), "{what}: order");
        for e in records {
            let known = self.model.records.get(&e.start);
            let same = known.is_some_and(|k| k.end == e.end && *k.data == e.data);
            assert!(
                same,
                "{what}: {} was never appended, or was changed",
                e.start
            );
        }
    }

    /// Checks that `records` end between two appends.
    pub fn is_whole(&self, records: &[Record], what: &str) {
        if let Some((lsn, k)) = self.live.get(records.len()) {
            assert_eq!(k.group, *lsn, "{what}: half of an append");
        }
    }

    /// Returns the number of live records whose append ends at or below `end`.
    pub fn whole_below(&self, end: Lsn) -> usize {
        let mut count = 0;
        for (n, (_, k)) in self.live.iter().enumerate() {
            let last = self
                .live
                .get(n + 1)
                .is_none_or(|(_, next)| next.group != k.group);
            if k.end > end {
                break;
            }
            if last {
                count = n + 1;
            }
        }
        count
    }

    /// Returns the highest stamp after the batch of this number, including that of a torn write.
    pub fn stamp_behind(&self, number: usize) -> Option<Lsn> {
        let behind = self.batches[number + 1..].iter().map(|b| b.stamp);
        behind.chain(self.torn.iter().map(|t| t.stamp)).max()
    }

    /// Returns the exclusive end of the last append ever made.
    pub fn appended_to(&self) -> Lsn {
        let last = self.model.records.values().map(|k| k.end).max();
        last.unwrap_or(Lsn::ORIGIN)
    }

    /// Returns true if all of `[from, to)` was voided.
    pub fn is_void(&self, from: Lsn, to: Lsn) -> bool {
        let covers = |v: &(Lsn, Lsn)| v.0 <= from && to <= v.1;
        self.model.voids.iter().any(covers)
    }
}
