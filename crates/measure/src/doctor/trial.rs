//! Short tests that write to the directory: does a force cost anything, and does it reach the devices?

use crate::counters::{CounterSource, Delta};
use crate::prepare::{restamp, scramble, write};
use crate::result::plausible::Claim;
use crate::workplace::Workplace;
use crate::{Interrupt, MeasureError};
use logforce_device::{AlignedBuf, Barrier, Facts, File, Guarantee, OpenFile, System, WriteCache};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size of the test files, bytes.
const SIZE: u64 = 1 << 20;
/// Size of one write, bytes.
const WRITE: usize = 4096;
/// Number of writes of one kind in a round.
const AT_ONCE: u32 = 8;
/// Number of rounds. The kinds take turns, so that a noisy neighbour slows all of them.
const ROUNDS: u32 = 8;
/// Time after which no further round begins. A hard disk needs a revolution for each force.
const LONGEST: Duration = Duration::from_secs(3);
/// Factor between a force and a plain write below which the force does nothing that takes time. A system call and
/// a copy to the system's cache take a few microseconds, and every device takes longer.
const COSTS: f64 = 2.0;

/// One test and its result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Test {
    /// Name, such as `force-costs`.
    pub name: &'static str,
    /// Question that it answers.
    pub question: String,
    /// True if the answer fits the declared guarantee, false if it contradicts it; null if it says neither.
    pub passed: Option<bool>,
    /// Finding with its figures, as a sentence.
    pub finding: String,
}

/// Work before the first round.
const NOTHING: Delta = Delta {
    writes: 0,
    bytes: 0,
    flushes: Some(0),
};

/// Counters of a device of the stack, by its kernel name.
pub type Layers = Vec<(String, Box<dyn CounterSource>)>;

/// Figures of one test run.
struct Figures {
    /// Medians, microseconds.
    write_us: f64,
    force_us: f64,
    fallocated_us: Option<f64>,
    forces: u64,
    layers: Vec<(String, Option<Delta>)>,
}

/// Runs all tests in a temporary directory in `dir`.
///
/// # Errors
/// If the directory cannot be written to, is full, or the user interrupts.
pub fn run(
    system: &dyn System,
    dir: &Path,
    facts: &Facts,
    layers: Layers,
    interrupt: &Interrupt,
) -> Result<Vec<Test>, MeasureError> {
    let place = Workplace::create(system, dir)?;
    let figures = measure(&place, &layers, interrupt)?;
    Ok(conclude(&figures, facts))
}

