//! Known bugs that `--cfg planted` compiles in, and the suite that must catch each.

mod pages;
mod tools;

pub use pages::{PAGES, PAGES_BY_TEST};
pub use tools::{FUZZING, ORDERINGS, SYSTEM_CALLS};

/// A known bug: code of the library that says `planted!("name")`.
#[derive(Debug, Clone, Copy)]
pub struct KnownBug {
    /// Name of the bug: the value of `LOGFORCE_PLANTED` that turns it on.
    pub name: &'static str,
    /// Description of the effect, after the number of the design's invariant that it breaks, if any.
    pub breaks: &'static str,
    /// Seed of a run that found it, if random runs search for it. This seed is tried first, and others
    /// only if it no longer finds the bug.
    pub seed: Option<u64>,
}

const fn bug(name: &'static str, breaks: &'static str) -> KnownBug {
    KnownBug {
        name,
        breaks,
        seed: None,
    }
}

impl KnownBug {
    const fn found_by(self, seed: u64) -> KnownBug {
        KnownBug {
            seed: Some(seed),
            ..self
        }
    }
}

/// Returns `some` bugs of the list, different ones at each turn, so that every bug gets its turn.
pub fn in_turn(list: &[KnownBug], some: usize, turn: u64) -> impl Iterator<Item = &KnownBug> {
    let begin = turn as usize % list.len().max(1);
    list.iter().cycle().skip(begin).take(some.min(list.len()))
}

