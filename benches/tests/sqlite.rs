//! Every case of the bench `sqlite` runs once, by each contender, with few operations.

#![cfg(feature = "sqlite")]

use logforce_benches::rivals::Ground;
use logforce_benches::sqlite::{Contender, Effort, Task, all, register, run};
use logforce_measure::Interrupt;
use std::path::Path;
use std::time::Duration;

#[test]
fn every_contender_does_the_same_work() {
    register().unwrap();
    // Not the temporary directory, which is often in memory, where nothing is durable.
    let ground = Ground::new(Path::new(env!("CARGO_TARGET_TMPDIR")), None).unwrap();
    for case in all() {
        let operations = if matches!(case.task, Task::Commits { .. }) {
            16
        } else {
            2
        };
        let effort = Effort {
            time: Duration::ZERO,
            operations: Some(operations),
            rows: 500,
        };
        for contender in [Contender::Stock].iter().chain(case.contenders) {
            let result = run(&case, *contender, &ground, effort, &Interrupt::new());
            let run = result.unwrap_or_else(|e| panic!("{}, {contender:?}: {e:#}", case.name));
            assert_eq!(run.operations, operations, "{}, {contender:?}", case.name);
        }
    }
}
