//! Runs one contender once.

use super::case::{Case, Task};
use super::contender::Contender;
use super::database::Database;
use super::turn::{Effort, Run, Turn};
use super::{commits, others};
use crate::rivals::place::Ground;
use anyhow::Result;
use logforce_measure::{Interrupt, Recorder};

/// Runs a contender once, in a new directory that is removed afterwards.
///
/// # Errors
/// Returns SQLite's error, or an error if the database does not hold the committed rows afterwards.
pub fn run(
    case: &Case,
    contender: Contender,
    ground: &Ground,
    effort: Effort,
    interrupt: &Interrupt,
) -> Result<Run> {
    let dir = ground.fresh("sqlite")?;
    let database = Database::new(dir.path(), case, contender);
    let recorder = Recorder::new(ground.counters(), interrupt.clone());
    let mut turn = Turn::new(database, ground, effort, recorder);
    match case.task {
        Task::Commits {
            fresh,
            connections,
            rows,
        } => commits::measure(&mut turn, fresh, connections, rows)?,
        Task::Points => others::points(&mut turn)?,
        Task::Scan => others::scan(&mut turn)?,
        Task::Bulk => others::bulk(&mut turn)?,
        Task::Checkpoint => others::checkpoint(&mut turn)?,
        Task::Short => others::short(&mut turn)?,
    }
    Ok(turn.end())
}
