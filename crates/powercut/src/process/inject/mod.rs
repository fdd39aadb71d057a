//! System calls fail, one or from one on, with every error number that the system could answer:
//! while a log is made, worked, opened again, read, and looked at by the commands.
//!
//! The disk is whole all the time, so nothing may be lost, and nothing may be called damaged that
//! reads well at the next look. The calls are answered by `strace`, below the library and whatever
//! it is made of. Cannot be found here: an error that comes after the call has done its work.

mod calls;
mod commands;
mod measured;
mod message;
mod places;
mod scene;
mod sessions;
mod subject;
mod tracer;

pub use subject::role_inject;
pub use tracer::Injection;

use super::{Counted, Plan, two_at_a_time};
use anyhow::{Context, Result, ensure};
use logforce_crashtest::testbed::{Filesystem, Mounted};
use logforce_testkit::Rng;
use scene::{OwnDisk, Run, Scene};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracer::{Ended, Spot};

/// How much is injected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Amount {
    /// So many cases of all scenes together, drawn by lot: each call and error number of a scene
    /// before any a second time.
    Some(u64),
    /// Everything, for so long.
    Whole(Duration),
    /// One case: the scene's name and what fails.
    One(String, Injection),
}

/// A scene with how it goes when nothing fails.
struct Known<'a> {
    scene: &'a dyn Scene,
    usual: Ended,
    spots: Vec<Spot>,
}

/// What came of one case.
struct CaseResult {
    scene: usize,
    injection: Injection,
    met: Option<String>,
    found: Vec<String>,
}

/// Where cases run.
struct Place<'a> {
    mounted: &'a Path,
    disk: &'a OwnDisk,
    home: &'a Path,
    next: AtomicU64,
}

impl Place<'_> {
    /// A run of a scene in directories of its own.
    fn run(
        &self,
        scene: &dyn Scene,
        injection: Option<(&Injection, &Ended)>,
    ) -> Result<(Ended, Vec<String>)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let lies = match scene.is_about_disks() {
            true => &self.disk.path,
            false => self.mounted,
        };
        let (dir, scratch) = (lies.join(&number), self.home.join(&number));
        fs::create_dir(&dir)?;
        fs::create_dir(&scratch)?;
        scene.set_up(&dir)?;
        let program = scene.program(&dir)?;
        let ended = tracer::run(&program, injection.map(|(i, _)| i), &dir, &scratch)?;
        let run = Run {
            ended: &ended,
            faulty: injection,
        };
        let found = scene.check(&dir, &run)?;
        fs::remove_dir_all(&dir)?;
        fs::remove_dir_all(&scratch)?;
        Ok((ended, found))
    }

    /// How it goes when nothing fails, and which calls it makes.
    fn learn<'s>(&self, scene: &'s dyn Scene) -> Result<Known<'s>> {
        let (usual, found) = self.run(scene, None)?;
        ensure!(found.is_empty(), "{}: {found:?}", scene.name());
        let spots = tracer::spots(&usual.trace);
        ensure!(!spots.is_empty(), "{}: no calls", scene.name());
        Ok(Known {
            scene,
            usual,
            spots,
        })
    }

    fn case(&self, known: &[Known<'_>], scene: usize, injection: Injection) -> Result<CaseResult> {
        let Known {
            scene: played,
            usual,
            ..
        } = &known[scene];
        let (ended, found) = self
            .run(*played, Some((&injection, usual)))
            .with_context(|| format!("{}: {injection}", played.name()))?;
        let met = ended.failed().next().map(str::to_owned);
        Ok(CaseResult {
            scene,
            injection,
            met,
            found,
        })
    }
}

/// In so many places each write and sync fails for each one of another call: half of them are of
/// what is only being prepared.
const OF_WRITING: usize = 4;

