//! The known bugs that `--cfg planted` compiles in, and the suite that has to catch each.

/// A known bug: a place in the shipped code that says `planted!("name")`.
#[derive(Debug, Clone, Copy)]
pub struct Plant {
    /// Its name, the value of `LOGFORCE_PLANTED` that turns it on.
    pub name: &'static str,
    /// What it breaks, in words; an invariant of the design where there is one for it.
    pub breaks: &'static str,
    /// The life that has found it, if lives look for it: it is lived first, and the others only if
    /// it does not find it any more.
    pub seed: Option<u64>,
}

const fn plant(name: &'static str, breaks: &'static str) -> Plant {
    Plant {
        name,
        breaks,
        seed: None,
    }
}

impl Plant {
    const fn found_by(self, seed: u64) -> Plant {
        Plant {
            seed: Some(seed),
            ..self
        }
    }
}

/// So many of them, others at each turn, so that all have theirs.
pub fn in_turn(list: &[Plant], some: usize, turn: u64) -> impl Iterator<Item = &Plant> {
    let begin = turn as usize % list.len().max(1);
    list.iter().cycle().skip(begin).take(some.min(list.len()))
}

/// Caught by random lives.
pub const LIVES: &[Plant] = &[
    plant("barrier-left-out", "1: acknowledged before the barrier").found_by(0),
    plant(
        "failed-barrier-forgotten",
        "4: a failed barrier counts as done",
    )
    .found_by(5),
    plant("failed-write-forgotten", "4: a failed write counts as done").found_by(0),
    plant("poison-forgotten", "4: the log goes on after a failure").found_by(0),
    plant(
        "unforced-neighbour",
        "1: a write through behind an unforced one counts as a force",
    )
    .found_by(1),
    plant(
        "barrier-covers-what-came-later",
        "1: a barrier covers what was written while it ran",
    )
    .found_by(1024),
    plant(
        "hole-under-watermark",
        "1: the watermark passes a write that has not landed",
    )
    .found_by(298),
    plant(
        "guarantee-overstated",
        "1, 6: what is only written is said to survive loss of power",
    )
    .found_by(13),
    plant(
        "stamp-of-a-weak-method",
        "3: a stamp says more than is durable",
    )
    .found_by(6),
    plant(
        "anchor-above-durable",
        "9, 11: the scan at opening starts above what is durable",
    )
    .found_by(22),
    plant("stamps-not-searched", "3: damage passes for a torn tail").found_by(672),
    plant("payload-checksum-ignored", "2: a torn payload is accepted").found_by(0),
    plant(
        "chain-unchecked",
        "2: a batch with another predecessor is accepted",
    )
    .found_by(1157),
    plant(
        "stale-epoch-accepted",
        "2: a batch of an opening that was given up is accepted",
    )
    .found_by(22),
    plant(
        "torn-append-kept",
        "2: parts of an append that was never finished stay in the log",
    )
    .found_by(29),
    plant(
        "resumption-ignored",
        "2, 10: what an opening gave up comes back",
    )
    .found_by(538),
    plant(
        "cache-believed",
        "4: what a failed barrier left in the cache only is believed",
    )
    .found_by(70),
    plant(
        "tail-not-forced",
        "10: what was recovered is lost by the next crash",
    )
    .found_by(55),
    plant("void-not-forced", "10: what was taken back is there again").found_by(0),
    plant(
        "void-not-listed",
        "10: nobody finds the void ranges below the anchor",
    )
    .found_by(0),
    plant(
        "segment-unforced",
        "9: a segment is used before its header is durable",
    )
    .found_by(0),
    plant(
        "segment-name-unsynced",
        "12: a segment is used before its name is durable",
    )
    .found_by(0),
    plant(
        "segment-unannounced",
        "9: a segment is used that the control file does not know",
    )
    .found_by(0),
    plant("control-in-one-slot", "9: a torn control slot leaves none").found_by(51),
    plant("control-unforced", "9: the control file is not forced").found_by(0),
    plant(
        "front-not-written-down",
        "9: segments go before the control file says so",
    )
    .found_by(0),
    plant("metadata-unforced", "the metadata is not forced").found_by(5),
    plant("metadata-in-one-slot", "torn metadata leaves none").found_by(224),
    plant(
        "any-error-is-damage",
        "3: a read that fails for lack of memory is evidence of damage",
    )
    .found_by(0),
    plant(
        "one-look-at-the-medium",
        "3: what a second look reads is lost",
    )
    .found_by(1),
    plant(
        "short-read-is-the-end",
        "3: a read that answers too little is the log's end",
    )
    .found_by(2),
    plant(
        "control-slot-error-is-damage",
        "9: a slot of the control file that cannot be read just now is a broken slot",
    )
    .found_by(4),
    plant(
        "header-error-is-damage",
        "9: a segment whose header cannot be read just now is a lost segment",
    )
    .found_by(0),
    plant(
        "listing-believed",
        "9: a listing that is short is all there is",
    )
    .found_by(0),
    plant(
        "marker-ignored",
        "10: what was given up comes back where the segment in which the log went on is lost",
    )
    .found_by(383),
    plant(
        "given-up-is-reused",
        "3: what was given up at damage is written over",
    )
    .found_by(15),
];