fn measure(
    place: &Workplace,
    layers: &Layers,
    interrupt: &Interrupt,
) -> Result<Figures, MeasureError> {
    let dir = place.directory();
    let error =
        |doing: &str| MeasureError::io(format!("cannot {doing} in {}", dir.path().display()));
    let written = dir
        .open("written", OpenFile::CREATE)
        .map_err(error("make a file"))?;
    let mut buf = AlignedBuf::zeroed(SIZE as usize, 4096);
    scramble(&mut buf, 0x10_9f);
    write(&*written, buf, 0, SIZE as usize, false)
        .and_then(|_| written.barrier(Barrier::Full))
        .map_err(error("fill a file"))?;
    let reserved = dir
        .open("reserved", OpenFile::CREATE)
        .map_err(error("make a file"))?;
    let has_reserved = reserved.reserve(SIZE).map_err(error("reserve space"))?;
    reserved
        .barrier(Barrier::Full)
        .map_err(error("sync a file"))?;
    dir.sync().map_err(error("sync the directory"))?;
    let mut buf = AlignedBuf::zeroed(WRITE, 4096);
    scramble(&mut buf, 7);
    let (mut number, start) = (0, Instant::now());
    let (mut plain, mut forced, mut first) = (Vec::new(), Vec::new(), Vec::new());
    let mut deltas: Vec<Option<Delta>> = layers.iter().map(|_| Some(NOTHING)).collect();
    for _ in 0..ROUNDS {
        interrupt.check()?;
        if start.elapsed() > LONGEST {
            break;
        }
        let mut turn = |file: &Arc<dyn File>, force: bool, into: &mut Vec<f64>| {
            for _ in 0..AT_ONCE {
                restamp(&mut buf, number);
                let offset = number * WRITE as u64 % SIZE;
                number += 1;
                let begun = Instant::now();
                let empty = AlignedBuf::zeroed(0, 4096);
                buf = write(
                    &**file,
                    std::mem::replace(&mut buf, empty),
                    offset,
                    WRITE,
                    false,
                )?;
                if force {
                    file.barrier(Barrier::Data)?;
                }
                into.push(begun.elapsed().as_secs_f64() * 1e6);
            }
            Ok(())
        };
        turn(&written, false, &mut plain).map_err(error("write"))?;
        // Otherwise the first force would have to write what the plain writes left.
        written
            .barrier(Barrier::Data)
            .map_err(error("force a write"))?;
        let before: Vec<_> = layers.iter().map(|(_, counter)| counter.read()).collect();
        turn(&written, true, &mut forced).map_err(error("force a write"))?;
        for (((_, counter), before), sum) in layers.iter().zip(before).zip(&mut deltas) {
            let delta = before
                .zip(counter.read())
                .map(|(b, a)| Delta::between(b, a));
            *sum = sum.zip(delta).map(|(sum, delta)| sum.plus(delta));
        }
        if has_reserved {
            turn(&reserved, true, &mut first).map_err(error("force a write"))?;
        }
    }
    let names = layers.iter().map(|(name, _)| name.clone());
    Ok(Figures {
        write_us: median(&mut plain),
        forces: forced.len() as u64,
        force_us: median(&mut forced),
        fallocated_us: (!first.is_empty()).then(|| median(&mut first)),
        layers: names.zip(deltas).collect(),
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn conclude(figures: &Figures, facts: &Facts) -> Vec<Test> {
    let Figures {
        write_us,
        force_us,
        forces,
        ..
    } = *figures;
    let ratio = force_us / write_us.max(0.1);
    let mut tests = vec![Test {
        name: "force-costs",
        question: "Does a force cost more than a write?".to_owned(),
        passed: Some(ratio >= COSTS),
        finding: match ratio >= COSTS {
            true => format!("yes: a write takes {write_us:.1} µs, with a force {force_us:.1} µs"),
            false => format!(
                "no: a write takes {write_us:.1} µs, with a force {force_us:.1} µs. The force does nothing that takes \
                 time: it does not reach a device"
            ),
        },
    }];
    let own = facts.device.as_ref().map(|d| d.name.as_str());
    for (name, delta) in &figures.layers {
        let question = format!("Do the forces reach {name}?");
        let flushes = delta.and_then(|d| d.flushes);
        let layer = facts.layers.iter().find(|l| l.name == *name);
        let is_flushed = layer.is_some_and(|l| l.write_cache == WriteCache::Back);
        let (passed, finding) = match (delta, flushes) {
            (None, _) => (None, "unknown: its counters cannot be read".to_owned()),
            (Some(d), Some(flushes)) if is_flushed => {
                // Other processes can only add flushes.
                let enough = flushes * 2 >= forces;
                let is = if enough { "yes" } else { "no" };
                (
                    Some(enough),
                    format!(
                        "{is}: {flushes} flushes and {} writes for {forces} forces",
                        d.writes
                    ),
                )
            }
            (Some(d), _) => {
                let enough = d.writes * 2 >= forces;
                let is = if enough { "yes" } else { "no" };
                let why = match flushes {
                    Some(_) => "no flush is needed by its setting",
                    None => "it does not count flushes",
                };
                (
                    Some(enough),
                    format!("{is}: {} writes for {forces} forces; {why}", d.writes),
                )
            }
        };
        tests.push(Test {
            name: "flushes-arrive",
            question,
            passed,
            finding,
        });
    }
    if let Some(device) = own {
        let delta = figures
            .layers
            .iter()
            .find(|(name, _)| name == device)
            .and_then(|(_, d)| *d);
        let claim = Claim {
            guarantee: Some(Guarantee::PowerLoss),
            p50_us: Some(force_us),
            threads: 1,
            commits: Some(forces),
            flushes_per_commit: delta
                .and_then(|d| d.flushes)
                .map(|f| f as f64 / forces.max(1) as f64),
            by_fua: false,
        };
        let doubt = claim.doubt(facts);
        tests.push(Test {
            name: "possible-speed",
            question: format!("Is that a speed at which {device} can make writes durable?"),
            passed: Some(doubt.is_none()),
            finding: match doubt {
                None => format!("yes: {:.0} forces/s by one thread", 1e6 / force_us.max(0.1)),
                Some(why) => format!("no: {why}"),
            },
        });
    }
    tests.push(Test {
        name: "unwritten-extents",
        question: "Do first writes to reserved blocks cost more?".to_owned(),
        passed: None,
        finding: match figures.fallocated_us {
            None => "unknown: this filesystem reserves no blocks".to_owned(),
            Some(us) => format!(
                "a force after a first write takes {us:.1} µs, {:.1} times as long as after an overwrite",
                us / force_us.max(0.1)
            ),
        },
    });
    tests
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use logforce_device::Layer;

    fn flushed() -> Facts {
        let mut facts = facts();
        let name = facts.device.as_ref().unwrap().name.clone();
        let mut layer = Layer::passing(&name, "");
        layer.write_cache = WriteCache::Back;
        facts.layers = vec![layer];
        facts
    }

    fn figures(write_us: f64, force_us: f64, writes: u64, flushes: Option<u64>) -> Figures {
        let name = facts().device.unwrap().name;
        let delta = Delta {
            writes,
            bytes: 0,
            flushes,
        };
        Figures {
            write_us,
            force_us,
            fallocated_us: None,
            forces: 64,
            layers: vec![(name, Some(delta))],
        }
    }

    fn passed(figures: &Figures, name: &str) -> Option<bool> {
        let tests = conclude(figures, &flushed());
        tests.iter().find(|t| t.name == name).unwrap().passed
    }

    #[test]
    fn a_force_has_to_cost_something_and_to_reach_the_device() {
        let healthy = figures(3.0, 90.0, 64, Some(64));
        for name in ["force-costs", "flushes-arrive", "possible-speed"] {
            assert_eq!(passed(&healthy, name), Some(true), "{name}");
        }
        assert_eq!(
            passed(&figures(3.0, 4.0, 64, Some(64)), "force-costs"),
            Some(false)
        );
        let dropped = figures(3.0, 90.0, 64, Some(3));
        assert_eq!(passed(&dropped, "flushes-arrive"), Some(false));
        assert_eq!(passed(&dropped, "possible-speed"), Some(false));
        // A device that does not count flushes has to receive the writes.
        assert_eq!(
            passed(&figures(3.0, 90.0, 64, None), "flushes-arrive"),
            Some(true)
        );
        assert_eq!(
            passed(&figures(3.0, 90.0, 3, None), "flushes-arrive"),
            Some(false)
        );
        assert_eq!(
            passed(&figures(0.5, 1.5, 64, Some(64)), "possible-speed"),
            Some(false)
        );
        // Without counters nothing is known.
        let mut unread = figures(3.0, 90.0, 64, Some(64));
        unread.layers[0].1 = None;
        assert_eq!(passed(&unread, "flushes-arrive"), None);
    }
}
