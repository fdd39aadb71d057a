//! The library with default options, in new files and in recycled ones.

use super::Bulk;
use crate::rivals::records::BULK_RECORD;
use crate::rivals::records::Records;
use crate::rivals::subjects::{LOGFORCE, RECYCLING};
use anyhow::Result;
use logforce::{Log, Options, Tuning};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Subject: `append` for each record and one `force`.
pub struct Logforce;

impl Bulk for Logforce {
    fn rival(&self) -> &'static str {
        LOGFORCE
    }

    fn settings(&self) -> String {
        "default options; append() of each record, one force() at the end; nothing is prepared \
         beforehand but the first segment"
            .to_owned()
    }

    fn append(&self, dir: &Path, records: &mut Records, count: u64) -> Result<Duration> {
        let log = logforce::create_new(dir.join("log"), Options::new())?;
        let took = append(&log, records, count)?;
        log.close()?;
        Ok(took)
    }

    fn read(&self, dir: &Path, _: u64, see: &mut dyn FnMut(&[u8])) -> Result<()> {
        read(dir, see)
    }
}

/// Subject: the same, into recycled files of truncated segments.
pub struct Recycled;

impl Bulk for Recycled {
    fn rival(&self) -> &'static str {
        RECYCLING
    }

    fn settings(&self) -> String {
        "default options but for the number of spare segments; as many bytes are appended before, \
         forced and truncated, so that nearly all that is measured goes into their files"
            .to_owned()
    }

    fn append(&self, dir: &Path, records: &mut Records, count: u64) -> Result<Duration> {
        let options = Options::new().tuning(Tuning::new().max_spare_segments(usize::MAX));
        let log = logforce::create_new(dir.join("log"), options)?;
        let before = vec![0; BULK_RECORD];
        for _ in 0..count {
            log.append(&before)?;
        }
        log.force(log.tail_lsn())?;
        log.truncate_front(log.tail_lsn())?;
        // Waits until the work that the truncation deferred is done and earlier writes are on the disk.
        sleep(Duration::from_secs(1));
        let took = append(&log, records, count)?;
        log.close()?;
        Ok(took)
    }

    fn read(&self, dir: &Path, _: u64, see: &mut dyn FnMut(&[u8])) -> Result<()> {
        read(dir, see)
    }
}

fn append(log: &Log, records: &mut Records, count: u64) -> Result<Duration> {
    let began = Instant::now();
    let mut end = log.tail_lsn();
    for _ in 0..count {
        end = log.append(records.following().1)?.end;
    }
    log.force(end)?;
    Ok(began.elapsed())
}

fn read(dir: &Path, see: &mut dyn FnMut(&[u8])) -> Result<()> {
    let log = logforce::open_existing(dir.join("log"), Options::new())?;
    for record in log.read_from(log.front_lsn())? {
        see(&record?.data);
    }
    Ok(log.close()?)
}
