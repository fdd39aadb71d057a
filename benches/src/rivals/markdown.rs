//! Tables in the documentation, written by the run that measured them.

use super::bulk::{self, BulkRow};
use super::described::{Described, with_version};
use super::document::{Document, Run};
use super::filesystem::NO_LOOP;
use super::report::{self, Measured, RivalRow, median, ratios};
use super::subjects::{LOGFORCE, RAW, RECYCLING};
use anyhow::{Context, Result, bail};
use logforce_terminal::numbers::{bytes, count, number, rounded};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Last line of a block that is replaced.
const END: &str = "<!-- end -->";

/// Replaces the blocks of Markdown files: all, or none.
///
/// # Errors
/// If a file cannot be read or written, has no complete block, or a block's results are missing.
pub fn replace(paths: &[PathBuf], document: &Document) -> Result<()> {
    let replaced = |path: &PathBuf| replaced(path, &tables(document), &summary(document));
    let texts: Vec<String> = paths.iter().map(replaced).collect::<Result<_>>()?;
    for (path, text) in paths.iter().zip(texts) {
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Fails if the files could not be replaced after a run on these filesystems.
///
/// # Errors
/// As [`replace`].
pub fn check(paths: &[PathBuf], filesystems: &[String]) -> Result<()> {
    let summary = match filesystems.iter().any(|name| name == NO_LOOP) {
        true => "some",
        false => "",
    };
    let check = |path: &PathBuf| replaced(path, "some", summary).map(drop);
    paths.iter().try_for_each(check)
}

/// Returns the text of a file with its blocks replaced.
fn replaced(path: &Path, tables: &str, summary: &str) -> Result<String> {
    let named = || path.display().to_string();
    let mut text = fs::read_to_string(path).with_context(named)?;
    let mut found = false;
    for (name, content) in [("tables", tables), ("summary", summary)] {
        let begin = format!("<!-- rivals: {name} -->\n");
        let Some(at) = text.find(&begin).map(|at| at + begin.len()) else {
            continue;
        };
        let is_inside = |len: &usize| !text[at..at + len].contains("<!-- rivals:");
        let Some(len) = text[at..].find(END).filter(is_inside) else {
            bail!("{}: no line `{END}` after `{}`", named(), begin.trim_end());
        };
        if content.is_empty() {
            bail!(
                "{}: its block `{}` shows commits in --dir itself, and there are none: give `none` in --loop, \
                 or leave the file out",
                named(),
                begin.trim_end()
            );
        }
        text.replace_range(at..at + len, &format!("\n{content}\n"));
        found = true;
    }
    if !found {
        bail!(
            "{}: no line `<!-- rivals: tables -->` or `<!-- rivals: summary -->`",
            named()
        );
    }
    Ok(text)
}

/// Returns all tables.
fn tables(document: &Document) -> String {
    let rows = report::rows(&document.commits);
    let bulk_rows = bulk::rows(&document.bulk);
    let mut text = "```\n".to_owned();
    // Writing to a string cannot fail.
    let command = |run: &Run| {
        let flags = run.command.strip_prefix("rivals").unwrap_or(&run.command);
        let features = match run.features.is_empty() {
            true => String::new(),
            false => format!("--features {} ", run.features.join(",")),
        };
        format!("cargo bench --bench rivals {features}--{flags}\n")
    };
    let mut commands: Vec<String> = document.runs.iter().map(command).collect();
    commands.dedup();
    text += &commands.concat();
    let _ = writeln!(
        text,
        "```\n\n{}: commits/s [lowest–highest] (p99.9 in ms). A dash stands for a case that a rival does not have.\n\n\
         The fastest other, and Logforce's rate divided by its rate, median of the rounds:\n\n{}",
        dated(document, document.commits.iter()),
        beside_best(document, &rows)
    );
    for filesystem in &document.filesystems {
        let of = |row: &&RivalRow| row.filesystem == filesystem.name;
        let rows: Vec<&RivalRow> = rows.iter().filter(of).collect();
        let bulk_rows: Vec<&BulkRow> = bulk_rows
            .iter()
            .filter(|row| row.filesystem == filesystem.name)
            .collect();
        let _ = writeln!(text, "**{}**: {}\n", filesystem.title, filesystem.machine);
        let _ = writeln!(text, "{}", commits(&rows));
        if let Some(first) = bulk_rows.first() {
            let size = bytes(first.bytes);
            let _ = writeln!(text, "{size} in records of 1 KiB, one force at the end:\n");
            let _ = writeln!(text, "{}", appended(&bulk_rows));
        }
    }
    text.trim_end().to_owned() + "\n"
}

/// Returns day and commit of the runs, and the amount of these lines.
fn dated<'a>(document: &Document, lines: impl Iterator<Item = &'a Measured>) -> String {
    let run = document.runs.first();
    let (date, commit) = run.map_or(("?", "?"), |run| (&run.date, &run.commit));
    let (mut rounds, mut seconds) = (Vec::new(), Vec::new());
    for line in lines {
        rounds.push(line.rounds.len() as u64);
        // A slice ends with its last commits, so it may take longer than asked for.
        let asked = |took: f64| {
            let asked = document.runs.iter().map(|run| run.seconds);
            asked.filter(|asked| *asked <= took).reduce(f64::max)
        };
        let of_line = line.rounds.iter().flatten();
        seconds.extend(of_line.filter_map(|round| asked(round.took.as_secs_f64())));
    }
    let (least, most) = (rounds.iter().min(), rounds.iter().max());
    let rounds = match (least, most) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most} rounds"),
        _ => count(most.copied().unwrap_or(0), "round"),
    };
    seconds.sort_by(f64::total_cmp);
    seconds.dedup();
    let seconds: Vec<String> = seconds.iter().map(f64::to_string).collect();
    let seconds = seconds.join(" or ");
    format!("{date}, {commit}, medians of {rounds} of {seconds} s")
}

