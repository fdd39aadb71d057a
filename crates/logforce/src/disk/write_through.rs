//! Advisor for the write-through limit of copy-on-write page files. It measures when a file is created, and
//! looks up the stored result when a file is opened.

use crate::directories::{DEEPEST, make_directories};
use crate::disk::calibration::{Calibrator, WRITE_THROUGH_AT_CREATION, WRITE_THROUGH_MEMORY};
use logforce_calibrate::{WriteThroughSite, choose_write_through, known_write_through};
use logforce_device_os::OsSystem;
use logforce_pages::{WriteThroughAdvisor, WriteThroughLimit, WriteThroughQuestion};

impl WriteThroughAdvisor for Calibrator {
    fn write_through(&self, question: &WriteThroughQuestion<'_>) -> Option<WriteThroughLimit> {
        // The cache if it is set and usable, else the page file's directory.
        let shared = question
            .cache
            .and_then(|path| make_directories(&OsSystem::new(), path, DEEPEST).ok());
        let stores = [shared.unwrap_or_else(|| question.dir.clone())];
        let site = WriteThroughSite {
            dir: question.dir,
            runtime: question.runtime,
            facts: question.facts,
            stores: &stores,
            memory: &WRITE_THROUGH_MEMORY,
        };
        let known = match question.is_new {
            true => choose_write_through(&site, WRITE_THROUGH_AT_CREATION),
            false => known_write_through(&site),
        }?;
        Some(WriteThroughLimit {
            runs: known.decided.limit.runs as usize,
            bytes: known.decided.limit.bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{CommitMode, Options};
    use logforce_calibrate::WRITE_THROUGH_NAME;
    use logforce_device::System;

    #[test]
    fn a_new_file_measures_once_and_an_existing_one_asks_what_is_known() {
        let home = tempfile::tempdir_in(".").unwrap();
        let cache = home.path().join("cache");
        let log = crate::Options::new().calibration_cache(&cache);
        let options = Options::new()
            .mode(CommitMode::CopyOnWrite)
            .require(crate::Guarantee::Nothing)
            .log(log);
        let path = home.path().join("pages");
        let file = crate::pages::create_new(&path, options.clone()).unwrap();
        file.close().unwrap();
        let system = OsSystem::new();
        let dir = system.directory(&path).unwrap();
        let known = crate::disk::calibration::known(&path, Some(&cache))
            .unwrap()
            .write_through;
        let Some(known) = known else {
            logforce_testkit::skip!("nothing is measured here");
            return;
        };
        let names: Vec<String> = dir.entries().unwrap().into_iter().map(|e| e.name).collect();
        assert!(
            !names.iter().any(|n| n.starts_with("calibration")),
            "{names:?}"
        );
        assert!(cache.join(WRITE_THROUGH_NAME).is_file());
        let facts = dir.facts().unwrap();
        let question = WriteThroughQuestion {
            dir: &dir,
            runtime: &system.runtime(),
            facts: &facts,
            is_new: false,
            cache: Some(&cache),
        };
        let found = Calibrator.write_through(&question).unwrap();
        let limit = known.decided.limit;
        assert_eq!(
            (found.runs, found.bytes),
            (limit.runs as usize, limit.bytes)
        );
        // A second page file measures nothing: the evidence stays unchanged.
        let other = home.path().join("other");
        crate::pages::create_new(&other, options)
            .unwrap()
            .close()
            .unwrap();
        let again = crate::disk::calibration::known(&other, Some(&cache))
            .unwrap()
            .write_through;
        assert_eq!(again.map(|t| t.measured_at), Some(known.measured_at));
    }
}
