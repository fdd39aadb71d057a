//! The findings in words.

use super::Experiment;
use super::object::Object;
use super::page_cache::Dirty;
use crate::testbed::Filesystem;

/// Returns the conclusion in words. `kills` is the number of kills without a cut, and of failed checks after them.
pub(crate) fn conclusion(
    filesystem: Filesystem,
    experiments: &[Experiment],
    dirty: &[Dirty],
    examined: u64,
    kills: (u64, u64),
) -> String {
    let of = |wanted: &Object| experiments.iter().find(|e| e.object == *wanted);
    let stops = |object| of(object).is_some_and(Experiment::stops_losses);
    if of(&Object::Nothing).is_none_or(|e| e.failed == 0) {
        return "The repeated cuts lost nothing, so no cause was found: give more --cuts and --states.".to_owned();
    }
    let mending = experiments.iter().filter(|e| e.names_the_sync());
    let mending: Vec<&Experiment> = mending.collect();
    let names: Vec<String> = mending.iter().map(|e| e.object.to_string()).collect();
    let several = experiments
        .iter()
        .find(|e| matches!(e.object, Object::Several(_)) && e.stops_losses());
    match &*names {
        [] if stops(&Object::FilesBeforeRenames) => {
            "Missing before a rename: fsync of the file that is renamed. With it nothing was lost.".to_owned()
        }
        [] if several.is_some() => format!("Missing before the acknowledgement: {}. With all of them nothing was lost.", several.map_or(String::new(), |e| e.object.to_string())),
        [] if kills.1 > 0 => {
            "It is acknowledged before it is written to a file: kill -9 alone loses it, without a power cut.".to_owned()
        }
        [] if stops(&Object::Everything) => {
            "No single sync stops the losses, but syncing everything does: more than one is missing.".to_owned()
        }
        [] => {
            let never = dirty.is_empty() && examined > 0;
            let known = if never { " No file was dirty at an acknowledgement." } else { "" };
            format!(
                "No sync before the acknowledgement stops the losses.{known} What is acknowledged is overwritten or \
                 replaced later by something that a cut can tear (an update in place, a rename of a file that is not \
                 synced), or it is acknowledged before it is written, or recovery refuses what a cut leaves."
            )
        }
        [one] => format!("Missing before the acknowledgement: {one}. With it nothing was lost."),
        several => {
            let directories = mending.iter().filter(|e| matches!(e.object, Object::Directory(_)));
            let rule = match directories.count() {
                _ if filesystem == Filesystem::Model => "",
                0 => "",
                _ => " An fsync that has something to write may commit the whole journal of this filesystem; POSIX \
                      makes a name durable by fsync of its directory alone.",
            };
            format!("Missing before the acknowledgement: either of {}.{rule}", several.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(object: Object, failed: u64) -> Experiment {
        Experiment {
            object,
            checks: 10,
            failed,
        }
    }

    /// Returns the conclusion of a loss: with a sync of a file, of the directory, of everything, and before
    /// renames, this number of ten checks failed, and of eight kills `kills`.
    fn told([file, directory, all, renames]: [u64; 4], kills: u64) -> String {
        let list = [
            experiment(Object::Nothing, 5),
            experiment(Object::File("db".to_owned()), file),
            experiment(Object::Directory(".".to_owned()), directory),
            experiment(Object::Everything, all),
            experiment(Object::FilesBeforeRenames, renames),
        ];
        conclusion(Filesystem::Ext4, &list, &[], 10, (8, kills))
    }

    #[test]
    fn what_stops_the_losses_is_named() {
        assert!(told([0, 4, 0, 4], 0).contains("acknowledgement: fsync of db."));
        assert!(told([3, 0, 0, 4], 0).contains("acknowledgement: fsync of the directory."));
        assert!(told([0, 0, 0, 4], 0).contains("either of fsync of db, fsync of the directory."));
        assert!(told([3, 3, 0, 4], 0).contains("more than one"));
        assert!(told([3, 3, 0, 0], 0).contains("before a rename"));
        assert!(told([3, 3, 3, 3], 1).contains("before it is written"));
        assert!(told([3, 3, 3, 3], 0).contains("No sync before"));
    }

    #[test]
    fn an_experiment_without_a_check_shows_nothing() {
        let unchecked = Experiment {
            checks: 0,
            ..experiment(Object::File("db".to_owned()), 0)
        };
        let list = [experiment(Object::Nothing, 5), unchecked];
        assert!(conclusion(Filesystem::Ext4, &list, &[], 10, (8, 0)).contains("No sync before"));
    }
}
