//! Replayed states: a run is recorded, write by write, and many states that a cut could have left are built of it.

use crate::disk::{Event, Recording, Settings};
use crate::live::{Case, Origin, Sink};
use crate::outage::{Length, Take};
use crate::parts::{Part, Rehearsal};
use crate::replay::{ReplayedDisk, places, survival};
use crate::stage::{Checked, Promised, Stage, Working};
use crate::testbed::Image;
use anyhow::Result;

/// States of one recording, before another is made. Few, because one block of the filesystem that lies unflushed for
/// long would otherwise decide the whole row.
const OF_ONE: u64 = 100;

/// Recordings without an event, one after the other, after which the part ends: the workload writes nothing.
const MOST_EMPTY: u32 = 3;

/// A recorded run.
struct Run {
    start: Image,
    before: Promised,
    recording: Recording,
    lines: Vec<crate::acks::Line>,
}

impl Run {
    /// Returns what had been promised when the event came.
    fn promised(&self, event: &Event) -> Promised {
        let mut promised = self.before.clone();
        for line in self.lines.iter().take(event.counters[0] as usize) {
            match line.begun {
                true => promised.begun.push(line.text.clone()),
                false => promised.acked.push(line.text.clone()),
            }
        }
        promised
    }
}

/// Builds and checks states, until the sink has enough or the workload writes nothing. Every second recording starts from a state of the one before,
/// so that its states are recoveries that were cut short.
pub(crate) fn states(stage: &Stage<'_>, rehearsal: &Rehearsal, sink: &mut Sink<'_>) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(stage.plan.seed);
    let (mut from, mut empty) = (None, 0);
    while empty < MOST_EMPTY {
        let (start, before) = match from.take() {
            Some(state) => state,
            None => {
                let start = Image::new(stage.template.len())?;
                start.copy_from(&stage.template)?;
                (start, Promised::default())
            }
        };
        let is_second = !before.acked.is_empty();
        let run = recorded(stage, rehearsal, start, before, &mut rng)?;
        empty = match run.recording.events.is_empty() {
            true => empty + 1,
            false => 0,
        };
        let (go_on, middle) = of_one(stage, &run, &mut rng, sink)?;
        if !go_on {
            return Ok(());
        }
        from = middle.filter(|_| !is_second);
    }
    Ok(())
}

fn recorded(
    stage: &Stage<'_>,
    rehearsal: &Rehearsal,
    start: Image,
    before: Promised,
    rng: &mut fastrand::Rng,
) -> Result<Run> {
    let length = Length {
        writes: 1500 + rehearsal.writes,
        millis: 400 + rehearsal.first_ack_ms,
    };
    let settings = Settings::honest(rng.u64(..), rng.choice([0, 30, 50]).unwrap_or(0));
    let seed = rng.u64(..);
    stage.acks.begin()?;
    let take = Take {
        filesystem: stage.filesystem,
        start: &start,
        counters: stage.acks.counters(),
        length,
        settings,
        home: stage.home,
    };
    let (recording, _) = take.record(|mounted| stage.start(mounted, seed), Working::kill)?;
    let lines = stage.acks.lines().0;
    Ok(Run {
        start,
        before,
        recording,
        lines,
    })
}

/// Goes through a recording once, and builds states on the way. Returns whether the sink wants more, and a state in
/// the middle from which another run can start.
fn of_one(
    stage: &Stage<'_>,
    run: &Run,
    rng: &mut fastrand::Rng,
    sink: &mut Sink<'_>,
) -> Result<(bool, Option<(Image, Promised)>)> {
    let mut disk = ReplayedDisk::new(&run.start)?;
    let left = Image::new(run.start.len())?;
    let events = &run.recording.events;
    if events.is_empty() {
        return Ok((true, None));
    }
    let places = places(events, OF_ONE, rng.u64(..));
    let middle = places.get(places.len() / 2).copied();
    let mut places = places.into_iter().peekable();
    let mut kept = None;
    for (number, event) in events.iter().enumerate() {
        while places.next_if_eq(&number).is_some() {
            let promised = run.promised(event);
            // Examines points at which nothing can be lost only now and then.
            if (disk.is_flushed() || promised.acked.is_empty()) && rng.u8(..4) != 0 {
                continue;
            }
            let survival = survival(stage.filesystem, rng.u64(..));
            let state = disk.cut(event, survival)?;
            left.copy_from(state)?;
            let checked = stage.check(state, &promised)?;
            if kept.is_none() && middle.is_some_and(|m| m <= number) && checked == Checked::Survived
            {
                let image = Image::new(left.len())?;
                image.copy_from(&left)?;
                kept = Some((image, promised.clone()));
            }
            let go_on = sink(Case {
                part: Part::States,
                promised: &promised,
                checked,
                left: &left,
                origin: Some(Origin {
                    start: &run.start,
                    events,
                    lines: &run.lines,
                    number,
                    survival,
                }),
            })?;
            if !go_on {
                return Ok((false, None));
            }
        }
        disk.apply(event)?;
    }
    Ok((true, kept))
}
