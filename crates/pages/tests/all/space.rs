//! A disk that is full for one call while pages are applied: what could not be written is written
//! later.

use crate::common::{PAGE, disk, open, options, page};
use logforce_pages::{CommitMode, ErrorKind};
use logforce_testkit::{Fault, SimRuntime};

#[test]
fn dropped_pages_stay_dropped_where_a_write_met_a_full_disk() {
    let mut refused = 0;
    // In several orders of the threads: the failing call is another one in each.
    for (seed, op) in (0..8).flat_map(|seed| (0..16).map(move |op| (seed, op))) {
        let disk = disk(1);
        SimRuntime::run(seed, |rt| {
            let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
            let mut txn = file.begin().unwrap();
            (0..10).for_each(|n| txn.write(n, &page(n + 1)).unwrap());
            txn.commit().unwrap();
            file.checkpoint().unwrap();
            let mut txn = file.begin().unwrap();
            txn.set_page_count(2).unwrap();
            txn.commit().unwrap();
            disk.fail_at(disk.ops() + op, Fault::NoSpace);
            match file.checkpoint() {
                Err(e) if e.kind() == ErrorKind::NoSpace => refused += 1,
                // A header that could not be written is a failure; what is committed is in the log.
                Err(e) => assert_eq!(e.kind(), ErrorKind::Poisoned, "{op}: {e}"),
                Ok(()) => {}
            }
            let grow = || {
                let mut txn = file.begin()?;
                txn.set_page_count(10)?;
                txn.commit()?;
                file.checkpoint()
            };
            if let Err(e) = grow() {
                let kind = e.kind();
                let fits = matches!(kind, ErrorKind::Poisoned | ErrorKind::NoSpace);
                assert!(fits, "{op}, {kind:?}: {e}");
            }
        });
        SimRuntime::run(2, |rt| {
            let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
            let snapshot = file.snapshot().unwrap();
            let mut bytes = vec![0; PAGE];
            for n in 0..snapshot.page_count() {
                snapshot.read(n, &mut bytes).unwrap();
                let expected = if n < 2 { page(n + 1) } else { page(0) };
                assert!(bytes == expected, "operation {op}: page {n}");
            }
        });
    }
    assert!(refused > 0);
}
