//! Flags and functions that all scenarios share: the directory to measure in, and the result files.

use super::os;
pub use super::place::{DirArgs, DirsArgs, Where, check_directory};
use crate::charts::Charts;
use crate::exit::Usage;
use crate::output::{Sink, Target, complain, complain_always, quoted};
use crate::signal;
use anyhow::bail;
use logforce_device::Directory;
use logforce_measure::counters::{Absent, CounterSource};
use logforce_measure::machine::Machine;
use logforce_measure::result::legend::Shown;
use logforce_measure::workplace::{Workplace, stale_directories};
use logforce_measure::{Document, Interrupt, MeasureError, output};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// Parts of the report that are printed, and the files that results are written to.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// Print every table and note behind the conclusion
    #[arg(long)]
    all: bool,
    /// Print the published figures of the same workload beside these, if there are any
    #[arg(long)]
    published: bool,
    /// Write the report as JSON to FILE; - writes to standard output, and other text to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    /// Write the rows as CSV to FILE; - writes to standard output, and other text to standard error
    #[arg(long, value_name = "FILE")]
    csv: Option<Target>,
    /// Write a report with charts to FILE, as one HTML file
    #[arg(long, value_name = "FILE")]
    report: Option<Target>,
    /// Write the charts of the report into the directory DIR, each as an SVG file
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

impl Files {
    /// Returns the target of --json.
    pub fn json(&self) -> Option<&Target> {
        self.json.as_ref()
    }

    /// Checks that no two flags name the same file.
    pub fn check(&self) -> anyhow::Result<()> {
        let svg = self.svg.clone().map(Target::File);
        one_place_each(&[
            ("--json", &self.json),
            ("--csv", &self.csv),
            ("--report", &self.report),
            ("--svg", &svg),
        ])
    }

    /// Returns the parts of the report that are printed.
    pub fn shown(&self) -> Shown {
        Shown {
            all: self.all,
            published: self.published,
        }
    }

    /// Returns the flag that asks for charts, if one does.
    pub fn draws(&self) -> Option<&'static str> {
        let flags = [
            ("--report", self.report.is_some()),
            ("--svg", self.svg.is_some()),
        ];
        flags
            .into_iter()
            .find(|(_, is_given)| *is_given)
            .map(|(flag, _)| flag)
    }

    /// Opens the files, before anything is measured.
    pub fn open(&self) -> anyhow::Result<Sinks> {
        Ok(Sinks {
            json: self.json.as_ref().map(Sink::open).transpose()?,
            csv: self.csv.as_ref().map(Sink::open).transpose()?,
            report: self.report.as_ref().map(Sink::open).transpose()?,
            svg: self.svg.as_deref().map(Charts::open).transpose()?,
        })
    }
}

/// Checks that no two flags name the same file. Otherwise the last result would overwrite the others.
pub fn one_place_each(flags: &[(&str, &Option<Target>)]) -> anyhow::Result<()> {
    for (n, (flag, target)) in flags.iter().enumerate() {
        // A device, such as the null device, may be named several times.
        let is_device = |path: &Path| path.exists() && !path.is_file();
        let can_be_lost = match target {
            None => false,
            Some(Target::Stdout) => true,
            Some(Target::File(path)) => !is_device(path),
        };
        let same = |(_, other): &&(&str, &Option<Target>)| can_be_lost && other == target;
        if let Some((other, _)) = flags[..n].iter().find(same) {
            let place = match target {
                Some(Target::File(path)) => path.display().to_string(),
                _ => "standard output (-)".to_owned(),
            };
            bail!(Usage(format!(
                "{other} and {flag} both write to {place}: name another file for one of them"
            )));
        }
    }
    Ok(())
}

/// Open [`Files`].
pub struct Sinks {
    json: Option<Sink>,
    csv: Option<Sink>,
    report: Option<Sink>,
    svg: Option<Charts>,
}

impl Sinks {
    /// Returns true if data goes to standard output, so that other text must not.
    pub fn have_stdout(&self) -> bool {
        let is_stdout = |s: &Option<Sink>| matches!(s, Some(Sink::Stdout));
        is_stdout(&self.json) || is_stdout(&self.csv) || is_stdout(&self.report)
    }

    /// Writes the report and its rows. A failure does not stop the other files: measuring took minutes.
    pub fn fill(mut self, document: &Document) -> anyhow::Result<()> {
        let (page, charts) = (self.report.take(), self.svg.take());
        let data = self.fill_with(
            |out| output::json(document, out),
            |out| output::csv(&document.rows, document.interrupted, out),
        );
        let drawn = match page.is_some() || charts.is_some() {
            true => draw(document, page, charts),
            false => Ok(()),
        };
        if let (Err(_), Err(e)) = (&data, &drawn) {
            complain_always(&format!("error: {e:#}"));
        }
        data.and(drawn)
    }

    /// Writes JSON and CSV, as far as they were requested.
    pub fn fill_with(
        self,
        json: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        csv: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let json = self.json.map(|sink| sink.fill(json));
        let csv = self.csv.map(|sink| sink.fill(csv));
        let mut failed = Ok(());
        for result in [json, csv].into_iter().flatten() {
            match failed {
                Ok(()) => failed = result,
                Err(_) => result.unwrap_or_else(|e| complain_always(&format!("error: {e:#}"))),
            }
        }
        failed
    }
}