/// Caught by exploring interleavings, with shuttle.
pub const INTERLEAVINGS: &[Plant] = &[
    plant(
        "wake-work",
        "none of the wakes of the writing thread that are due when the mutex is released",
    ),
    plant(
        "wake-prepare",
        "none of the wakes of the preparing thread that are due when the mutex is released",
    ),
    plant(
        "wake-claimant",
        "who waits to do the next job is not woken when one ends",
    ),
    plant(
        "claim-kept",
        "a job that begins leaves the next one claimed by nobody",
    ),
    plant(
        "claimant-looks-once",
        "a claimant that wakes for nothing waits where the next claimant is not rung",
    ),
    plant(
        "wake-round",
        "the committers whose records a job carried are not woken",
    ),
    plant(
        "wake-work-for-job",
        "a job that nobody claims is not the writing thread's",
    ),
    plant("wake-callback", "a callback that is due is not called"),
    plant(
        "wake-progress",
        "who waits for a write, for room or for the end of something is not woken",
    ),
    plant("wake-room-tasks", "tasks that wait for room are not woken"),
    plant(
        "wake-follower",
        "followers that block are not woken by what became durable",
    ),
    plant("wake-tasks", "tasks are not woken by what became durable"),
    plant(
        "wake-written-tasks",
        "tasks are not woken by what was written",
    ),
    plant(
        "wake-below-only",
        "a task that waits for just this LSN is not woken",
    ),
    plant(
        "first-waker-kept",
        "a future that moved to another task wakes the first one",
    ),
    plant(
        "wake-after-failed-job",
        "a close does not hear that the last job has failed",
    ),
    plant(
        "wake-after-unwound-job",
        "a close does not hear that the last job has unwound",
    ),
    plant(
        "wake-work-for-room",
        "neither who fills a batch nor who finds no room says so",
    ),
    plant(
        "wake-work-on-submit",
        "a submission is not the writing thread's",
    ),
    plant(
        "wake-work-on-submit-force",
        "a force that is submitted is not the writing thread's",
    ),
    plant(
        "wake-work-for-callback",
        "a callback that waits for nothing waits",
    ),
    plant(
        "wake-work-for-deadline",
        "a deadline is not the writing thread's",
    ),
    plant(
        "wake-prepare-on-demand",
        "who finds no prepared space does not say so",
    ),
    plant(
        "wake-after-preparing",
        "who waits for prepared space is not told of it",
    ),
    plant(
        "wake-prepare-after-callback",
        "the preparing thread does not hear that the owner has made room",
    ),
    plant(
        "wake-callback-at-cap",
        "an append in the owner's callback waits for the callback",
    ),
    plant(
        "wake-prepare-on-unpin",
        "the front stays where a pin was that went",
    ),
    plant(
        "wake-prepare-on-advance",
        "the front stays where a pin was that moved on",
    ),
    plant(
        "wake-close-after-truncation",
        "a close does not hear that a truncation has ended",
    ),
    plant(
        "close-wakes-no-writer",
        "the writing thread does not hear that it may end",
    ),
    plant(
        "close-wakes-no-preparer",
        "the preparing thread does not hear that it may end",
    ),
    plant("close-ends-no-view", "followers do not hear of the close"),
    plant(
        "wake-other-closers",
        "the second close does not hear of the first one's end",
    ),
    plant(
        "end-wakes-no-follower",
        "followers that block do not hear of the end",
    ),
    plant(
        "end-wakes-no-task",
        "followers that are tasks do not hear of the end",
    ),
    plant(
        "wake-watch",
        "the writing thread does not look whether the log is still there when something lands",
    ),
    plant(
        "fail-wake-claimant",
        "the claimant does not hear of a failure",
    ),
    plant("fail-wake-rounds", "committers do not hear of a failure"),
    plant(
        "fail-wake-progress",
        "who waits for room or space does not hear of a failure",
    ),
    plant(
        "fail-wake-work",
        "the writing thread does not hear of a failure",
    ),
    plant(
        "fail-wake-written-tasks",
        "tasks that wait for a write do not hear of a failure",
    ),
    plant(
        "fail-ends-view",
        "followers and tasks do not hear of a failure",
    ),
    plant(
        "recheck-poison",
        "a committer does not look for a failure before it waits",
    ),
    plant(
        "recheck-after-register",
        "a handle does not look again once its waker is known",
    ),
    plant(
        "recheck-room-after-register",
        "a submission does not look for room again once its waker is known",
    ),
    plant(
        "recheck-follower-after-register",
        "a follower does not look again once its waker is known",
    ),
    plant(
        "late-observe-commit",
        "a committer looks at the word after it has let go of the mutex",
    ),
    plant(
        "late-observe-room",
        "an append looks at the word after it has found no room",
    ),
    plant(
        "late-observe-close",
        "a close looks at the word after it has looked at what it waits for",
    ),
    plant(
        "late-observe-work",
        "the writing thread looks at the word after it has found nothing to do",
    ),
    plant(
        "late-observe-prepare",
        "the preparing thread looks at the word after it has found nothing to do",
    ),
    plant(
        "late-observe-follower",
        "a follower looks at the word after it has found no record",
    ),
    plant(
        "sleep-uncounted",
        "a sleeper is not counted, and who rings sees none",
    ),
    plant("ring-without-change", "a ring leaves the word as it is"),
    plant(
        "lock-uncontended",
        "who waits for a lock leaves no trace for its holder",
    ),
    plant("wake-next-holder", "who gives a lock back wakes nobody"),
    plant(
        "ack-before-landing",
        "invariant 1: durable as soon as the write has begun",
    ),
    plant(
        "ack-before-barrier",
        "invariant 1: durable when the write has landed, before the barrier",
    ),
    plant(
        "barrier-covers-what-came-later",
        "invariant 1: a barrier counts for what was written while it was under way",
    ),
    plant(
        "unforced-neighbour",
        "invariant 1: a write through counts for unforced batches before it",
    ),
    plant(
        "hole-under-watermark",
        "invariant 1: a write that lands counts for those before it in the air",
    ),
    plant(
        "failed-write-lands",
        "invariant 4: a write that failed counts",
    ),
    plant(
        "write-not-joined",
        "invariant 4: the writes beside a failed one are not waited for",
    ),
    plant(
        "running-not-joined-before-unlock",
        "invariant 4: the lock is given up while a job is under way",
    ),
];

