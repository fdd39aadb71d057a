//! The findings in words.

use super::object::Object;
use super::place::Region;
use super::{Experiment, Explanation};
use crate::testbed::Filesystem;

/// Returns the conclusion in words.
pub(super) fn conclusion(explanation: &Explanation) -> String {
    let experiments = &explanation.experiments;
    let of = |wanted: &Object| experiments.iter().find(|e| e.object == *wanted);
    let stops = |object| of(object).is_some_and(Experiment::stops_losses);
    if of(&Object::Nothing).is_none_or(|e| e.failed == 0) {
        return "The repeated cuts lost nothing, so no cause was found: give more --cuts and --states.".to_owned();
    }
    // A state of a model is the same each time, so that one which a sync mends is evidence enough.
    if explanation.filesystem != Filesystem::Model
        && let Some(rare) = experiments.iter().find(|e| e.is_rare())
    {
        return format!(
            "The losses are too rare to tell what is missing: {} of {} repeated checks lost something. Give more --cuts \
             and --states, or another --seed.",
            rare.failed, rare.checks
        );
    }
    let mending = experiments.iter().filter(|e| e.names_the_sync());
    let mending: Vec<&Experiment> = mending.collect();
    let names: Vec<String> = mending.iter().map(|e| e.object.to_string()).collect();
    let several = experiments
        .iter()
        .find(|e| matches!(e.object, Object::Several(_)) && e.stops_losses());
    match &*names {
        [] if stops(&Object::FilesBeforeRenames) && stops(&Object::Everything) => {
            "Missing: either fsync of each file before it is renamed, or more than one sync before the acknowledgement."
                .to_owned()
        }
        [] if stops(&Object::FilesBeforeRenames) => {
            "Missing before a rename: fsync of the file that is renamed. With it nothing was lost.".to_owned()
        }
        [] if several.is_some() => {
            let all = several.map(|e| e.object.to_string()).unwrap_or_default();
            format!("Missing before the acknowledgement: {all}. With all of them nothing was lost.")
        }
        [] if explanation.lost_by_kill > 0 => {
            "It is acknowledged before it is written to a file: kill -9 alone loses it, without a power cut.".to_owned()
        }
        [] if stops(&Object::Everything) => {
            "No single sync stops the losses, but syncing everything does: more than one is missing.".to_owned()
        }
        [] => {
            let never = explanation.dirty.is_empty() && explanation.examined > 0;
            let known = if never { " No file was dirty at an acknowledgement." } else { "" };
            let cause = match torn_file(explanation) {
                Some(name) => format!(
                    "A cut tears a write to {name}: either it is an update in place of what is acknowledged, or recovery \
                     refuses what a torn write leaves."
                ),
                None => "What is acknowledged is overwritten or replaced later by something that a cut can tear (an \
                         update in place, a rename of a file that is not synced), or it is acknowledged before it is \
                         written, or recovery refuses what a cut leaves."
                    .to_owned(),
            };
            format!("No sync before the acknowledgement stops the losses.{known} {cause}")
        }
        [one] => format!("Missing before the acknowledgement: {one}. With it nothing was lost."),
        several => {
            let directories = mending.iter().filter(|e| matches!(e.object, Object::Directory(_)));
            let rule = match directories.count() {
                _ if explanation.filesystem == Filesystem::Model => "",
                0 => "",
                _ => " An fsync that has something to write may commit the whole journal of this filesystem; POSIX \
                      makes a name durable by fsync of its directory alone.",
            };
            format!("Missing before the acknowledgement: either of {}.{rule}", several.join(", "))
        }
    }
}