/// Bugs that random runs catch.
pub const SIMULATION: &[KnownBug] = &[
    bug(
        "history-not-compared",
        "7: a follower continues from a stored position in another history of the log",
    ).found_by(0),
    bug(
        "history-without-voids",
        "7: a replica lacks what a lost truncation voided",
    ).found_by(26),
    bug(
        "back-to-without-voids",
        "7: a replica that goes back lacks what a lost truncation voided",
    ).found_by(26),
    bug(
        "follower-takes-any-successor",
        "7: a follower goes on in another history behind a void range",
    ).found_by(1465),
    bug(
        "voided-before-compared",
        "7: a follower goes back to where its history has no record, for another history's truncation",
    ).found_by(63008428),
    bug(
        "follower-voids-in-silence",
        "7: a replica keeps records that a copy of the log has voided",
    ).found_by(61207261),
    bug(
        "other-log-followed",
        "7: a follower continues in another log",
    ).found_by(0),
    bug(
        "follower-checks-no-location",
        "7: a follower waits for ever where a restored backup has replaced the log",
    ).found_by(0),
    bug("barrier-left-out", "1: acknowledged before the barrier").found_by(0),
    bug(
        "failed-barrier-forgotten",
        "4: a failed barrier counts as done",
    ).found_by(21),
    bug("failed-write-forgotten", "4: a failed write counts as done").found_by(0),
    bug("poison-forgotten", "4: the log goes on after a failure").found_by(1),
    bug(
        "unforced-neighbour",
        "1: a write through after an unforced one counts as a force",
    )
    .found_by(1),
    bug(
        "barrier-covers-what-came-later",
        "1: a barrier covers what was written while it ran",
    )
    .found_by(77),
    bug(
        "hole-under-watermark",
        "1: the watermark passes a write that has not completed",
    ).found_by(426),
    bug(
        "guarantee-overstated",
        "1, 6: what is only written is said to survive loss of power",
    )
    .found_by(45),
    bug(
        "first-write-overstated",
        "1, 6: what is written to blocks that were never written is said to survive a crash of the system",
    )
    .found_by(1348),
    bug(
        "unwritten-by-any-method",
        "1: a method without a force goes on in a segment that was only reserved",
    )
    .found_by(38),
    bug("holes-believed", "1, 6: holes of a copied segment count as written").found_by(21),
    bug(
        "stamp-of-a-weak-method",
        "3: a stamp says more than is durable",
    ).found_by(22),
    bug(
        "anchor-above-durable",
        "9, 11: the scan at opening starts above what is durable",
    )
    .found_by(13),
    bug("stamps-not-searched", "3: damage passes for a torn tail").found_by(672),
    bug("payload-checksum-ignored", "2: a torn payload is accepted").found_by(0),
    bug(
        "chain-unchecked",
        "2: a batch with another predecessor is accepted",
    ).found_by(51),
    bug(
        "stale-epoch-accepted",
        "2: a batch of an opening that was given up is accepted",
    ).found_by(51),
    bug(
        "torn-append-kept",
        "2: parts of an append that was never finished stay in the log",
    )
    .found_by(40),
    bug(
        "resumption-ignored",
        "2, 10: what an opening gave up comes back",
    )
    .found_by(49),
    bug(
        "cache-believed",
        "4: what a failed barrier left in the cache only is believed",
    ).found_by(101),
    bug(
        "tail-not-forced",
        "10: what was recovered is lost by the next crash",
    )
    .found_by(1),
    bug("void-not-forced", "10: what was voided is there again").found_by(0),
    bug(
        "void-not-listed",
        "10: the void ranges below the anchor are not found",
    )
    .found_by(0),
    bug(
        "segment-unforced",
        "9: a segment is used before its header is durable",
    )
    .found_by(0),
    bug(
        "segment-name-unsynced",
        "12: a segment is used before its name is durable",
    )
    .found_by(0),
    bug(
        "segment-unannounced",
        "9: a segment is used that the control file does not know",
    )
    .found_by(0),
    bug("control-in-one-slot", "9: a torn control slot leaves none").found_by(51),
    bug("control-unforced", "9: the control file is not forced").found_by(0),
    bug(
        "front-not-written-down",
        "9: segments go before the control file says so",
    )
    .found_by(0),
    bug("metadata-unforced", "the metadata is not forced").found_by(22),
    bug("metadata-in-one-slot", "torn metadata leaves none").found_by(633),
    bug(
        "any-error-is-damage",
        "3: a read that fails for lack of memory is evidence of damage",
    )
    .found_by(0),
    bug(
        "one-look-at-the-medium",
        "3: what a second look reads is lost",
    ).found_by(2),
    bug(
        "short-read-is-the-end",
        "3: a read that answers too little is the log's end",
    ).found_by(1),
    bug(
        "control-slot-error-is-damage",
        "9: a slot of the control file that cannot be read just now is a broken slot",
    )
    .found_by(4),
    bug(
        "header-error-is-damage",
        "9: a segment whose header cannot be read just now is a lost segment",
    )
    .found_by(1),
    bug(
        "listing-believed",
        "9: a listing that is short is all there is",
    )
    .found_by(0),
];