/// Caught by exploring what weak memory allows, with loom: `order-…`, by the tests of core itself.
pub const ORDERINGS: &[Plant] = &[
    plant(
        "order-register",
        "a task's second look may come before its waker is known to others",
    ),
    plant(
        "order-wake",
        "the look for wakers may come before what they are woken for is known to others",
    ),
    plant(
        "order-unlock",
        "what was done under a lock may be seen after it is given back",
    ),
    plant(
        "order-poison",
        "the log has failed, and the cause is not there yet",
    ),
];

/// Caught where everything is tried: every bit, length, subset of names, pair of crashes.
pub const EXHAUSTIVE: &[Plant] = &[
    plant(
        "header-checksum-ignored",
        "2: a batch header is believed as it is",
    ),
    plant(
        "segment-header-checksum-ignored",
        "8: a segment's place is believed as it is",
    ),
    plant("metadata-checksum-ignored", "metadata that rotted is shown"),
    plant(
        "lost-metadata-is-none",
        "lost metadata passes for metadata never set",
    ),
    plant(
        "short-segment-accepted",
        "9: a segment that was cut short counts as there",
    ),
    plant(
        "epoch-not-announced",
        "10: an epoch is used that the control file does not know",
    ),
    plant(
        "control-named-before-forced",
        "12: the control file has its name before its bytes",
    ),
    plant(
        "tail-not-forced",
        "10: what was recovered is lost by the next crash",
    ),
    plant(
        "control-not-settled",
        "9: an opening builds on a control slot that the next crash takes away",
    ),
    plant(
        "metadata-not-settled",
        "metadata that an opening showed is lost by the next crash",
    ),
    plant(
        "epoch-not-forced",
        "10: the first batch of an opening is not durable when it returns",
    ),
    plant(
        "spare-of-two-names",
        "12: a file that a torn rename left with two names is used twice",
    ),
    plant(
        "any-error-is-damage",
        "a read that fails for lack of memory is evidence of damage",
    ),
    plant("one-look-at-the-medium", "what a second look reads is lost"),
    plant(
        "short-read-is-the-end",
        "a read that answers too little is the log's end",
    ),
    plant(
        "control-slot-error-is-damage",
        "a slot of the control file that cannot be read just now is a broken slot",
    ),
    plant(
        "header-error-is-damage",
        "a segment whose header cannot be read just now is a lost segment",
    ),
    plant(
        "listing-believed",
        "a listing that is short is all there is",
    ),
];

