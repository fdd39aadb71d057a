//! Helpers of the tests: page files on a simulated disk.

use logforce_core::OpenMode;
use logforce_device::Method;
use logforce_pages::{CommitMode, Options, PageFile, Result};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

pub const PATH: &str = "/file";
pub const PAGE: usize = 512;

pub const MODES: [CommitMode; 2] = [CommitMode::Logged, CommitMode::CopyOnWrite];

/// Options with small pages and short distances, so that a test reaches checkpoints.
pub fn options(mode: CommitMode) -> Options {
    let log = logforce_core::Options::new()
        .method(Method::DirectDsync)
        .segment_size(64 << 10)
        .max_batch_size(16 << 10)
        .buffer_size(16 << 10)
        .live_stats(false);
    Options::new()
        .mode(mode)
        .page_size(PAGE as u32)
        .checkpoint_distance(32 << 10)
        .cache(64 * PAGE)
        .writers(2)
        .log(log)
}

pub fn disk(seed: u64) -> SimDisk {
    SimDisk::new(SimOptions::default(), seed)
}

/// Opens the page file, or creates it.
pub fn open(rt: &SimRuntime, disk: &SimDisk, options: Options) -> Result<PageFile> {
    PageFile::open(&*disk.system(rt), PATH, OpenMode::OpenOrCreate, options)
}

/// Runs `body` on a separate disk for each commit mode.
pub fn with_file(body: impl Fn(&PageFile)) {
    for mode in MODES {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let file = open(rt, &disk, options(mode)).unwrap();
            body(&file);
            file.close().unwrap();
        });
    }
}

/// Makes a page that identifies itself by its tag.
pub fn page(tag: u64) -> Vec<u8> {
    tag.to_le_bytes().repeat(PAGE / 8)
}