/// All that can fail in a scene, in the order in which it is tried: each call and error number
/// once, at a place drawn by lot, before any again; writes and syncs four times.
fn cases(spots: &[Spot], rng: &mut Rng) -> Vec<Injection> {
    let mut groups: BTreeMap<(String, calls::Answer, bool), Vec<u64>> = BTreeMap::new();
    for spot in spots {
        for answer in calls::answers(&spot.call) {
            // A call that is always interrupted is always retried, and should be.
            let always = answer.to_string() != "EINTR";
            for on in [false, true].into_iter().take(1 + usize::from(always)) {
                let group = (spot.call.clone(), answer, on);
                groups.entry(group).or_default().push(spot.nth);
            }
        }
    }
    let mut ordered = Vec::new();
    for ((call, answer, on), mut numbers) in groups {
        shuffle(&mut numbers, rng);
        let at_once = match calls::is_of_writing(&call) {
            true => OF_WRITING,
            false => 1,
        };
        for (place, nth) in numbers.into_iter().enumerate() {
            let round = place / at_once;
            let injection = Injection {
                call: call.clone(),
                answer,
                nth,
                on,
            };
            ordered.push((round, rng.bits(), injection));
        }
    }
    ordered.sort_by_key(|(round, lot, _)| (*round, *lot));
    ordered.into_iter().map(|(_, _, case)| case).collect()
}

fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

/// So many of each scene in turn, until all are through.
fn in_turns(cases: Vec<(usize, Vec<Injection>)>) -> Vec<(usize, Injection)> {
    let mut turns: Vec<_> = cases.into_iter().map(|(n, c)| (n, c.into_iter())).collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        for (scene, (weight, cases)) in turns.iter_mut().enumerate() {
            all.extend(cases.take(*weight).map(|case| (scene, case)));
        }
        if all.len() == before {
            return all;
        }
    }
}

/// Bytes of the disk: so many that methods are measured there. They take memory as far as they are
/// used.
const DISK: u64 = 256 << 20;

/// Each scene; a row for each.
///
/// # Errors
/// Of the machine.
pub fn run(home: &Path, plan: &Plan) -> Result<Vec<Counted>> {
    if !tracer::is_here() {
        let mut row = Counted::new("inject");
        let missing = "needs strace (package strace), which is not here, or may not trace";
        row.skipped.push(missing.to_owned());
        return Ok(vec![row]);
    }
    let image = Filesystem::Ext4.make_of(DISK)?;
    let mounted = Mounted::image(Filesystem::Ext4, &image, home)?;
    let scratch: PathBuf = home.join("inject");
    fs::create_dir(&scratch)?;
    let disk = OwnDisk::new()?;
    let place = Place {
        mounted: mounted.path(),
        disk: &disk,
        home: &scratch,
        next: AtomicU64::new(0),
    };
    let bases = sessions::Base::all(mounted.path())?;
    let sessions = sessions::SessionScene::all(&bases);
    let refused = places::RefusedPlace::all(home, &disk, mounted.path())?;
    let measured = measured::MeasureScene::beside(&bases[0]);
    let on_commands = commands::CommandScene::all(&bases[..2])?;
    let mut scenes: Vec<&dyn Scene> = Vec::new();
    scenes.extend(sessions.iter().map(|l| l as &dyn Scene));
    scenes.extend(refused.iter().map(|r| r as &dyn Scene));
    scenes.push(&measured);
    scenes.extend(on_commands.iter().map(|c| c as &dyn Scene));
    if let Amount::One(name, _) = &plan.injected {
        scenes.retain(|s| s.name() == name);
        ensure!(!scenes.is_empty(), "no scene '{name}'");
    }
    let known = two_at_a_time(scenes, |scene| place.learn(scene))?;
    let mut rng = Rng::new(plan.seed ^ 0x1213);
    let each = known
        .iter()
        .map(|k| (k.scene.weight(), cases(&k.spots, &mut rng)));
    let mut all = in_turns(each.collect());
    let possible = all.len() as u64;
    let mut until = None;
    match &plan.injected {
        Amount::Some(count) => all.truncate(*count as usize),
        Amount::Whole(time) => until = Some(Instant::now() + *time),
        Amount::One(_, injection) => all = vec![(0, injection.clone())],
    }
    let enough = AtomicBool::new(false);
    let results = two_at_a_time(all, |(scene, injection)| -> Result<Option<CaseResult>> {
        let late = until.is_some_and(|until| Instant::now() > until);
        if late || enough.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let result = place.case(&known, scene, injection)?;
        enough.fetch_or(plan.first && !result.found.is_empty(), Ordering::Relaxed);
        Ok(Some(result))
    })?;
    let mut rows: Vec<Counted> = Vec::new();
    for known in &known {
        let row = row(&mut rows, known.scene);
        row.add("scenes", 1);
        row.add("calls", known.spots.len() as u64);
    }
    // Recorded losses speak against a disk that would do otherwise; this one would not.
    if let (false, Some(first)) = (disk.is_good, refused.first()) {
        row(&mut rows, first).add("places left out: no disk here survives", 1);
    }
    for result in results.into_iter().flatten() {
        let scene = known[result.scene].scene;
        count(row(&mut rows, scene), scene.name(), result);
    }
    for row in &mut rows {
        // Threads take turns otherwise each time, so some calls are not made again.
        row.demand("met", row.count("cases") / 2);
    }
    if let Some(first) = rows.first_mut() {
        first.add("possible cases of all", possible);
        if !matches!(plan.injected, Amount::One(..)) {
            first.caught("errors pass for success", &errors_ignored(&place)?);
        }
    }
    drop(known);
    drop(refused);
    mounted.unmount()?;
    Ok(rows)
}

