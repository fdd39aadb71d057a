//! Helpers of the tests.

use logforce::pages::Options;
use logforce::{Guarantee, Method, Tuning};
use logforce_btree::{Entry, Result, Tree, View};
use logforce_testkit::{SimDisk, SimRuntime};
use std::collections::BTreeMap;
use std::path::Path;

pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Page size, bytes. With small pages, few keys make a tree of several levels.
pub const PAGE: u32 = 512;

/// Returns options with small pages and short distances, so that a test has splits, merges and
/// checkpoints.
pub fn small() -> Options {
    let log = logforce::Options::new()
        .method(Method::DirectDsync)
        .segment_size(256 << 10)
        .max_batch_size(64 << 10)
        .buffer_size(64 << 10)
        .tuning(Tuning::new().live_stats(false));
    Options::new()
        .page_size(PAGE)
        .checkpoint_distance(64 << 10)
        .cache_size(64 * u64::from(PAGE))
        .writers(2)
        .log(log)
}

/// Opens a tree on the simulated disk.
pub fn open_simulated(rt: &SimRuntime, disk: &SimDisk) -> Result<Tree> {
    let system = disk.system(rt);
    let options = small().create(true);
    Tree::of(logforce::internal::open_pages(&*system, "/tree", options)?)
}

/// Opens a tree in a temporary directory that needs to survive only the end of the process.
pub fn open_real(path: &Path, options: Options) -> Tree {
    let log = logforce::Options::new().method(Method::Buffered);
    let options = options.require(Guarantee::ProcessCrash).log(log);
    Tree::open_or_create(path, options).unwrap()
}

/// Returns everything that a view shows, and asserts that the tree is intact.
pub fn try_shown(view: &View) -> Result<Map> {
    let report = view.check()?;
    assert_eq!(report.problems, []);
    let entry = |e: Result<Entry>| e.map(|e| (e.key().to_vec(), e.value().to_vec()));
    let shown: Map = view.iter().map(entry).collect::<Result<_>>()?;
    assert_eq!(shown.len() as u64, view.len());
    Ok(shown)
}

/// Like [`try_shown`], on a disk that does not fail.
pub fn shown(view: &View) -> Map {
    try_shown(view).unwrap()
}