/// Returns the workloads in the order in which they were measured.
fn shapes(rows: &[&RivalRow]) -> Vec<(usize, usize)> {
    let mut shapes = Vec::new();
    for row in rows {
        if !shapes.contains(&(row.record, row.threads)) {
            shapes.push((row.record, row.threads));
        }
    }
    shapes
}

/// Returns the names of the subjects in the order in which they were measured.
fn names<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(&'a str, &'a str)> {
    let mut names = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn workload(&(record, threads): &(usize, usize)) -> String {
    format!("{threads} × {}", bytes(record as u64))
}

/// Returns a table from its header and its rows.
fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let mut text = format!(
        "| {} |\n|{}\n",
        header.join(" | "),
        "---|".repeat(header.len())
    );
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// Returns the name of a subject, in bold for the library.
fn subject(name: &str, version: &str) -> String {
    match name {
        LOGFORCE => format!("**{LOGFORCE}**"),
        RECYCLING => "logforce, segments used again".to_owned(),
        _ => with_version(name, version),
    }
}

fn commits(rows: &[&RivalRow]) -> String {
    let shapes = shapes(rows);
    let header: Vec<String> = [String::new()]
        .into_iter()
        .chain(shapes.iter().map(workload))
        .collect();
    let lines = names(rows.iter().map(|r| (r.rival.as_str(), r.version.as_str())));
    let lines: Vec<Vec<String>> = lines
        .into_iter()
        .map(|(name, version)| {
            let cell = |&(record, threads): &(usize, usize)| {
                let is_it = |r: &&&RivalRow| (r.record, r.threads) == (record, threads);
                let row = rows.iter().filter(is_it).find(|r| r.rival == name);
                row.map_or("–".to_owned(), |row| {
                    let rate = with_range(row.commits_per_second, row.commits_per_second_range);
                    format!("{rate} ({})", number(row.p999_us.map(|us| us / 1e3), 1))
                })
            };
            let mut line = vec![subject(name, version)];
            line.extend(shapes.iter().map(cell));
            line
        })
        .collect();
    table(&header, &lines)
}

fn appended(rows: &[&BulkRow]) -> String {
    let header = [
        "",
        "append MB/s",
        "opened and read, cold / warm, s",
        "MiB, appending / reading",
    ];
    let line = |row: &&BulkRow| {
        vec![
            subject(&row.subject, &row.version),
            with_range(row.append_mb_per_second, row.append_mb_per_second_range),
            format!(
                "{} / {}",
                number(row.cold_seconds, 2),
                number(row.warm_seconds, 2)
            ),
            format!(
                "{} / {}",
                number(row.append_peak_mib, 0),
                number(row.read_peak_mib, 0)
            ),
        ]
    };
    let lines: Vec<_> = rows.iter().map(line).collect();
    table(&header.map(str::to_owned), &lines)
}

fn with_range(value: Option<f64>, range: Option<(f64, f64)>) -> String {
    match (value, range) {
        (Some(value), Some((low, high))) => {
            format!("{} [{}–{}]", rounded(value), rounded(low), rounded(high))
        }
        _ => "failed".to_owned(),
    }
}

/// Returns the table of the ratios to the fastest other.
fn beside_best(document: &Document, rows: &[RivalRow]) -> String {
    let shapes = shapes(&rows.iter().collect::<Vec<_>>());
    let header: Vec<String> = [String::new()]
        .into_iter()
        .chain(shapes.iter().map(workload))
        .collect();
    let lines: Vec<Vec<String>> = document
        .filesystems
        .iter()
        .map(|filesystem| {
            let of = |shape| best(document, rows, filesystem, shape);
            let mut line = vec![filesystem.title.clone()];
            line.extend(shapes.iter().map(of));
            line
        })
        .collect();
    table(&header, &lines)
}

/// Returns the cell of a filesystem and a workload.
fn best(
    document: &Document,
    rows: &[RivalRow],
    filesystem: &Described,
    &(record, threads): &(usize, usize),
) -> String {
    let is_here = |of: &str, shape| of == filesystem.name && shape == (record, threads);
    let fastest = rows
        .iter()
        .filter(|r| is_here(&r.filesystem, (r.record, r.threads)) && is_other(&r.rival))
        .filter_map(|r| Some((r, r.commits_per_second?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let line = |name: &str| {
        let all = document.commits.iter();
        let mut here = all.filter(|l| is_here(&l.filesystem, (l.record, l.threads)));
        here.find(|l: &&Measured| l.rival == name)
    };
    let ratio = fastest.and_then(|(row, _)| {
        let ratios = ratios(line(LOGFORCE)?, line(&row.rival)?);
        Some(format!("{} {}", number(median(ratios), 2), row.rival))
    });
    ratio.unwrap_or("–".to_owned())
}

/// Returns true for a rival that is another log or store.
fn is_other(name: &str) -> bool {
    ![RAW, LOGFORCE, RECYCLING].contains(&name)
}

/// Returns the table of the commits in the directory itself with the smallest records, fastest first; an
/// empty text if there are none.
fn summary(document: &Document) -> String {
    let rows = report::rows(&document.commits);
    let least = rows.iter().map(|r| r.record).min();
    let rows: Vec<&RivalRow> = rows
        .iter()
        .filter(|r| r.filesystem == NO_LOOP && Some(r.record) == least)
        .filter(|r| r.rival == LOGFORCE || is_other(&r.rival))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let shapes = shapes(&rows);
    let rate = |name: &str, &(_, threads): &(usize, usize)| {
        let mut of = rows.iter().filter(|r| r.rival == name);
        of.find(|r| r.threads == threads)?.commits_per_second
    };
    let mut lines = names(rows.iter().map(|r| (r.rival.as_str(), r.version.as_str())));
    let most = |name: &str| shapes.last().and_then(|shape| rate(name, shape));
    lines.sort_by(|a, b| {
        most(b.0)
            .unwrap_or(0.0)
            .total_cmp(&most(a.0).unwrap_or(0.0))
    });
    let cells: Vec<Vec<String>> = lines
        .iter()
        .map(|&(name, version)| {
            let cell = |shape| rate(name, shape).map_or("–".to_owned(), rounded);
            let mut line = vec![subject(name, version)];
            line.extend(shapes.iter().map(cell));
            line
        })
        .collect();
    let threads = |&(_, threads): &(usize, usize)| count(threads as u64, "thread");
    let header: Vec<String> = [String::new()]
        .into_iter()
        .chain(shapes.iter().map(threads))
        .collect();
    let here = document
        .commits
        .iter()
        .filter(|line| line.filesystem == NO_LOOP);
    format!("{}\n{}.\n", table(&header, &cells), dated(document, here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_blocks_are_replaced() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = home.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let old = "before\n<!-- rivals: tables -->\nold figures\n<!-- end -->\nafter\n";
        let good = file("good", old);
        for bad in [
            "no block\n",
            "<!-- rivals: tables -->\nno end\n",
            "<!-- rivals: tables -->\n<!-- rivals: summary -->\n<!-- end -->\n",
            "<!-- rivals: summary -->\nno results\n<!-- end -->\n",
        ] {
            let files = [good.clone(), file("bad", bad)];
            assert!(check(&files, &[]).is_err(), "{bad}");
            assert!(replace(&files, &Document::default()).is_err(), "{bad}");
            for (path, text) in files.iter().zip([old, bad]) {
                assert_eq!(fs::read_to_string(path).unwrap(), text, "{bad}");
            }
        }
        check(std::slice::from_ref(&good), &[]).unwrap();
        replace(std::slice::from_ref(&good), &Document::default()).unwrap();
        let text = fs::read_to_string(&good).unwrap();
        assert!(text.starts_with("before\n") && text.ends_with("<!-- end -->\nafter\n"));
        assert!(!text.contains("old figures"));
    }
}