/// Whether it can see: what is found where the backend takes errors for success.
fn errors_ignored(place: &Place<'_>) -> Result<Vec<String>> {
    let scene = sessions::SessionScene::ignoring_errors();
    let known = [place.learn(&scene)?];
    for call in ["fdatasync", "pwrite64", "pwritev2"] {
        let spots = known[0].spots.iter().filter(|s| s.call == call);
        for nth in spots.map(|s| s.nth).skip(2).take(8) {
            let injection = format!("{call}=EIO@{nth}").parse();
            let injection = injection.map_err(anyhow::Error::msg)?;
            let found = place.case(&known, 0, injection)?.found;
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }
    Ok(Vec::new())
}

/// The row of a scene's group.
fn row<'r>(rows: &'r mut Vec<Counted>, scene: &dyn Scene) -> &'r mut Counted {
    let name = format!("inject, {}", scene.group());
    let place = rows.iter().position(|r| r.name == name);
    let place = place.unwrap_or_else(|| {
        rows.push(Counted::new(name));
        rows.len() - 1
    });
    &mut rows[place]
}

fn count(row: &mut Counted, scene: &str, result: CaseResult) {
    row.add("cases", 1);
    row.add("met", u64::from(result.met.is_some()));
    row.add("broke", u64::from(!result.found.is_empty()));
    if !result.found.is_empty() {
        row.breaks(format!(
            "'{scene}: {}': {} [{}]",
            result.injection,
            result.found.join("; "),
            result.met.unwrap_or_default(),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spots() -> Vec<Spot> {
        let spot = |call: &str, nth| Spot {
            call: call.to_owned(),
            nth,
        };
        vec![
            spot("openat", 7),
            spot("openat", 8),
            spot("fdatasync", 1),
            spot("gettid", 1),
        ]
    }

    #[test]
    fn every_call_and_number_comes_before_any_comes_again() {
        let all = cases(&spots(), &mut Rng::new(1));
        let kinds = |cases: &[Injection]| {
            let kinds = cases.iter().map(|c| (c.call.clone(), c.answer, c.on));
            kinds.collect::<std::collections::BTreeSet<_>>().len()
        };
        // One that is interrupted for ever is none.
        let first = (2 * 12 - 1) + (2 * 6 - 1);
        assert_eq!(kinds(&all[..first]), first);
        assert_eq!((kinds(&all), all.len()), (first, first + 2 * 12 - 1));
        assert_eq!(all, cases(&spots(), &mut Rng::new(1)));
        assert_ne!(all, cases(&spots(), &mut Rng::new(2)));
    }

    #[test]
    fn writes_and_syncs_fail_in_more_places() {
        let spots: Vec<Spot> = (1..=8)
            .flat_map(|nth| {
                ["openat", "fdatasync"].map(|call| Spot {
                    call: call.to_owned(),
                    nth,
                })
            })
            .collect();
        let all = cases(&spots, &mut Rng::new(1));
        let (opens, syncs) = (2 * 12 - 1, 2 * 6 - 1);
        let first = &all[..opens + 4 * syncs];
        let count = |call: &str| first.iter().filter(|c| c.call == call).count();
        assert_eq!((count("openat"), count("fdatasync")), (opens, 4 * syncs));
    }

    #[test]
    fn scenes_take_turns_by_their_weight() {
        let all = cases(&spots(), &mut Rng::new(1));
        let turns = in_turns(vec![(1, all[..4].to_vec()), (3, all[..5].to_vec())]);
        let scenes: Vec<usize> = turns.iter().map(|(scene, _)| *scene).collect();
        assert_eq!(scenes, [0, 1, 1, 1, 0, 1, 1, 0, 0]);
    }
}
