//! The cause of a loss: states that lost something, again with one more sync, and the fewest lost changes.

use super::Bench;
use super::cut::{Cut, Lost, time};
use super::history::{Change, History, Ino, Kind, NEVER, Tick};
use crate::explain::{
    Dirty, Experiment, Explanation, Least, LostWrite, Mark, MarkKind, Object, Region, minimise,
    numberless, push_joined, shown,
};
use crate::parts::Part;
use crate::testbed::Filesystem;
use anyhow::Result;
use std::collections::BTreeMap;

/// States with which an experiment is made, and failures after which it is decided.
const STATES: usize = 40;
const DECIDED: u64 = 6;
/// Objects that are tried.
const MOST_OBJECTS: usize = 12;
/// States in which the program is killed without a cut.
const KILLS: usize = 8;
/// States that are minimised, and checks of each.
const TRIED: usize = 5;
const BUDGET: u32 = 60;
/// Acknowledgements at which unsynced files are looked for.
const EXAMINED: usize = 150;

/// Returns the object whose sync makes changes of an inode durable.
fn object(history: &History, ino: Ino) -> Object {
    let name = numberless(&history.path(ino));
    match history.inodes[ino].kind {
        Kind::Directory => Object::Directory(name),
        _ => Object::File(name),
    }
}

/// Returns the moment of each change's sync, if `object` is synced before each acknowledgement too.
fn syncs(history: &History, of: &Object) -> Vec<Tick> {
    let acks: Vec<Tick> = history.acks().collect();
    let mut known = BTreeMap::new();
    let ops = history.ops.iter().map(|op| {
        let next_ack = || acks.get(acks.partition_point(|ack| *ack < op.at)).copied();
        let next = match of {
            Object::Nothing => None,
            Object::Everything => next_ack(),
            Object::FilesBeforeRenames => {
                let mut renames = history.renames.iter();
                let next = renames.find(|(at, ino)| *ino == op.ino && *at >= op.at);
                next.map(|(at, _)| *at)
                    .filter(|_| !matches!(op.change, Change::Names(..)))
            }
            wanted => {
                let covers = |one: Object| match wanted {
                    Object::Several(objects) => objects.contains(&one),
                    wanted => *wanted == one,
                };
                let known = known.entry(op.ino);
                let is_synced = *known.or_insert_with(|| covers(object(history, op.ino)));
                is_synced.then(next_ack).flatten()
            }
        };
        op.synced.min(next.unwrap_or(NEVER))
    });
    ops.collect()
}

/// Returns the files with unsynced data at acknowledgements, and the objects with anything unsynced.
fn unsynced(history: &History) -> (u64, Vec<Dirty>, Vec<Object>) {
    let acks: Vec<Tick> = history.acks().take(EXAMINED).collect();
    let mut bytes = BTreeMap::<String, BTreeMap<Tick, u64>>::new();
    let mut objects = Vec::new();
    for op in &history.ops {
        let of = |at| acks.partition_point(|ack| *ack < at);
        let open = &acks[of(op.at)..of(op.synced).max(of(op.at))];
        if open.is_empty() {
            continue;
        }
        let object = object(history, op.ino);
        if let (Object::File(name), Change::Data(_, data)) = (&object, &op.change) {
            let at = bytes.entry(name.clone()).or_default();
            open.iter()
                .for_each(|ack| *at.entry(*ack).or_default() += data.len() as u64);
        }
        if !objects.contains(&object) && objects.len() < MOST_OBJECTS {
            objects.push(object);
        }
    }
    let dirty = bytes.into_iter().map(|(name, at)| Dirty {
        name,
        acks: at.len() as u64,
        bytes: at.values().copied().max().unwrap_or(0),
    });
    (acks.len() as u64, dirty.collect(), objects)
}

/// Repeats failing states with one more sync, until enough of them fail again.
fn repeat(bench: &Bench<'_>, sample: &[&Cut], object: Object) -> Result<Experiment> {
    let (syncs, mut checks, mut failed) = (syncs(&bench.history, &object), 0, 0);
    for cut in sample {
        let lost = cut.lose(&cut.pending(&bench.history, &syncs));
        checks += 1;
        failed += u64::from(bench.fails(cut, &lost)?.is_some());
        if failed == DECIDED {
            break;
        }
    }
    Ok(Experiment {
        object,
        checks,
        failed,
    })
}

