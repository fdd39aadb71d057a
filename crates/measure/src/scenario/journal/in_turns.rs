//! Measurement of one directory, or of several whose slices take turns.

use super::{Options, how_logged, how_measured, planned, planned_logs, row, segment_size};
use crate::MeasureError;
use crate::result::{Row, plausible};
use crate::run::Setup;
use crate::run::counters::{Neighbours, watch_neighbours};
use crate::run::library;
use crate::run::probe::{self, ProbeContext};
use crate::run::schedule::{self, Budget, Context, Planned};
use crate::run::space::{self, Wish};
use crate::scenario::ScenarioOutcome;
use logforce_device::{Directory, Facts, Method};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of slices per row.
const ROUNDS: u32 = 4;
/// Number of slices per row if several directories are compared, whose ratios need an interval.
const MORE_ROUNDS: u32 = 8;
/// Share of the whole time that may go into preparing files.
const PREPARE_SHARE: f64 = 0.2;
/// Rough number of times that a file is filled and written back in a run.
const FILLS: f64 = 4.0;

/// A directory that is measured, and its facts.
struct Place<'a> {
    setup: &'a Setup,
    directory: Arc<dyn Directory>,
    facts: Facts,
    /// Work of other processes on the device before the run.
    neighbours: Option<Neighbours>,
    /// Rate at which the disk can be filled, bytes per second.
    rate: Option<f64>,
    /// Size of each file, bytes, and the reason if it is not the wanted one.
    size: u64,
    shrunk: Option<String>,
}

impl Options {
    /// Measures the same rows in several directories, whose slices take turns. Returns an outcome for each
    /// directory.
    ///
    /// # Errors
    /// Nothing was measured.
    pub fn in_turns(
        &self,
        setups: &[Setup],
    ) -> Result<Vec<ScenarioOutcome<Option<Neighbours>>>, MeasureError> {
        let start = Instant::now();
        let mut log_methods = Vec::new();
        let mut places: Vec<Place> = Vec::new();
        for setup in setups {
            let place = self.place(setup, &mut log_methods, setups.len() as u32)?;
            places.push(place);
        }
        let Some(size) = places.iter().map(|p| p.size).min() else {
            return Ok(Vec::new());
        };
        let rates = places.iter().filter_map(|p| p.rate);
        let budget = Budget {
            rounds: if places.len() > 1 {
                MORE_ROUNDS
            } else {
                ROUNDS
            },
            commits: size / self.chunk as u64,
            deadline: self.time.map(|t| start + t),
            each_once: true,
            write_back: rates.reduce(f64::min),
        };
        let rows_of = |(nth, place): (usize, &Place)| {
            let Place { setup, facts, .. } = place;
            let counters = Rc::clone(&setup.counters);
            let mut planned = planned(self, setup, &place.directory, facts, size);
            for &method in &log_methods {
                let path = setup.path.join(format!("log-{method}"));
                planned.extend(planned_logs(self, setup, facts, method, path, &budget));
            }
            let counted = move |row| match row {
                Planned::Run(subject) if nth > 0 => {
                    Planned::Elsewhere(subject, Rc::clone(&counters))
                }
                row => row,
            };
            let planned: Vec<Planned> = planned.into_iter().map(counted).collect();
            planned.into_iter()
        };
        let mut of_places: Vec<_> = places.iter().enumerate().map(rows_of).collect();
        // The same row of all directories one after the other, so that they meet the same noise.
        let mut all = Vec::new();
        while let Some(rows) = of_places
            .iter_mut()
            .map(Iterator::next)
            .collect::<Option<Vec<_>>>()
        {
            all.extend(rows);
        }
        let (measured, interrupted) = schedule::run(all, budget, &Context::of(&setups[0]));
        let took = start.elapsed();
        let outcome = |(nth, place): (usize, Place)| {
            let own = measured.iter().skip(nth).step_by(setups.len());
            let mut rows: Vec<Row> = own.map(row::row).collect();
            plausible::judge(&mut rows, &place.facts);
            let mut notes = vec![how_measured(self, size, budget, &rows, took)];
            notes.extend(how_logged(&rows, segment_size(self.size)));
            notes.extend(place.shrunk.map(|s| format!("{s}.")));
            notes.extend(plausible::rotation_note(&place.facts));
            notes.extend(place.setup.counters.absence());
            ScenarioOutcome {
                rows,
                notes,
                interrupted,
                more: place.neighbours,
            }
        };
        Ok(places.into_iter().enumerate().map(outcome).collect())
    }

    /// Asks about a directory, and tries how fast it can be filled. The first of `of` directories decides the
    /// default method of the log.
    fn place<'a>(
        &self,
        setup: &'a Setup,
        log_methods: &mut Vec<Method>,
        of: u32,
    ) -> Result<Place<'a>, MeasureError> {
        let asking = || MeasureError::io("asking about the filesystem");
        let directory = setup.system.directory(&setup.path).map_err(asking())?;
        let facts = library::facts(&*directory).map_err(asking())?;
        if log_methods.is_empty() && self.logs {
            *log_methods = match self.log_methods.as_slice() {
                [] => vec![library::default_method(&facts)],
                asked => asked.to_vec(),
            };
        }
        let logs = log_methods.len() as u64 * library::SEGMENTS;
        let wish = Wish {
            size: self.size,
            chunk: self.chunk as u64,
            files: self.states.len() as u64,
            beside: logs * segment_size(self.size),
            least_beside: logs * segment_size(1),
            exact: self.time.is_none(),
            fillable: None,
        };
        // Checks the space before anything is written.
        space::choose(wish, setup.space)?;
        let time = self.time.map(|time| time / of);
        let neighbours = watch_neighbours(&*setup.counters, watch_time(time));
        let rate = match time {
            Some(time) => {
                let place = ProbeContext {
                    directory: &*directory,
                    interrupt: &setup.interrupt,
                    progress: &*setup.progress,
                };
                probe::rate(&place, self.size, time)?
            }
            None => None,
        };
        let fillable = rate
            .zip(time)
            .map(|(r, t)| (r * t.as_secs_f64() * PREPARE_SHARE / FILLS) as u64);
        let (size, shrunk) = space::choose(Wish { fillable, ..wish }, setup.space)?;
        Ok(Place {
            setup,
            directory,
            facts,
            neighbours,
            rate,
            size,
            shrunk,
        })
    }
}

fn watch_time(time: Option<Duration>) -> Duration {
    let quarter = Duration::from_millis(250);
    time.map_or(quarter, |t| quarter.min(t / 40))
}