/// Returns the name of the file whose lost bytes alone make the smallest loss.
fn torn_file(explanation: &Explanation) -> Option<&str> {
    let lost = &explanation.least.as_ref()?.lost;
    fn name(region: &Region) -> Option<&str> {
        match region {
            Region::File { name, .. } => Some(name),
            _ => None,
        }
    }
    let first = name(&lost.first()?.region)?;
    let mut regions = lost.iter().map(|write| &write.region);
    regions
        .all(|region| name(region) == Some(first))
        .then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{Least, LostWrite};
    use crate::parts::Part;

    fn experiment(object: Object, failed: u64) -> Experiment {
        Experiment {
            object,
            checks: 10,
            failed,
        }
    }

    fn explanation(experiments: Vec<Experiment>) -> Explanation {
        Explanation {
            filesystem: Filesystem::Ext4,
            examined: 10,
            dirty: Vec::new(),
            repeated: Part::Cuts,
            experiments,
            kills: 8,
            lost_by_kill: 0,
            least: None,
            stacks: Vec::new(),
            conclusion: String::new(),
        }
    }

    /// Returns an explanation: with a sync of a file, of the directory, of everything, and before renames, this number
    /// of ten checks failed.
    fn lost([file, directory, all, renames]: [u64; 4]) -> Explanation {
        explanation(vec![
            experiment(Object::Nothing, 5),
            experiment(Object::File("db".to_owned()), file),
            experiment(Object::Directory(".".to_owned()), directory),
            experiment(Object::Everything, all),
            experiment(Object::FilesBeforeRenames, renames),
        ])
    }

    #[test]
    fn what_stops_the_losses_is_named() {
        let told = |failed| conclusion(&lost(failed));
        assert!(told([0, 4, 0, 4]).contains("acknowledgement: fsync of db."));
        assert!(told([3, 0, 0, 4]).contains("acknowledgement: fsync of the directory."));
        assert!(told([0, 0, 0, 4]).contains("either of fsync of db, fsync of the directory."));
        assert!(told([3, 3, 0, 4]).contains("more than one"));
        assert!(told([3, 3, 3, 0]).contains("before a rename"));
        assert!(told([3, 3, 0, 0]).contains("before it is renamed, or more than one"));
        assert!(told([3, 3, 3, 3]).contains("No sync before"));
        let mut early = lost([3, 3, 3, 3]);
        early.lost_by_kill = 1;
        assert!(conclusion(&early).contains("before it is written"));
    }

    #[test]
    fn a_torn_write_is_named_if_nothing_else_is_lost() {
        let write = |region| LostWrite {
            region,
            disk_offset: 0,
            bytes: 512,
            before_cut: 0,
            after_flush: None,
            acks_since: 0,
        };
        let of_file = |offset| {
            write(Region::File {
                name: "db".to_owned(),
                offset,
            })
        };
        let told = |regions| {
            let least = Least {
                filesystem: Filesystem::Ext4,
                acked: 1,
                message: String::new(),
                lost: regions,
                differences: Vec::new(),
                timeline: Vec::new(),
            };
            conclusion(&Explanation {
                least: Some(least),
                ..lost([3, 3, 3, 3])
            })
        };
        assert!(told(vec![of_file(0), of_file(4096)]).contains("tears a write to db:"));
        for other in [vec![of_file(0), write(Region::Metadata)], Vec::new()] {
            assert!(told(other).contains("overwritten or replaced later"));
        }
    }

    #[test]
    fn rare_losses_accuse_nothing() {
        let mut rare = lost([0, 0, 0, 0]);
        rare.experiments[0].failed = 2;
        assert!(conclusion(&rare).contains("2 of 10 repeated checks"));
        rare.filesystem = Filesystem::Model;
        assert!(conclusion(&rare).contains("either of fsync of db"));
    }

    #[test]
    fn an_experiment_without_a_check_shows_nothing() {
        let unchecked = Experiment {
            checks: 0,
            ..experiment(Object::File("db".to_owned()), 0)
        };
        let list = vec![experiment(Object::Nothing, 5), unchecked];
        assert!(conclusion(&explanation(list)).contains("No sync before"));
    }
}
