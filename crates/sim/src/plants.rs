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
pub const LIVES: &[Plant] = &[];

/// Caught by exploring interleavings.
pub const INTERLEAVINGS: &[Plant] = &[];

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
    fn each_plant_is_in_the_code_and_in_one_list() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut planted = BTreeSet::new();
        for name in ["format", "device", "core"] {
            planted_in(&crates.join(name).join("src"), &mut planted);
        }
        planted.remove("its-name");
        let mut listed = BTreeSet::new();
        for plant in LIVES.iter().chain(INTERLEAVINGS).chain(FUZZING) {
            assert!(listed.insert(plant.name.to_owned()), "{} twice", plant.name);
        }
        assert_eq!(planted, listed);
    }
}
