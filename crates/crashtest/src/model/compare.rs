//! The model beside the directory after the run: a difference proves that it has not seen everything.

use super::history::{History, Ino, Kind, ROOT};
use super::line::Call;
use super::tasks::{Place, World};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

/// Files and names that calls change within which a thread was killed: each call may be done or not.
#[derive(Default)]
struct Open {
    files: BTreeSet<Ino>,
    names: BTreeSet<(Ino, OsString)>,
}

impl Open {
    fn of(world: &World) -> Open {
        let mut open = Open::default();
        for (task, known) in &world.tasks {
            let begun = known.begun.as_ref();
            let Some(call) = begun.and_then(|(text, _)| Call::parse(text)) else {
                continue;
            };
            // Numbers of the arguments with a directory and a path.
            let paths: &[(usize, usize)] = match &*call.name {
                "openat" | "openat2" | "mkdirat" | "unlinkat" | "truncate" => &[(0, 1)],
                "linkat" | "renameat2" => &[(0, 1), (2, 3)],
                "symlinkat" => &[(1, 2)],
                _ => {
                    let files = [0, 2].map(|at| world.inside(*task, call.fd(at)));
                    open.files.extend(files.into_iter().flatten());
                    continue;
                }
            };
            for &(dir, path) in paths {
                let (dir, path) = (call.fd(dir), call.bytes(path).unwrap_or_default());
                let found = world.walk(*task, dir, &path, true);
                open.names.extend(found.entry);
                open.names
                    .extend(world.walk(*task, dir, &path, false).entry);
                match found.place {
                    Some(Place::Inside(file)) if !call.name.starts_with("rename") => {
                        open.files.insert(file);
                    }
                    _ => {}
                }
            }
        }
        open
    }
}

/// Compares the model with the directory after the run, and returns the first difference.
pub(super) fn differs(world: &World, dir: &Path) -> Option<String> {
    let real = match History::read(dir) {
        Ok(real) => real,
        Err(e) => return Some(format!("the directory cannot be read after the run: {e:#}")),
    };
    compare(&world.history, ROOT, &real, ROOT, &Open::of(world))
}

fn compare(of: &History, ino: usize, real: &History, other: usize, open: &Open) -> Option<String> {
    let (a, b) = (&of.inodes[ino], &real.inodes[other]);
    let is_like =
        a.kind == b.kind && (a.kind != Kind::File || a.now.content.is_like(&b.now.content));
    if !is_like && !open.files.contains(&ino) {
        return Some(format!(
            "{} is not what the traced calls make of it: something else wrote it (a mapping, another program), or \
             threads wrote it at the same time without a lock, so that their order is not known",
            of.path(ino)
        ));
    }
    let names = a.now.names.keys().chain(b.now.names.keys());
    for name in names.collect::<BTreeSet<_>>() {
        if open.names.contains(&(ino, name.clone())) {
            continue;
        }
        match (a.now.names.get(name), b.now.names.get(name)) {
            (Some(a), Some(b)) => {
                if let Some(why) = compare(of, *a, real, *b, open) {
                    return Some(why);
                }
            }
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
