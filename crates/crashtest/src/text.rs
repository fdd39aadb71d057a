//! The report as text.

use crate::explain::{Explanation, Least, LostWrite, Object, Region};
use crate::report::{Loss, Report, Row};
use crate::testbed::Filesystem;
use std::fmt::{Display, Formatter, Result};

/// Lost writes that are listed.
const LISTED: usize = 6;

const HEADINGS: [&str; 8] = [
    "filesystem",
    "part",
    "checks",
    "acknowledged",
    "lost",
    "not opened",
    "hung",
    "fs lost",
];

fn cells(row: &Row) -> [String; 8] {
    let number = |n: u64| n.to_string();
    [
        row.filesystem.to_string(),
        row.part.name().to_owned(),
        number(row.checks),
        number(row.acknowledged),
        number(row.lost),
        number(row.unopened),
        number(row.hung),
        number(row.filesystem_lost),
    ]
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let rows: Vec<[String; 8]> = self.rows.iter().map(cells).collect();
        let width = |column: usize| {
            let widths = rows.iter().map(|r| r[column].len());
            widths.chain([HEADINGS[column].len()]).max().unwrap_or(0)
        };
        for row in std::iter::once(&HEADINGS.map(str::to_owned)).chain(&rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = width(column);
                line.push_str(&match column {
                    0 | 1 => format!("{cell:<width$}  "),
                    _ => format!("{cell:>width$}  "),
                });
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        for (number, loss) in self.losses.iter().enumerate() {
            write_loss(f, number + 1, loss)?;
        }
        if let Some(found) = &self.explanation {
            write_explanation(f, found)?;
        }
        for remark in self.notes.iter().chain(&self.reasons) {
            writeln!(f, "\n{remark}.")?;
        }
        write!(f, "\n{}", self.sentence)
    }
}

fn write_loss(f: &mut Formatter<'_>, number: usize, loss: &Loss) -> Result {
    let times = if loss.cases == 1 { "once" } else { "times" };
    let count = match loss.cases {
        1 => String::new(),
        n => format!("{n} "),
    };
    writeln!(f, "\n{number}. {count}{times}: {}", loss.message)?;
    let acked = match (&loss.last_acked, loss.acked) {
        (Some(last), n) => format!("{n} acknowledged, the last \"{last}\""),
        (None, _) => "nothing acknowledged".to_owned(),
    };
    let (filesystem, part) = (loss.filesystem, loss.part.name());
    writeln!(f, "   smallest case: {filesystem}, {part}, {acked}")?;
    match &loss.kept {
        Some(dir) => writeln!(f, "   kept: sh {dir}/check.sh"),
        None => Ok(()),
    }
}

fn write_explanation(f: &mut Formatter<'_>, found: &Explanation) -> Result {
    writeln!(f, "\nThe cause, on {}:", found.filesystem)?;
    for dirty in &found.dirty {
        let (name, acks, of) = (&dirty.name, dirty.acks, found.examined);
        writeln!(
            f,
            "   {name} was not on the disk at {acks} of {of} acknowledgements"
        )?;
    }
    if found.examined > 0 && found.dirty.is_empty() {
        writeln!(f, "   no file had unwritten contents at an acknowledgement")?;
    }
    for e in &found.experiments {
        let what = match e.object {
            Object::Nothing => "as it is".to_owned(),
            Object::FilesBeforeRenames => format!("with {}", e.object),
            _ => format!("with {} before each acknowledgement", e.object),
        };
        let part = found.repeated.name();
        writeln!(f, "   {what}: {} of {} {part} lose", e.failed, e.checks)?;
    }
    if found.kills > 0 {
        let (lost, kills) = (found.lost_by_kill, found.kills);
        writeln!(
            f,
            "   with kill -9 and no power cut: {lost} of {kills} lose"
        )?;
    }
    if let Some(least) = &found.least {
        write_least(f, least)?;
    }
    for stack in &found.stacks {
        let object = match &stack.object {
            Object::Directory(name) if name == "." => "the directory",
            Object::Directory(name) | Object::File(name) => name,
            _ => continue,
        };
        let call = &stack.call;
        write!(
            f,
            "   last change of {object} before an acknowledgement: {call}"
        )?;
        match &*stack.functions {
            [] => writeln!(f)?,
            functions => writeln!(f, ", in {}", functions.join(" < "))?,
        }
    }
    writeln!(f, "{}", found.conclusion)
}

fn write_least(f: &mut Formatter<'_>, least: &Least) -> Result {
    let (filesystem, acked, message) = (least.filesystem, least.acked, &least.message);
    writeln!(
        f,
        "   smallest loss: {filesystem}, after {acked} acknowledgements: {message}"
    )?;
    if least.lost.is_empty() {
        writeln!(
            f,
            "      it fails though all survives that {}",
            match filesystem {
                Filesystem::Model => "was written: what is missing was not",
                _ => "the disk was given: what is missing was not written to it",
            }
        )?;
    }
    for write in least.lost.iter().take(LISTED) {
        writeln!(f, "      lost: {write}")?;
    }
    match least.lost.len().saturating_sub(LISTED) {
        0 => {}
        n => writeln!(f, "      and {n} more")?,
    }
    if !least.differences.is_empty() {
        writeln!(f, "      so {}", least.differences.join(", "))?;
    }
    Ok(())
}

impl Display for LostWrite {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.region {
            Region::Operation { name } => write!(f, "{name}"),
            region => write!(f, "{} bytes of {region}", self.bytes),
        }?;
        if let Some(after) = self.after_flush {
            write!(f, ", written {} after the last flush", millis(after))?;
        }
        match self.before_cut {
            0 => write!(f, ", during which the power went"),
            before => write!(f, ", {} before the cut", millis(before)),
        }?;
        match self.acks_since {
            0 => Ok(()),
            1 => write!(f, "; 1 acknowledgement and no flush since"),
            n => write!(f, "; {n} acknowledgements and no flush since"),
        }
    }
}

fn millis(micros: u64) -> String {
    format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
}
