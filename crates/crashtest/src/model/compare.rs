//! The model beside the directory after the run: a difference proves that it has not seen everything.

use super::history::{History, Kind, ROOT};
use super::line::Call;
use super::tasks::World;
use std::collections::BTreeSet;
use std::path::Path;

/// Parts of the names of calls that take a path.
const NAMING: [&str; 7] = [
    "open", "creat", "link", "rename", "mkdir", "rmdir", "truncate",
];

/// Compares the model with the directory after the run, and returns the first difference.
pub(super) fn differs(world: &World, dir: &Path) -> Option<String> {
    let real = match History::read(dir) {
        Ok(real) => real,
        Err(e) => return Some(format!("the directory cannot be read after the run: {e:#}")),
    };
    // Calls within which a thread was killed: each may be done or not.
    let begun = world
        .tasks
        .iter()
        .filter_map(|(task, t)| Some((task, &t.begun.as_ref()?.0)));
    let (mut is_open, mut written) = (false, BTreeSet::new());
    for (task, text) in begun {
        let call = Call::parse(text)?;
        let files = [0, 2].map(|at| world.inside(*task, call.fd(at)));
        written.extend(files.into_iter().flatten());
        is_open |= NAMING.iter().any(|part| call.name.contains(part));
    }
    compare(&world.history, ROOT, &real, ROOT, is_open, &written)
}

fn compare(
    of: &History,
    ino: usize,
    real: &History,
    other: usize,
    is_open: bool,
    written: &BTreeSet<usize>,
) -> Option<String> {
    let (a, b) = (&of.inodes[ino], &real.inodes[other]);
    let is_like =
        a.kind == b.kind && (a.kind != Kind::File || a.now.content.is_like(&b.now.content));
    if !is_like && !written.contains(&ino) && !is_open {
        return Some(format!(
            "{} is not what the traced calls make of it: something else wrote it (a mapping, another program), or \
             threads wrote it at the same time without a lock, so that their order is not known",
            of.path(ino)
        ));
    }
    let names = a.now.names.keys().chain(b.now.names.keys());
    for name in names.collect::<BTreeSet<_>>() {
        match (a.now.names.get(name), b.now.names.get(name)) {
            (Some(a), Some(b)) => {
                if let Some(why) = compare(of, *a, real, *b, is_open, written) {
                    return Some(why);
                }
            }
            _ if is_open || written.contains(&ino) => {}
            (known, _) => {
                let is = known.map_or("has appeared", |_| "is gone");
                return Some(format!(
                    "{} {is} without a traced call: the model cannot follow the program that did it",
                    Path::new(&of.path(ino)).join(name).display()
                ));
            }
        }
    }
    None
}