/// Caught by fuzzing: `cargo xtask fuzz --planted` shows it.
pub const FUZZING: &[Plant] = &[
    plant(
        "length-before-checksum",
        "a length is believed before the checksum over it: memory without bound",
    ),
    plant(
        "frame-beyond-payload",
        "a frame's length is not held against its payload's end: a panic",
    ),
    plant(
        "control-checksum-ignored",
        "a damaged slot of the control file is believed",
    ),
    plant(
        "payload-checksum-ignored",
        "damaged records are shown (invariant 2)",
    ),
    plant(
        "stamps-not-searched",
        "acknowledged data is cut in silence (invariant 3)",
    ),
    plant(
        "void-list-endless",
        "a void batch may name itself as the one before it: recovery never ends",
    ),
];

/// Caught by system calls that fail (`crates/powercut`, process faults `inject`).
pub const SYSTEM_CALLS: &[Plant] = &[
    plant(
        "error-is-not-found",
        "6: an error while facts are gathered raises the guarantee",
    ),
    plant(
        "signal-is-an-error",
        "5: a call that a signal interrupts counts as failed",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn planted_in(dir: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                planted_in(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let names = text.split("planted!(\"").skip(1);
                let names = names.filter_map(|rest| rest.split('"').next());
                found.extend(names.map(str::to_owned));
            }
        }
    }

    #[test]
    fn each_plant_is_in_the_code_and_in_a_list() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut planted = BTreeSet::new();
        for name in ["format", "device", "device-os", "core"] {
            planted_in(&crates.join(name).join("src"), &mut planted);
        }
        planted.remove("its-name");
        let mut listed = BTreeSet::new();
        for list in [
            LIVES,
            INTERLEAVINGS,
            ORDERINGS,
            EXHAUSTIVE,
            FUZZING,
            SYSTEM_CALLS,
        ] {
            let mut here = BTreeSet::new();
            for plant in list {
                assert!(here.insert(plant.name.to_owned()), "{} twice", plant.name);
            }
            listed.extend(here);
        }
        assert_eq!(planted, listed);
    }
}