/// Writes a result as an HTML page, and its charts into a directory.
pub fn draw(document: &Document, page: Option<Sink>, charts: Option<Charts>) -> anyhow::Result<()> {
    if let Some(sink) = page {
        sink.fill(|out| out.write_all(logforce_report::html(document).as_bytes()))?;
    }
    match charts {
        Some(charts) => charts.fill(logforce_report::svgs(document)),
        None => Ok(()),
    }
}

/// Returns the counters of the device below `path`, or a source that says why there are none.
pub fn counters(path: &Path) -> Rc<dyn CounterSource> {
    match os::counters(path) {
        Ok(counters) => Rc::new(counters),
        Err(e) => Rc::new(Absent(format!(
            "Device writes and flushes are not known: {e}."
        ))),
    }
}

/// Runs `body` with a temporary directory in `dir`, and removes the directory, also after Ctrl-C.
/// Returns `None` if the user interrupted before anything was measured.
pub fn leaving_nothing<T>(
    dir: &Path,
    body: impl FnOnce(&Workplace, Interrupt) -> Result<T, MeasureError>,
) -> anyhow::Result<Option<T>> {
    leaving_nothing_in([dir], |[place], interrupt| body(place, interrupt))
}

/// Runs `body` with a temporary directory in each of `dirs`, like [`leaving_nothing`].
pub fn leaving_nothing_in<T, const N: usize>(
    dirs: [&Path; N],
    body: impl FnOnce(&[Workplace; N], Interrupt) -> Result<T, MeasureError>,
) -> anyhow::Result<Option<T>> {
    let interrupt = Interrupt::new();
    let paths_to_remove = Arc::new(Mutex::new(Vec::new()));
    signal::install(interrupt.clone(), Arc::clone(&paths_to_remove))?;
    for path in dirs
        .iter()
        .flat_map(|dir| stale_directories(dir, os::is_running))
    {
        complain(&format!(
            "note: {} was left behind by a killed run: remove it",
            path.display()
        ));
    }
    let measured = {
        let system = os::system();
        // Removed at the end of this block, before anything is printed.
        let mut places = Vec::new();
        for dir in dirs {
            let place = Workplace::create(&system, dir)?;
            if let Ok(mut paths) = paths_to_remove.lock() {
                paths.push(place.path().to_owned());
            }
            places.push(place);
        }
        match <[Workplace; N]>::try_from(places) {
            Ok(places) => body(&places, interrupt),
            Err(_) => unreachable!("there is one for each directory"),
        }
    };
    match measured {
        Err(MeasureError::Interrupted) => {
            complain("interrupted before anything was measured");
            Ok(None)
        }
        measured => Ok(Some(measured?)),
    }
}

/// Returns the machine, the filesystem and the directory `at` that are measured.
pub fn machine(directory: &dyn Directory, at: &Path) -> Result<Machine, MeasureError> {
    let facts = directory
        .facts_for_writing()
        .map_err(MeasureError::io("asking about the filesystem"))?;
    Ok(Machine::new(&facts, os::host()).at(at))
}

/// Returns the word with the password of a URL hidden, because reports are passed on.
pub fn without_password(word: &str) -> String {
    let word = match word.split_once("password=") {
        Some((before, behind)) if before.contains("://") && before.ends_with(['?', '&']) => {
            let rest = behind.find('&').map_or("", |at| &behind[at..]);
            &format!("{before}password=***{rest}")
        }
        _ => word,
    };
    let hidden = || {
        let (scheme, rest) = word.split_once("://")?;
        let (login, place) = rest.split('/').next()?.rsplit_once('@')?;
        let (user, _) = login.split_once(':')?;
        let behind = &rest[login.len() + 1 + place.len()..];
        Some(format!("{scheme}://{user}:***@{place}{behind}"))
    };
    hidden().unwrap_or_else(|| word.to_owned())
}

/// Returns the command line without passwords, quoted where a shell needs it.
pub fn command_line() -> String {
    let arguments = std::env::args_os()
        .skip(1)
        .map(|a| quoted(without_password(&a.to_string_lossy())));
    std::iter::once("logforce".to_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_in_no_report() {
        for (word, shown) in [
            (
                "mysql://a:secret@h:3306/d?x=1",
                "mysql://a:***@h:3306/d?x=1",
            ),
            ("--mysql=mysql://a:s@cret@h", "--mysql=mysql://a:***@h"),
            ("postgres://a@h:5432/d", "postgres://a@h:5432/d"),
            ("postgres://h/d?u=a:b@c", "postgres://h/d?u=a:b@c"),
            ("--dir=/a:b@c", "--dir=/a:b@c"),
            ("pg://h/d?password=s&x=y", "pg://h/d?password=***&x=y"),
            ("pg://a:b@h/d?x&password=s", "pg://a:***@h/d?x&password=***"),
        ] {
            assert_eq!(without_password(word), shown);
        }
    }
}