/// Looks for the cause of the losses in these states.
pub(super) fn explain(
    bench: &Bench<'_>,
    failing: &[Cut],
    doing: &mut dyn FnMut(&str),
) -> Result<Explanation> {
    let (examined, dirty, objects) = unsynced(&bench.history);
    let step = failing.len().div_ceil(STATES).max(1);
    let sample: Vec<&Cut> = failing.iter().step_by(step).collect();
    let mut experiments: Vec<Experiment> = Vec::new();
    let mut tried = vec![Object::Nothing];
    tried.extend(objects.iter().cloned());
    tried.extend([Object::Everything, Object::FilesBeforeRenames]);
    for object in tried {
        if object == Object::FilesBeforeRenames
            && (bench.history.renames.is_empty()
                || experiments.iter().any(Experiment::names_the_sync))
        {
            continue;
        }
        doing(&format!("states again, with {object}"));
        experiments.push(repeat(bench, &sample, object)?);
    }
    let stopping = experiments.iter().filter(|e| e.stops_losses());
    if matches!(
        stopping.map(|e| &e.object).collect::<Vec<_>>()[..],
        [Object::Everything]
    ) {
        doing("states again, with several");
        // More syncs never lose more: the smallest set that is enough is found by halving.
        let set = minimise(objects, &mut BUDGET.clone(), &mut |set| {
            let several = Object::Several(set.to_vec());
            Ok(repeat(bench, &sample, several)?.stops_losses())
        })?;
        experiments.push(repeat(bench, &sample, Object::Several(set))?);
    }
    let mut kills = (0, 0);
    if !experiments.iter().any(Experiment::names_the_sync) {
        doing("kill -9 without a cut");
        for cut in sample.iter().take(KILLS) {
            kills = (
                kills.0 + 1,
                kills.1 + u64::from(bench.fails(cut, &[])?.is_some()),
            );
        }
    }
    doing("searching the smallest loss");
    let explanation = Explanation {
        filesystem: Filesystem::Model,
        examined,
        kills: kills.0,
        lost_by_kill: kills.1,
        conclusion: String::new(),
        dirty,
        least: least(bench, failing)?,
        stacks: Vec::new(),
        repeated: Part::States,
        experiments,
    };
    Ok(explanation.concluded())
}

/// Returns the fewest lost changes with which a check fails.
fn least(bench: &Bench<'_>, failing: &[Cut]) -> Result<Option<Least>> {
    let lost = |cut: &Cut| cut.lose(&cut.pending(&bench.history, &bench.traced()));
    let mut states: Vec<(&Cut, Vec<Lost>)> = failing.iter().map(|cut| (cut, lost(cut))).collect();
    states.sort_by_key(|(_, lost)| lost.len());
    let mut found = None::<(Cut, Vec<Lost>, String)>;
    for (cut, mut lost) in states.into_iter().take(TRIED) {
        // The latest changes first: of a chain, the end that has to be lost is then the shortest.
        lost.sort_by_key(|(chain, op)| (std::cmp::Reverse(*op), *chain));
        let mut budget = BUDGET;
        let mut fails = |lost: &[Lost]| Ok(bench.fails(cut, lost)?.is_some());
        let lost = match fails(&[])? {
            true => Vec::new(),
            false => {
                let calls: Vec<Vec<Lost>> = lost
                    .chunk_by(|a, b| a.1 == b.1)
                    .map(<[_]>::to_vec)
                    .collect();
                let calls = minimise(calls, &mut budget, &mut |calls| fails(&calls.concat()))?;
                minimise(calls.concat(), &mut budget, &mut fails)?
            }
        };
        let Some(message) = bench.fails(cut, &lost)? else {
            continue;
        };
        let size = |lost: &[Lost]| (lost.is_empty(), lost.len());
        if found
            .as_ref()
            .is_none_or(|(_, known, _)| size(&lost) < size(known))
        {
            found = Some((*cut, lost, message));
        }
    }
    Ok(found.map(|(cut, mut lost, message)| {
        lost.sort_unstable();
        let mut writes = Vec::new();
        for lost in &lost {
            push_joined(&mut writes, lost_write(&bench.history, &cut, lost));
        }
        Least {
            filesystem: Filesystem::Model,
            acked: bench.history.lines_until(cut.at).0.len() as u64,
            message,
            lost: writes,
            differences: Vec::new(),
            timeline: timeline(&bench.history, &cut, &lost),
        }
    }))
}

fn lost_write(history: &History, cut: &Cut, (chain, op): &Lost) -> LostWrite {
    let op = &history.ops[*op];
    let name = history.path(op.ino);
    let dir = match &*name {
        "." => "the directory".to_owned(),
        name => format!("the directory {name}"),
    };
    let range = cut.range(*chain, op);
    let region = match &op.change {
        Change::Data(..) => Region::File {
            name,
            offset: range.start,
        },
        Change::Length { len, before } => Region::Operation {
            name: format!("change of the length of {name} from {before} to {len} bytes"),
        },
        Change::Names(_, words) => Region::Operation {
            name: format!("{words} in {dir}"),
        },
    };
    LostWrite {
        region,
        disk_offset: range.start,
        bytes: range.end - range.start,
        before_cut: cut.time(history).saturating_sub(time(history, op.at)),
        after_flush: None,
        acks_since: history
            .acks()
            .filter(|at| (op.at..=cut.at).contains(at))
            .count() as u64,
    }
}

fn timeline(history: &History, cut: &Cut, lost: &[Lost]) -> Vec<Mark> {
    let end = cut.time(history);
    let is_lost = |at: Tick| lost.iter().any(|(_, op)| history.ops[*op].at == at);
    let events = history.events[..cut.at].iter().enumerate();
    let marks = events.map(|(number, (time, kind))| Mark {
        before_cut: end.saturating_sub(*time),
        kind: match is_lost(number + 1) {
            true => MarkKind::LostWrite,
            false => *kind,
        },
    });
    shown(marks.collect())
}
