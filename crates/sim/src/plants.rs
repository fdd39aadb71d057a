//! The known bugs that `--cfg planted` compiles in, and the suite that has to catch each.

/// A known bug: a place in the shipped code that says `planted!("name")`.
#[derive(Debug, Clone, Copy)]
pub struct Plant {
    /// Its name, the value of `LOGFORCE_PLANTED` that turns it on.
    pub name: &'static str,
    /// What it breaks, in words; an invariant of the design where there is one for it.
    pub breaks: &'static str,
}

const fn plant(name: &'static str, breaks: &'static str) -> Plant {
    Plant { name, breaks }
}

/// Caught by random lives.
pub const LIVES: &[Plant] = &[
    plant("barrier-left-out", "1: acknowledged before the barrier"),
    plant(
        "failed-barrier-forgotten",
        "4: a failed barrier counts as done",
    ),
    plant("failed-write-forgotten", "4: a failed write counts as done"),
    plant("poison-forgotten", "4: the log goes on after a failure"),
    plant(
        "unforced-neighbour",
        "1: a write through behind an unforced one counts as a force",
    ),
    plant(
        "barrier-covers-later-writes",
        "1: a barrier covers what was written while it ran",
    ),
    plant(
        "hole-under-watermark",
        "1: the watermark passes a write that has not landed",
    ),
    plant(
        "guarantee-overstated",
        "1, 6: what is only written is said to survive loss of power",
    ),
    plant(
        "stamp-of-a-weak-method",
        "3: a stamp says more than is durable",
    ),
    plant(
        "anchor-above-durable",
        "9, 11: the scan at opening starts above what is durable",
    ),
    plant("stamps-not-searched", "3: damage passes for a torn tail"),
    plant("payload-checksum-ignored", "2: a torn payload is accepted"),
    plant(
        "chain-unchecked",
        "2: a batch with another predecessor is accepted",
    ),
    plant(
        "stale-epoch-accepted",
        "2: a batch of an opening that was given up is accepted",
    ),
    plant(
        "torn-append-kept",
        "2: parts of an append that was never finished stay in the log",
    ),
    plant(
        "resumption-ignored",
        "2, 10: what an opening gave up comes back",
    ),
    plant(
        "cache-believed",
        "4: what a failed barrier left in the cache only is believed",
    ),
    plant(
        "tail-not-forced",
        "10: what was recovered is lost by the next crash",
    ),
    plant("void-not-forced", "10: what was taken back is there again"),
    plant(
        "void-not-listed",
        "10: nobody finds the void ranges below the anchor",
    ),
    plant(
        "segment-unforced",
        "9: a segment is used before its header is durable",
    ),
    plant(
        "segment-name-unsynced",
        "12: a segment is used before its name is durable",
    ),
    plant(
        "segment-unannounced",
        "9: a segment is used that the control file does not know",
    ),
    plant("control-in-one-slot", "9: a torn control slot leaves none"),
    plant("control-unforced", "9: the control file is not forced"),
    plant(
        "front-not-written-down",
        "9: segments go before the control file says so",
    ),
    plant("metadata-unforced", "the metadata is not forced"),
    plant("metadata-in-one-slot", "torn metadata leaves none"),
];

/// Caught by exploring interleavings.
pub const INTERLEAVINGS: &[Plant] = &[];

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
        for name in ["format", "device", "core"] {
            planted_in(&crates.join(name).join("src"), &mut planted);
        }
        planted.remove("its-name");
        let mut listed = BTreeSet::new();
        for list in [LIVES, INTERLEAVINGS, EXHAUSTIVE, FUZZING] {
            let mut here = BTreeSet::new();
            for plant in list {
                assert!(here.insert(plant.name.to_owned()), "{} twice", plant.name);
            }
            listed.extend(here);
        }
        assert_eq!(planted, listed);
    }
}
