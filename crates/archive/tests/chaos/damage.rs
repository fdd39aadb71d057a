//! Objects that are deleted, cut, changed, swapped or taken from another log's archive. `verify` names each, and
//! a restore refuses or returns the whole log: never a shorter or a wrong one.

use crate::node::{archive, options};
use crate::store::Target;
use logforce::{Guarantee, Log, Lsn, Policy};
use logforce_archive::{Archive, AttachOptions, RestoreOptions};
use logforce_archive_testserver::Server;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Objects = BTreeMap<String, Arc<Vec<u8>>>;
type Records = Vec<(Lsn, Vec<u8>)>;

/// Damage of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Deleted,
    Cut,
    Changed,
    /// Exchanged with the next object of its folder.
    Swapped,
    /// The object that has this name, or this order, in another log's archive.
    Foreign,
}

const ALL: [Damage; 5] = [
    Damage::Deleted,
    Damage::Cut,
    Damage::Changed,
    Damage::Swapped,
    Damage::Foreign,
];

fn records(log: &Log) -> Records {
    let reader = log.read_from(log.front_lsn()).unwrap();
    reader
        .map(|record| record.map(|record| (record.start, record.data)).unwrap())
        .collect()
}

/// Makes an archive of several openings, with segments, floors and chunks. Returns the log's records.
fn fill(archive: &Archive, home: &Path, seed: u8) -> Records {
    let mut all = Vec::new();
    for opening in 0..3 {
        let log = logforce::open_or_create(home, options()).unwrap();
        let attach = AttachOptions::new().synchronous().segment_size(1 << 20);
        let attached = archive.attach(&log, attach).unwrap();
        for n in 0..12_u8 {
            // The sixth is a large chunk, which the store copies into the second level.
            let len = if n == 5 { 300_000 } else { 100_000 };
            let record = vec![n ^ seed; len + usize::from(n)];
            log.commit_with(record, Policy::Replicated).unwrap();
        }
        if opening == 2 {
            all = records(&log);
        }
        log.close().unwrap();
        attached.close().unwrap();
    }
    all
}

/// Returns the folder of an object, and so its kind.
fn folder(name: &str) -> &str {
    name.trim_start_matches("archive/")
        .split('/')
        .next()
        .unwrap_or("")
}

fn damaged(objects: &Objects, other: &Objects, name: &str, damage: Damage) -> Option<Objects> {
    let mut damaged = objects.clone();
    let there = objects[name].clone();
    match damage {
        Damage::Deleted => drop(damaged.remove(name)),
        Damage::Cut => {
            drop(damaged.insert(name.to_owned(), there[..there.len() / 2].to_vec().into()))
        }
        Damage::Changed => {
            let middle = there.len() / 2;
            Arc::make_mut(damaged.get_mut(name)?)[middle] ^= 0x10;
        }
        Damage::Swapped => {
            let mut behind = objects.range(name.to_owned()..).skip(1);
            let (next, bytes) = behind.find(|(next, _)| folder(next) == folder(name))?;
            damaged.insert(name.to_owned(), bytes.clone());
            damaged.insert(next.clone(), there);
        }
        Damage::Foreign => {
            let at = objects
                .keys()
                .filter(|n| folder(n) == folder(name))
                .position(|n| n == name)?;
            let mut others = other.iter().filter(|(n, _)| folder(n) == folder(name));
            damaged.insert(name.to_owned(), others.nth(at)?.1.clone());
        }
    }
    (damaged != *objects).then_some(damaged)
}

/// Returns true if the object is one of the first or last two of its folder.
fn is_at_an_end(objects: &Objects, name: &str) -> bool {
    let parent = |name: &str| name.rsplit_once('/').map(|(parent, _)| parent.to_owned());
    let of_parent = objects.keys().filter(|n| parent(n) == parent(name));
    let names: Vec<_> = of_parent.collect();
    let at = names.iter().position(|n| *n == name).unwrap_or(0);
    at < 2 || at + 2 >= names.len()
}

/// Returns true if no other object says that this one was there: it lies behind everything.
fn is_last(objects: &Objects, name: &str) -> bool {
    let chunks = objects.keys().filter(|n| folder(n) == "e");
    chunks.max().is_some_and(|last| last == name)
}

fn try_out(archive: &Archive, name: &str, damage: Damage, all: &Records) -> Result<String, String> {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let verified = archive.verify(None, &mut |_| {});
    let key = name.trim_start_matches("archive/");
    let to_restore = RestoreOptions::new().require(Guarantee::ProcessCrash);
    let copy = home.path().join("copy");
    let restored = match archive.restore(&copy, &to_restore, &mut |_| {}) {
        Err(error) => error.to_string(),
        Ok(_) => {
            let log = logforce::open_existing(&copy, options()).unwrap();
            match records(&log) == *all {
                true => "whole".to_owned(),
                false => {
                    return Err(format!(
                        "{key} {damage:?}: restored another log, {verified:?}"
                    ));
                }
            }
        }
    };
    let found = match verified {
        Err(error) => error.to_string(),
        Ok(verified) => verified.damage.join("; "),
    };
    // No other object says that a spare one was there.
    if found.is_empty() && !(damage == Damage::Deleted && restored == "whole") {
        return Err(format!(
            "{key} {damage:?}: not found by verify; restore: {restored}"
        ));
    }
    Ok(format!("{key} {damage:?}: {found}; restore: {restored}"))
}

#[test]
fn damage_of_each_object_is_found() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Target::Faulty(server) = Target::faulty() else {
        return;
    };
    let make = |server: &Server| archive("s3://test/archive", &settings(server));
    fill(&make(&server), &home.path().join("other"), 0x55);
    let other = server.with_objects(std::mem::take);
    let all = fill(&make(&server), &home.path().join("log"), 0);
    let objects = server.with_objects(|objects| objects.clone());
    let mut wrong = Vec::new();
    for name in objects.keys() {
        // Chunks in the middle of an epoch are alike.
        if folder(name) == "e" && !is_at_an_end(&objects, name) {
            continue;
        }
        for damage in ALL {
            let Some(damaged) = damaged(&objects, &other, name, damage) else {
                continue;
            };
            server.with_objects(|objects| *objects = damaged);
            match try_out(&make(&server), name, damage, &all) {
                Ok(line) => println!("{}", &line[..line.len().min(150)]),
                Err(_) if damage == Damage::Deleted && is_last(&objects, name) => {}
                Err(line) => wrong.push(line),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn settings(server: &Server) -> Vec<(String, String)> {
    let variables = server.environment();
    variables
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}
