//! Known bugs that `--cfg planted` compiles in, and the suite that must catch each.

mod files;
mod interleavings;
mod pages;
mod tools;

pub use files::FILES;
pub use interleavings::INTERLEAVINGS;
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
    ).found_by(94),
    bug(
        "back-to-without-voids",
        "7: a replica that goes back lacks what a lost truncation voided",
    ).found_by(94),
    bug(
        "follower-takes-any-successor",
        "7: a follower goes on in another history behind a void range",
    ).found_by(702709),
    bug(
        "voided-before-compared",
        "7: a follower goes back to where its history has no record, for another history's truncation",
    ).found_by(70015867),
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
    ).found_by(23),
    bug("failed-write-forgotten", "4: a failed write counts as done").found_by(0),
    bug("poison-forgotten", "4: the log goes on after a failure").found_by(1),
    bug(
        "unforced-neighbour",
        "1: a write through after an unforced one counts as a force",
    )
    .found_by(0),
    bug(
        "barrier-covers-what-came-later",
        "1: a barrier covers what was written while it ran",
    )
    .found_by(120),
    bug(
        "hole-under-watermark",
        "1: the watermark passes a write that has not completed",
    ).found_by(10),
    bug(
        "guarantee-overstated",
        "1, 6: what is only written is said to survive loss of power",
    )
    .found_by(39),
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
    bug(
        "device-zeroes-unrecorded",
        "1, 6: a segment is used before it is durable that the device has zeroed its blocks",
    )
    .found_by(148),
    bug("holes-believed", "1, 6: holes of a copied segment count as written").found_by(21),
    bug(
        "stamp-of-a-weak-method",
        "3: a stamp says more than is durable",
    ).found_by(18),
    bug(
        "anchor-above-durable",
        "9, 11: the scan at opening starts above what is durable",
    )
    .found_by(13),
    bug("stamps-not-searched", "3: damage passes for a torn tail").found_by(712),
    bug("payload-checksum-ignored", "2: a torn payload is accepted").found_by(0),
    bug(
        "chain-unchecked",
        "2: a batch with another predecessor is accepted",
    ).found_by(201),
    bug(
        "stale-epoch-accepted",
        "2: a batch of an opening that was given up is accepted",
    ).found_by(76),
    bug(
        "torn-append-kept",
        "2: parts of an append that was never finished stay in the log",
    )
    .found_by(40),
    bug(
        "resumption-ignored",
        "2, 10: what an opening gave up comes back",
    )
    .found_by(5),
    bug(
        "cache-believed",
        "4: what a failed barrier left in the cache only is believed",
    ).found_by(493),
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
    bug("metadata-in-one-slot", "torn metadata leaves none").found_by(667),
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

/// Bugs that the exhaustive suite catches: every bit, length, subset of names, pair of crashes.
pub const EXHAUSTIVE: &[KnownBug] = &[
    bug(
        "file-bound-not-kept",
        "1: a commit is answered although an older one has exceeded its bound",
    ),
    bug(
        "file-through-goes-first",
        "a commit that was left to a file's thread waits for as long as others write durably",
    ),
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
    bug(
        "checkpoint-in-one-write",
        "1: a standby has lost the metadata of its checkpoint",
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
    bug(
        "chunk-cut-short",
        "2: a chunk that was cut between two batches is restored as a shorter log",
    ),
    bug(
        "replica-behind-a-repair",
        "7: a replica goes on in batches that a repair has cut",
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
                let before = match path.ends_with("wake.rs") {
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
        for name in ["format", "device", "device-os", "commit", "core", "pages"] {
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
            FILES,
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