/// Bugs that exploring interleavings with shuttle catches.
pub const INTERLEAVINGS: &[KnownBug] = &[
    bug(
        "wake-work",
        "the writing thread gets none of the wake-ups that are due when the mutex is released",
    ),
    bug(
        "wake-prepare",
        "the preallocator gets none of the wake-ups that are due when the mutex is released",
    ),
    bug(
        "wake-next-leader",
        "the next leader is not woken when a job ends",
    ),
    bug("claim-kept", "a job that begins leaves no next leader"),
    bug(
        "next-leader-looks-once",
        "a next leader that wakes for nothing waits on an event that no thread signals for its successor",
    ),
    bug(
        "wake-committers",
        "the committers whose records a job carried are not woken",
    ),
    bug(
        "wake-work-for-job",
        "a job without a leader is not handed to the writing thread",
    ),
    bug("wake-callback", "a callback that is due is not called"),
    bug(
        "wake-progress",
        "threads that wait for a write, for buffer space or for an end are not woken",
    ),
    bug(
        "wake-room-tasks",
        "tasks that wait for buffer space are not woken",
    ),
    bug(
        "wake-follower",
        "followers that block are not woken by what became durable",
    ),
    bug("wake-tasks", "tasks are not woken by what became durable"),
    bug(
        "wake-written-tasks",
        "tasks are not woken by what was written",
    ),
    bug(
        "wake-below-only",
        "a task that waits for just this LSN is not woken",
    ),
    bug(
        "first-waker-kept",
        "a future that moved to another task wakes the first one",
    ),
    bug(
        "wake-after-failed-job",
        "a close is not woken when the last job has failed",
    ),
    bug(
        "wake-after-unwound-job",
        "a close is not woken when the last job has panicked",
    ),
    bug(
        "wake-work-for-room",
        "neither a full batch nor a full buffer wakes the writing thread",
    ),
    bug(
        "wake-on-released-permit",
        "appends that wait for buffer space are not woken by a permit that gives some back",
    ),
    bug(
        "wake-pool-for-work",
        "a task that is to run wakes no thread of an environment's pool",
    ),
    bug(
        "wake-pool-to-stop",
        "the end of an environment does not wake its threads",
    ),
    bug(
        "wake-close-after-step",
        "the end of a step does not wake a close that waits for it",
    ),
    bug(
        "late-observe-pool",
        "a thread of a pool looks for tasks before it observes the event",
    ),
    bug(
        "late-observe-step",
        "a close looks whether a step runs before it observes the event",
    ),
    bug(
        "task-scheduled-while-it-runs",
        "a task that is scheduled during its step does not take another one",
    ),
    bug(
        "pool-full-of-one-kind",
        "writers may take all threads of a pool, and none is left for a preallocator that they wait for",
    ),
    bug(
        "wake-work-on-submit",
        "a submission does not wake the writing thread",
    ),
    bug(
        "wake-work-for-callback",
        "a callback that is due at once does not wake the writing thread",
    ),
    bug(
        "wake-work-for-deadline",
        "a deadline does not wake the writing thread",
    ),
    bug(
        "wake-prepare-on-demand",
        "an append without prepared space does not wake the preallocator",
    ),
    bug(
        "wake-after-preparing",
        "appends that wait for prepared space are not woken",
    ),
    bug(
        "wake-checkpoint-thread",
        "a thread that takes checkpoints is not woken by a request",
    ),
    bug(
        "wake-checkpoint-task",
        "a task that takes checkpoints is not woken by a request",
    ),
    bug(
        "end-wakes-no-checkpoint-thread",
        "a thread that takes checkpoints is not woken at the end",
    ),
    bug(
        "end-wakes-no-checkpoint-task",
        "a task that takes checkpoints is not woken at the end",
    ),
    bug(
        "recheck-checkpoint-after-register",
        "a task does not look for a request again once its waker is registered",
    ),
    bug(
        "late-observe-checkpoint",
        "a thread reads the event's count too late: after it has found no request",
    ),
    bug(
        "callback-awaits-a-thread",
        "a future in a callback waits for a thread that waits for the callback",
    ),
    bug(
        "writer-awaits-itself",
        "a commit that is awaited in a callback waits for the thread of the callback",
    ),
    bug(
        "wake-prepare-on-unpin",
        "the front stays where a pin was that went",
    ),
    bug(
        "wake-prepare-on-advance",
        "the front stays where a pin was that moved on",
    ),
    bug(
        "wake-close-after-truncation",
        "a close is not woken when a truncation ends",
    ),
    bug(
        "close-wakes-no-writer",
        "the writing thread is not woken to end",
    ),
    bug(
        "close-wakes-no-preparer",
        "the preallocator is not woken to end",
    ),
    bug("close-ends-no-view", "followers are not woken by the close"),
    bug(
        "wake-other-closers",
        "a second close is not woken by the end of the first",
    ),
    bug(
        "end-wakes-no-follower",
        "followers that block are not woken at the end",
    ),
    bug(
        "end-wakes-no-task",
        "followers that are tasks are not woken at the end",
    ),
    bug(
        "wake-location-check",
        "the writing thread does not look whether the log is still there when a write completes",
    ),
    bug(
        "fail-wake-next-leader",
        "the next leader is not woken by a failure",
    ),
    bug(
        "fail-wake-committers",
        "committers are not woken by a failure",
    ),
    bug(
        "fail-wake-progress",
        "appends that wait for buffer space or a segment are not woken by a failure",
    ),
    bug(
        "fail-wake-work",
        "the writing thread is not woken by a failure",
    ),
    bug(
        "fail-wake-written-tasks",
        "tasks that wait for a write are not woken by a failure",
    ),
    bug(
        "fail-ends-view",
        "followers and tasks are not woken by a failure",
    ),
    bug(
        "recheck-poison",
        "a committer does not look for a failure before it waits",
    ),
    bug(
        "recheck-after-register",
        "a handle does not look again once its waker is registered",
    ),
    bug(
        "recheck-room-after-register",
        "a submission does not look for buffer space again once its waker is registered",
    ),
    bug(
        "recheck-follower-after-register",
        "a follower does not look again once its waker is registered",
    ),
    bug(
        "promise-checked-again",
        "a permit finds its own space missing",
    ),
    bug(
        "late-observe-commit",
        "a committer reads the event's count too late: after it has released the mutex",
    ),
    bug(
        "late-observe-room",
        "an append reads the event's count too late: after it has found no space",
    ),
    bug(
        "late-observe-close",
        "a close reads the event's count too late: after it has looked at what it waits for",
    ),
    bug(
        "late-observe-work",
        "the writing thread reads the event's count too late: after it has found nothing to do",
    ),
    bug(
        "late-observe-prepare",
        "the preallocator reads the event's count too late: after it has found nothing to do",
    ),
    bug(
        "late-observe-follower",
        "a follower reads the event's count too late: after it has found no record",
    ),
    bug(
        "sleep-uncounted",
        "a sleeper is not counted, so a notification wakes no thread",
    ),
    bug(
        "ring-without-change",
        "a notification leaves the event's count as it is",
    ),
    bug(
        "lock-uncontended",
        "a waiter for a lock does not mark it as contended",
    ),
    bug("wake-next-holder", "a release of a lock wakes no thread"),
    bug(
        "ack-before-landing",
        "invariant 1: durable as soon as the write has begun",
    ),
    bug(
        "ack-before-barrier",
        "invariant 1: durable when the write has completed, before the barrier",
    ),
    bug(
        "barrier-covers-what-came-later",
        "invariant 1: a barrier counts for what was written while it was under way",
    ),
    bug(
        "unforced-neighbour",
        "invariant 1: a write through counts for unforced batches before it",
    ),
    bug(
        "hole-under-watermark",
        "invariant 1: a completed write counts for those before it that are in flight",
    ),
    bug(
        "failed-write-lands",
        "invariant 4: a write that failed counts",
    ),
    bug(
        "write-not-joined",
        "invariant 4: the writes beside a failed one are not waited for",
    ),
    bug(
        "running-not-joined-before-unlock",
        "invariant 4: the lock is given up while a job is under way",
    ),
    bug(
        "latest-goes-back",
        "a thread gets an older latest state of a page file than the one that another thread named",
    ),
    bug(
        "state-shown-early",
        "readers get a state of a page file before they find its pages",
    ),
];

