//! Each store does each operation, with one thread and with several.

use logforce_benches::rivals::Ground;
use logforce_benches::tree::{Keys, Operation, Until, all, run};
use logforce_measure::Interrupt;
use std::path::Path;

#[test]
fn every_store_of_the_build_does_everything() {
    // Not the temporary directory, which is often in memory, where nothing is durable.
    let ground = Ground::new(Path::new(env!("CARGO_TARGET_TMPDIR")), None).unwrap();
    let keys = Keys {
        loaded: 3000,
        value: 100,
    };
    let interrupt = Interrupt::new();
    for store in all().0 {
        assert!(!store.version().contains('?') && !store.settings().is_empty());
        let place = ground.fresh(store.name()).unwrap();
        let opened = store.open(place.path()).unwrap();
        let mut operations = vec![Operation::Load];
        for threads in [1, 4] {
            operations.extend([
                Operation::Get(threads),
                Operation::GetMany(threads),
                Operation::Scan(threads),
                Operation::Put(threads),
            ]);
        }
        for (seed, operation) in (1..).zip(operations) {
            let until = Until::Count(20);
            let seen = run(&*opened, operation, keys, until, seed, &interrupt);
            let seen = seen.unwrap_or_else(|e| panic!("{}: {operation:?}: {e:#}", store.name()));
            assert!(
                seen.keys >= 20 * operation.threads() as u64,
                "{operation:?}"
            );
        }
        opened.check().unwrap();
    }
}
