//! The library itself, as users get it.

use super::Bulk;
use crate::rivals::records::Records;
use crate::rivals::subjects::LOGFORCE;
use anyhow::Result;
use logforce::Options;
use std::path::Path;
use std::time::{Duration, Instant};

/// `append` for each record and one `force`.
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
        let began = Instant::now();
        let mut end = log.tail_lsn();
        for _ in 0..count {
            end = log.append(records.following().1)?.end;
        }
        log.force(end)?;
        let took = began.elapsed();
        log.close()?;
        Ok(took)
    }

    fn read(&self, dir: &Path, _: u64, see: &mut dyn FnMut(&[u8])) -> Result<()> {
        let log = logforce::open_existing(dir.join("log"), Options::new())?;
        for record in log.read_from(log.front_lsn())? {
            see(&record?.data);
        }
        Ok(log.close()?)
    }
}