/// Bugs that the exhaustive suite catches: every bit, length, subset of names, pair of crashes.
pub const EXHAUSTIVE: &[KnownBug] = &[
    bug(
        "header-checksum-ignored",
        "2: a batch header is believed as it is",
    ),
    bug(
        "segment-header-checksum-ignored",
        "8: a segment's place is believed as it is",
    ),
    bug("metadata-checksum-ignored", "metadata that rotted is shown"),
    bug(
        "lost-metadata-is-none",
        "lost metadata passes for metadata never set",
    ),
    bug(
        "short-segment-accepted",
        "9: a segment that was cut short counts as there",
    ),
    bug(
        "epoch-not-announced",
        "10: an epoch is used that the control file does not know",
    ),
    bug(
        "control-named-before-forced",
        "12: the control file has its name before its bytes",
    ),
    bug(
        "tail-not-forced",
        "10: what was recovered is lost by the next crash",
    ),
    bug(
        "control-not-settled",
        "9: an opening builds on a control slot that the next crash takes away",
    ),
    bug(
        "metadata-not-settled",
        "metadata that an opening showed is lost by the next crash",
    ),
    bug(
        "epoch-not-forced",
        "10: the first batch of an opening is not durable when it returns",
    ),
    bug(
        "spare-of-two-names",
        "12: a file that a torn rename left with two names is used twice",
    ),
    bug(
        "any-error-is-damage",
        "a read that fails for lack of memory is evidence of damage",
    ),
    bug("one-look-at-the-medium", "what a second look reads is lost"),
    bug(
        "short-read-is-the-end",
        "a read that answers too little is the log's end",
    ),
    bug(
        "control-slot-error-is-damage",
        "a slot of the control file that cannot be read just now is a broken slot",
    ),
    bug(
        "header-error-is-damage",
        "a segment whose header cannot be read just now is a lost segment",
    ),
    bug(
        "listing-believed",
        "a listing that is short is all there is",
    ),
    bug(
        "write-limit-unannounced",
        "3: batches lie above the limit, where no opening searches for their stamps",
    ),
    bug(
        "backup-begun-unsynced",
        "12: segments of a backup that nothing says to be unfinished",
    ),
    bug(
        "backup-segment-unforced",
        "1: a backup was reported as made, and a segment is not durable",
    ),
    bug(
        "backup-names-unsynced",
        "12: a backup opens and lacks a segment",
    ),
    bug(
        "backup-done-unsynced",
        "12: a backup was reported as made, and a crash takes it back",
    ),
    bug(
        "backup-control-first",
        "12: a backup opens before all of it is there",
    ),
    bug(
        "backup-of-what-was-truncated",
        "a truncation while a backup is made passes for damage",
    ),
    bug("close-waits-for-its-caller", "a close waits for itself"),
    bug(
        "recovered-drop-believed",
        "pages that were dropped come back: a failed sync left that in the cache only",
    ),
    bug(
        "cleared-page-believed",
        "zeroes over dropped pages count as written: a failed sync left them in the cache only",
    ),
    bug(
        "copy-unforced",
        "1: a repair changes the log before the copies of what it cuts are durable",
    ),
    bug(
        "repair-begins-at-once",
        "12: what fills the place of a lost segment is there before the batch that voids it",
    ),
    bug(
        "cut-is-left",
        "10: what a repair has cut comes back where the batch that voids it is lost",
    ),
    bug(
        "cut-end-unforced",
        "10: the same, and a crash has taken back what keeps it from coming back",
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
                // In the list of wakes a known bug is the name of a variant; elsewhere it is a statement.
                let before = match path.ends_with("sync/wake.rs") {
                    true => " = \"",
                    false => "planted!(\"",
                };
                let names = text.split(before).skip(1);
                let names = names.filter_map(|rest| rest.split('"').next());
                found.extend(names.map(str::to_owned));
            }
        }
    }

    #[test]
    fn each_known_bug_is_in_the_code_and_in_a_list() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut planted = BTreeSet::new();
        for name in ["format", "device", "device-os", "core", "pages"] {
            planted_in(&crates.join(name).join("src"), &mut planted);
        }
        planted.remove("its-name");
        // A wake that no test can miss has no known bug.
        planted.remove("");
        let mut listed = BTreeSet::new();
        for list in [
            SIMULATION,
            INTERLEAVINGS,
            ORDERINGS,
            EXHAUSTIVE,
            FUZZING,
            SYSTEM_CALLS,
            PAGES,
            PAGES_BY_TEST,
        ] {
            let mut here = BTreeSet::new();
            for bug in list {
                assert!(here.insert(bug.name.to_owned()), "{} twice", bug.name);
            }
            listed.extend(here);
        }
        assert_eq!(planted, listed);
    }
}
