//! Real logs, made once by the library on a simulated disk, and their known contents.

use super::Files;
use super::scripts::{Act, Boot, End, SCRIPTS, Script};
use crate::memory::FileImage;
use crate::model::PATH;
use logforce_core::{
    Batch, BatchInfo, Error, Inspector, Log, Lsn, OpenMode, Options, Record, SegmentInfo, Visit,
};
use logforce_testkit::{Failure, Rng, SimDisk, SimOptions, SimRuntime, Snapshot};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

/// Capacity of the disk, bytes. A log that claims to be longer fills this disk, not the machine's memory.
const CAPACITY: u64 = 4 << 20;

/// A real log.
pub(super) struct Base {
    pub(super) name: &'static str,
    pub(super) options: Options,
    /// Disk with the log, at rest.
    pub(super) disk: Snapshot,
    /// Files of the log at the end.
    pub(super) files: Files,
    /// Files of the log at earlier moments, as they were on the medium.
    pub(super) versions: Vec<Files>,
    /// Names of the segments, in the log's order.
    pub(super) segments: Vec<SegmentInfo>,
    /// Batches, in the log's order.
    pub(super) batches: Vec<BatchInfo>,
    /// Records that are part of the log, in order.
    pub(super) live: Vec<Record>,
    /// All records that were ever appended, by LSN; several if a crash lost the first.
    pub(super) history: BTreeMap<Lsn, Vec<Record>>,
    pub(super) meta: Option<Vec<u8>>,
    /// All values that the metadata has had.
    pub(super) metas: Vec<Option<Vec<u8>>>,
    /// LSN at which the scan of an opening starts, by the control file.
    pub(super) anchor: Lsn,
}

/// Returns all base logs.
pub(super) fn all() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| SCRIPTS.iter().map(Base::make).collect())
}

/// Returns the options of the disk for these logs.
pub(super) fn disk_options() -> SimOptions {
    SimOptions {
        // Fewer and larger sectors, because each input pays for them.
        sector: 4096,
        capacity: Some(CAPACITY),
        log_lines: 0,
        ..SimOptions::default()
    }
}

/// Returns options with small sizes, so that a short log has every feature and an input is cheap.
pub(super) fn options(segment_size: u64) -> Options {
    let batch = (segment_size / 2) as u32;
    Options::new()
        .segment_size(segment_size)
        .max_batch_size(batch.into())
        .buffer_size(2 * u64::from(batch))
        .idle_stamp(Duration::from_millis(2))
        .max_spare_segments(1)
        .calibrate(false)
}

/// A base log under construction.
struct Making {
    disk: SimDisk,
    options: Options,
    history: BTreeMap<Lsn, Vec<Record>>,
    metas: Vec<Option<Vec<u8>>>,
    versions: Vec<Files>,
    next: u64,
}

/// Returns the files of a log's directory as they are on the medium.
fn files(disk: &SimDisk) -> Files {
    FileImage::of(disk, PATH).files
}

impl Base {
    fn make(script: &Script) -> Base {
        let mut making = Making {
            disk: SimDisk::new(disk_options(), 1),
            options: options(script.segment_size),
            history: BTreeMap::new(),
            metas: vec![None],
            versions: Vec::new(),
            next: 0,
        };
        for (n, boot) in script.boots.iter().enumerate() {
            making.boot(boot, n as u64 + 1);
        }
        let Making {
            disk,
            options,
            history,
            metas,
            versions,
            ..
        } = making;
        // The disk keeps the sector size of the last boot.
        let mut batches = Vec::new();
        let mut live = Vec::new();
        let (summary, meta) = SimRuntime::run(1, |rt| {
            let inspector = Inspector::open(&*disk.system(rt), PATH).expect("a healthy log");
            let found = inspector.walk(&mut |visit| {
                match visit {
                    Visit::Batch(b) => batches.push(b.clone()),
                    Visit::Record { record, .. } => live.push(record.clone()),
                    Visit::Part(e) => panic!("a healthy log has a part at {}", e.start),
                    Visit::Damage(d) => panic!("a healthy log is damaged: {d}"),
                }
                true
            });
            found.expect("a healthy log can be walked");
            let meta = inspector.meta().expect("healthy metadata");
            (inspector.summary(), meta)
        });
        for e in &live {
            let known = history.get(&e.start);
            assert!(known.is_some_and(|k| k.contains(e)), "{}", script.name);
        }
        disk.crash(Failure::Process, None, 1);
        Base {
            name: script.name,
            options,
            files: files(&disk),
            disk: disk.snapshot(),
            versions,
            segments: summary.segments,
            batches,
            live,
            history,
            meta,
            metas,
            anchor: summary.anchor,
        }
    }
}

