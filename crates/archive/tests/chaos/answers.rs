//! Restarts while many answers are lost: what was not answered must not count as missing.

use crate::node::{archive, options};
use crate::store::Target;
use logforce::Policy;
use logforce_archive::{AttachOptions, Error};
use logforce_archive_testserver::{Fault, Faults};

#[test]
fn a_restart_finds_the_newest_chunk_although_answers_are_lost() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let target = Target::faulty();
    let Target::Faulty(server) = &target else {
        return;
    };
    let archive = archive(&target.url(), &target.environment());
    let mut openings = 0;
    for seed in 0..10 {
        let log = logforce::open_or_create(home.path().join("log"), options()).unwrap();
        server.set_faults(Faults {
            probability: [(Fault::LoseAnswer, 0.2)].into(),
            seed,
            ..Faults::default()
        });
        let attached = loop {
            match archive.attach(&log, AttachOptions::new().synchronous()) {
                // The probe of the store gives up after a few tries.
                Err(Error::Store(_)) => {}
                attached => break attached.unwrap(),
            }
        };
        log.commit_with(b"goes on", Policy::Replicated).unwrap();
        openings += 1;
        log.close().unwrap();
        attached.close().unwrap();
    }
    assert_eq!(openings, 10);
}
