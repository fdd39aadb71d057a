//! Replayed states: a run is recorded, write by write, and many states that a cut could have left are built of it.

use crate::disk::{Command, Cut, Event, Recording, Settings, Survival};
use crate::outage::{Disks, Outage};
use crate::replay::{ReplayedDisk, places, survival};
use crate::subject::{Case, Origin, Outcome, Session, Sink, Subject};
use crate::testbed::Image;
use anyhow::{Result, bail};

/// Recordings without an event, one after the other, after which the part ends: the program writes nothing.
const MOST_EMPTY: u32 = 3;
/// Greatest factor by which the time of recordings is made longer.
const MOST_STRETCH: u64 = 8;
/// One in this number of the states in which nothing was unflushed is checked.
const FLUSHED: u64 = 4;
/// Bytes that every filesystem writes whole. A recording starts from a state whose cut tore nothing smaller: otherwise
/// a torn block of the filesystem might show only later, where nothing excuses it.
const BLOCK: u64 = 4096;

/// Volume and odds of recordings.
#[derive(Debug, Clone)]
pub struct Recordings {
    /// Recordings in a row. The first starts from the template, each other from a state of the one before, so that its
    /// states are recoveries that were cut short.
    pub row: Vec<Take>,
    /// Percentages of writes that the disk holds in flight; each recording has one of them.
    pub holds: &'static [u64],
    /// One in this number of the states in which nothing was promised is checked.
    pub unpromised: u64,
}

/// Volume of a recording. It ends at the limit that is reached first.
#[derive(Debug, Clone, Copy)]
pub struct Take {
    /// Number of writes of the disk.
    pub writes: u64,
    /// Milliseconds.
    pub millis: u64,
    /// Number of its states. Few, because one block of the filesystem that lies unflushed for long would otherwise
    /// decide the whole result.
    pub states: u64,
}

/// A recorded run.
struct Run<'a, S: Subject> {
    subject: &'a S,
    start: Image,
    before: S::Promised,
    recording: Recording,
    entries: Vec<Vec<S::Entry>>,
}

/// A crash state, and the promises in it.
type State<S> = (Image, <S as Subject>::Promised);

/// Builds and checks states, until the sink has enough or the program writes nothing.
///
/// # Errors
/// Errors of the machine and of the sink, and if the program ends badly while it is recorded.
pub fn states<S: Subject>(
    subject: &S,
    plan: &Recordings,
    seed: u64,
    sink: &mut Sink<'_, S>,
) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut from, mut number, mut empty, mut stretch) = (None, 0, 0, 1);
    while empty < MOST_EMPTY {
        let (start, before) = match from.take() {
            Some(state) => state,
            None => {
                number = 0;
                (copy(subject.site().template)?, S::Promised::default())
            }
        };
        let (mut take, holds) = (plan.row[number], plan.holds);
        take.millis *= stretch;
        let run = Run::record(subject, start, before, take, holds, &mut rng)?;
        // On a busy machine the program may not get to its first promise in the usual time.
        if stretch < MOST_STRETCH && run.entries.iter().all(Vec::is_empty) {
            stretch *= 2;
            from = Some((run.start, run.before));
            continue;
        }
        empty = match run.recording.events.is_empty() {
            true => empty + 1,
            false => 0,
        };
        let (go_on, middle) = run.states(take, plan.unpromised, &mut rng, sink)?;
        if !go_on {
            return Ok(());
        }
        number += 1;
        if let Some((image, mut promised)) = middle.filter(|_| number < plan.row.len())
            && subject.prepare(number, &image, &mut promised)?
        {
            from = Some((image, promised));
        }
    }
    Ok(())
}

/// Returns another image with the same bytes.
pub(crate) fn copy(image: &Image) -> Result<Image> {
    let copy = Image::new(image.len())?;
    copy.copy_from(image)?;
    Ok(copy)
}

impl<'a, S: Subject> Run<'a, S> {
    fn record(
        subject: &'a S,
        start: Image,
        before: S::Promised,
        take: Take,
        holds: &[u64],
        rng: &mut fastrand::Rng,
    ) -> Result<Self> {
        let (disks, record) = (Disks::new(start.len())?, Image::new(0)?);
        disks.stable.copy_from(&start)?;
        let survival = Survival {
            seed: 0,
            grain: BLOCK,
            keep: 0,
        };
        let outage = Outage {
            disks: &disks,
            record: Some(&record),
            settings: Settings::honest(rng.u64(..), rng.choice(holds).copied().unwrap_or(0)),
            cut: Command::CutAfter {
                writes: take.writes,
                millis: take.millis,
                loaded: false,
                cut: Cut { survival },
            },
            early: false,
            seed: rng.u64(..),
        };
        if let (_, Some(wrong)) = outage.run(subject, &before)? {
            bail!("while recording: {wrong}");
        }
        Ok(Run {
            recording: Recording::read(&record)?,
            entries: subject.entries()?,
            subject,
            start,
            before,
        })
    }

    /// Returns what had been promised when the event came.
    fn promised(&self, event: &Event) -> S::Promised {
        let mut promised = self.before.clone();
        let session = Session::state(&self.entries, &event.counters);
        self.subject.promise(&mut promised, &session);
        promised
    }

    /// Goes through the recording once, and builds states on the way. Returns whether the sink wants more, and a state
    /// behind the middle from which another run can start.
    fn states(
        &self,
        take: Take,
        unpromised: u64,
        rng: &mut fastrand::Rng,
        sink: &mut Sink<'_, S>,
    ) -> Result<(bool, Option<State<S>>)> {
        let events = &self.recording.events;
        if events.is_empty() {
            return Ok((true, None));
        }
        let filesystem = self.subject.site().filesystem;
        let mut disk = ReplayedDisk::new(&self.start)?;
        let places = places(events, take.states, rng.u64(..));
        let middle = places.get(places.len() / 2).copied();
        let mut places = places.into_iter().peekable();
        let mut kept = None;
        for (number, event) in events.iter().enumerate() {
            while places.next_if_eq(&number).is_some() {
                let promised = self.promised(event);
                let chance = match S::is_promised(&promised) {
                    _ if disk.is_flushed() => FLUSHED,
                    false => unpromised,
                    true => 1,
                };
                if rng.u64(..chance) != 0 {
                    continue;
                }
                let survival = survival(filesystem, rng.u64(..));
                let cut = || disk.cut(event, survival);
                let (checked, _) = self.subject.check_image(cut()?, &promised)?;
                if kept.is_none()
                    && middle.is_some_and(|middle| middle <= number)
                    && survival.grain >= BLOCK
                    && checked.is_whole()
                {
                    kept = Some((copy(cut()?)?, promised.clone()));
                }
                let go_on = sink(Case {
                    promised: &promised,
                    checked,
                    wrong: None,
                    met: disk.met(),
                    grain: survival.grain,
                    left: &cut,
                    origin: Some(Origin {
                        start: &self.start,
                        events,
                        entries: &self.entries,
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
}