impl Making {
    fn boot(&mut self, boot: &Boot, seed: u64) {
        self.disk.change(|o| o.physical_sector = boot.sector);
        let (disk, options) = (self.disk.clone(), self.options.clone());
        let ended = SimRuntime::run(seed, |rt| -> Result<(), Error> {
            let system = disk.system(rt);
            let log = Log::open(&*system, PATH, OpenMode::OpenOrCreate, options)?;
            for act in boot.acts {
                self.act(*act, rt, &log)?;
            }
            match boot.end {
                End::Close => log.close(),
                End::Cut(_) => {
                    disk.cut();
                    Ok(())
                }
            }
        });
        ended.expect("nothing fails");
        if let End::Cut(survival) = boot.end {
            self.disk.crash(Failure::Power, Some(survival), seed);
        }
        self.versions.push(files(&self.disk));
    }

    /// Returns bytes unlike those of any other record.
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.next += 1;
        let mut rng = Rng::new(self.next);
        let words = std::iter::repeat_with(|| rng.bits().to_le_bytes());
        words.flatten().take(len).collect()
    }

    fn known(&mut self, start: Lsn, end: Lsn, data: Vec<u8>) {
        let record = Record { start, end, data };
        self.history.entry(start).or_default().push(record);
    }

    /// Returns the start of the nth record from the end.
    fn from_end(log: &Log, n: usize) -> Result<Lsn, Error> {
        let all: Result<Vec<Record>, Error> = log.read_from(log.front_lsn())?.collect();
        let starts: Vec<Lsn> = all?.iter().map(|e| e.start).collect();
        Ok(starts[starts.len() - n])
    }

    fn act(&mut self, act: Act, rt: &SimRuntime, log: &Log) -> Result<(), Error> {
        match act {
            Act::Append(len) => {
                let data = self.bytes(len);
                let at = log.append(&data)?;
                self.known(at.start, at.end, data);
            }
            Act::Group(count, len) => {
                let all: Vec<Vec<u8>> = (0..count).map(|_| self.bytes(len)).collect();
                let records: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
                let mut batch = Batch::of(&records);
                log.append(&mut batch)?;
                let places = batch.ranges().to_vec();
                for (at, data) in places.into_iter().zip(all) {
                    self.known(at.start, at.end, data);
                }
            }
            Act::Commit(len) => {
                let data = self.bytes(len);
                let at = log.commit(&data)?;
                self.known(at.start, at.end, data);
            }
            Act::Force => {
                log.force(log.tail_lsn())?;
            }
            Act::Front(kept) => log.truncate_front(Self::from_end(log, kept)?)?,
            Act::Back(count) => log.truncate_back(Self::from_end(log, count)?)?,
            Act::Meta(len) => {
                let bytes = self.bytes(len);
                log.set_meta(&bytes)?;
                self.metas.push(Some(bytes));
            }
            Act::Idle => rt.sleep(Duration::from_millis(5)),
            Act::Version => self.versions.push(files(&self.disk)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_core::BatchKind;

    #[test]
    fn between_them_they_have_everything_that_can_be_mutated() {
        let bases = all();
        let any = |what: &str, has: &dyn Fn(&Base) -> bool| {
            assert!(bases.iter().any(has), "no log has {what}");
        };
        for kind in [
            BatchKind::Data,
            BatchKind::Stamp,
            BatchKind::Epoch,
            BatchKind::Void,
        ] {
            any(&format!("{kind:?} batches"), &|b| {
                b.batches.iter().any(|x| x.kind == kind)
            });
        }
        let file = |b: &Base, lsn| {
            b.batches
                .iter()
                .rfind(|x| x.lsn <= lsn)
                .map(|x| x.file.clone())
        };
        any("a record across segments", &|b| {
            b.live.iter().any(|e| file(b, e.start) != file(b, e.end))
        });
        any("many segments", &|b| b.segments.len() >= 5);
        any("no records", &|b| b.live.is_empty());
        any("a truncated front", &|b| b.segments[0].start > Lsn::ORIGIN);
        any("a void range", &|b| {
            b.batches
                .iter()
                .any(|x| x.kind == BatchKind::Void && x.void_from < x.lsn)
        });
        any("several openings", &|b| {
            b.batches
                .iter()
                .filter(|x| x.kind == BatchKind::Epoch)
                .count()
                >= 3
        });
        any("metadata", &|b| b.meta.is_some() && b.metas.len() > 2);
        any("two write units", &|b| {
            b.segments
                .iter()
                .any(|s| s.write_unit != b.segments[0].write_unit)
        });
        any("a page of statistics", &|b| b.files.contains_key("live"));
        any("an earlier version", &|b| b.versions.len() >= 3);
        for b in bases {
            let bytes: usize = b.files.values().map(|f| f.len()).sum();
            let of = |n: &str| b.files.contains_key(n);
            assert!(bytes < 1 << 20 && of("control") && of("lock"), "{}", b.name);
        }
    }
}
