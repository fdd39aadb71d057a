//! `logforce advise`.

mod config;
mod cost;
mod disk;
mod judge;
mod report;
mod server;
mod text;

use crate::bench::common::{command_line, without_password};
use crate::exit::End;
use crate::output::{Sink, Target, print, terminal_width};
use config::Configuration;
use cost::Costs;
use judge::Court;
use logforce_device::{Guarantee, Method};
use logforce_measure::output;
use logforce_systems::System;
use logforce_systems::settings::{Answer, Choice, SystemSettings, weakest};
use logforce_terminal::arguments::named;
use logforce_terminal::numbers::count;
use report::AdviceReport;
use server::Answers;
use std::path::PathBuf;

const MORE: &str = "\
Prints the settings of SYSTEM that decide what an acknowledged commit survives, as text to paste: what each
survives on the disk of DIR, what it costs there, its default, and the page of the manual. Measures the
force of the system's log for a second in a temporary directory in DIR.

With --config or --url: the settings in force, unsafe ones first, and what to change. Nothing is measured
and nothing is written. --url asks by the system's own client (psql, mariadb or mysql, redis-cli), which must
be installed; for sqlite it is the database file.

Examples:
  logforce advise --for postgresql /var/lib/postgresql > durable.conf
  logforce advise --for postgresql --url postgres://postgres@localhost/postgres
  logforce advise --for mariadb --config /etc/mysql/my.cnf
  logforce advise --for sqlite --url app.db
  logforce advise --for mysql --survive process-crash /var/lib/mysql

Exit status: 0 each setting gives the guarantee, 1 one gives less (or the disk does), 2 unusable arguments,
3 not certain, 4 failed, for example because a file cannot be read.";

/// Flags of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// System: etcd, postgresql, mysql, mariadb, sqlite, kafka, redis, nats, zookeeper, rocksdb, cassandra,
    /// mongodb
    #[arg(long = "for", value_name = "SYSTEM", value_parser = system)]
    system: System,
    /// Directory of the system's files [default: with --config or --url the one that is named there, else the
    /// present one]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Judge the settings of this server, or of this SQLite database
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    url: Option<String>,
    /// Judge the settings in this file and in those that it includes
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Failure that an acknowledged commit must survive: power-loss, os-crash or process-crash
    #[arg(long, value_name = "FAILURE", default_value = "power-loss", value_parser = failure)]
    survive: Guarantee,
    /// Directory of shared results of power cuts [default: $XDG_CACHE_HOME/logforce or ~/.cache/logforce; on
    /// Windows %LOCALAPPDATA%\logforce\cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Write the result as JSON to FILE; - writes to standard output, and other text to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
}

fn system(text: &str) -> Result<System, String> {
    named(text, "system", &System::ALL, System::name)
}

fn failure(text: &str) -> Result<Guarantee, String> {
    named(text, "failure", &Guarantee::ALL[1..], Guarantee::name)
}

/// Prints the settings to use, or judges those in force.
pub fn run(args: Args) -> anyhow::Result<End> {
    let settings = SystemSettings::of(args.system);
    let json = args.json.as_ref().map(Sink::open).transpose()?;
    let stdout_has_data = matches!(json, Some(Sink::Stdout));
    let wanted: Vec<&'static str> = settings.names().collect();
    let answers = match (&args.config, &args.url) {
        (Some(path), _) => Some(Answers {
            configuration: config::read(args.system, &wanted, path)?,
            ..Answers::default()
        }),
        (None, Some(url)) => Some(server::ask(args.system, url, &wanted)?),
        (None, None) => None,
    };
    let other = answers.as_ref().and_then(|a| a.other.as_ref());
    let settings = other.map_or(settings, |(system, _)| SystemSettings::of(*system));
    let none = Configuration::default();
    let configuration = answers.as_ref().map_or(&none, |a| &a.configuration);
    let disks = disk::examine(&args, settings, answers.as_ref())?;
    let facts = disks.weakest().map(|d| &d.facts);
    let court = Court {
        settings,
        asked: args.survive,
        platform: disks.platform(),
        disks: disks.facts(),
    };
    let costs = match disks.weakest() {
        Some(disk) if answers.is_none() => {
            cost::measure(settings, &methods(&court), &disk.dir, disk.facts.kind)?
        }
        _ => Costs::missing("only `logforce advise` without --config and --url measures"),
    };
    if costs.interrupted {
        return Ok(End::Interrupted);
    }
    let choices = court.choose(&costs);
    let in_force = answers
        .as_ref()
        .map(|a| court.in_force(&a.configuration, &a.overrides, &choices));
    let mut notes: Vec<String> = settings.unseen.iter().map(|s| (*s).to_owned()).collect();
    if let Some((system, version)) = other {
        notes.insert(
            0,
            format!(
                "The server is {} {version}, not {}: its own settings are judged.",
                system.title(),
                args.system.title()
            ),
        );
    }
    let is_empty = configuration.found.is_empty() && configuration.unread.is_empty();
    if args.config.is_some() && is_empty {
        let title = args.system.title();
        notes.push(format!(
            "None of these settings of {title} stands in the file: all are defaults."
        ));
    }
    notes.extend(disks.notes.iter().cloned());
    let unread = configuration.unread.clone();
    let answer = match &in_force {
        None => weakest(&choices, args.survive),
        Some(lines) => {
            let lines = lines.iter().map(|l| judge::answer(l.answer));
            let unread = (!unread.is_empty()).then_some(Answer::Doubtful);
            lines.chain(unread).min().unwrap_or(Answer::Doubtful)
        }
    };
    let width = terminal_width(stdout_has_data).min(logforce_terminal::layout::WIDTH);
    let advice = court.advice(&choices, &costs);
    let mut report = AdviceReport {
        schema: "logforce-advise",
        version: 1,
        command: command_line(),
        system: settings.system.name(),
        asked: args.survive.name(),
        answer: judge::name(answer),
        sentence: String::new(),
        directory: disks.weakest().map(|d| d.dir.display().to_string()),
        filesystem: facts.map(|f| f.filesystem.clone()),
        device: facts
            .and_then(|f| f.device.as_ref())
            .map(|d| d.name.clone()),
        disk_unseen: (!disks.unseen.is_empty()).then(|| disks.unseen.join("; ")),
        read_from: match (&args.config, &args.url) {
            (Some(path), _) => Some(path.display().to_string()),
            (None, url) => url.as_deref().map(without_password),
        },
        in_force,
        advice,
        snippet: String::new(),
        not_measured: costs.missing.clone(),
        unread,
        notes,
    };
    report.sentence = sentence(&report, &court, &choices);
    report.snippet = snippet(&report, &court, width);
    let text = match report.in_force {
        Some(_) => text::in_force(&report, width),
        None => report.snippet.clone(),
    };
    print(&text, stdout_has_data)?;
    if let Some(sink) = json {
        sink.fill(|out| output::json(&report, out))?;
    }
    Ok(match answer {
        Answer::Enough => End::Done,
        Answer::Doubtful => End::Inconclusive,
        Answer::Below => End::Unfit,
    })
}

/// Returns the methods that the advised values rely on.
fn methods(court: &Court<'_>) -> Vec<Method> {
    let values = court.settings.on(court.platform).flat_map(|s| s.values);
    let advised = values.filter(|v| v.is_advised && v.platforms.contains(&court.platform));
    let mut methods = vec![court.settings.usual_method(court.platform)];
    for value in advised {
        let method = court.settings.method(value, court.platform);
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    methods
}

/// Returns the answer in one sentence.
fn sentence(report: &AdviceReport, court: &Court<'_>, choices: &[Choice]) -> String {
    let title = court.settings.system.title();
    let asked = court.asked;
    let place = match (&report.directory, &report.filesystem, &report.device) {
        (Some(dir), Some(filesystem), Some(device)) => format!("{filesystem} at {dir} ({device})"),
        (Some(dir), Some(filesystem), None) => format!("{filesystem} at {dir}"),
        _ => "a disk that was not examined".to_owned(),
    };
    let weakest = choices.iter().min_by_key(|c| c.judged.answer(asked));
    let evidence = weakest.and_then(|c| c.judged.force.as_ref());
    let evidence = evidence
        .map(|f| format!(": {}", f.evidence))
        .unwrap_or_default();
    let unseen = report.disk_unseen.as_ref().map(|why| format!(": {why}"));
    let evidence = unseen.unwrap_or(evidence);
    let Some(lines) = &report.in_force else {
        return match judge::answer(report.answer) {
            Answer::Enough => format!(
                "{title} on {place}: with these settings a commit survives {asked}{evidence}."
            ),
            Answer::Doubtful => format!(
                "{title} on {place}: whether a commit survives {asked} is not certain, whatever is set{evidence}."
            ),
            Answer::Below => format!(
                "{title} on {place}: a commit does not survive {asked}, whatever is set{evidence}."
            ),
        };
    };
    let number = |name: &str| lines.iter().filter(|l| l.answer == name).count();
    let all = count(lines.len() as u64, "setting");
    let of = |n: usize| match n {
        1 => format!("1 of {all} is"),
        n => format!("{n} of {all} are"),
    };
    match judge::answer(report.answer) {
        Answer::Below => format!("{title} on {place}: {} below {asked}.", of(number("below"))),
        Answer::Enough => format!("{title} on {place}: none of {all} is below {asked}{evidence}."),
        Answer::Doubtful if !report.unread.is_empty() => format!(
            "{title} on {place}: nothing that was understood is below {asked}, but not everything was."
        ),
        Answer::Doubtful => format!(
            "{title} on {place}: {} unclear, none is known to be below {asked}.",
            of(number("doubtful"))
        ),
    }
}

/// Returns the advice as text to paste.
fn snippet(report: &AdviceReport, court: &Court<'_>, width: usize) -> String {
    let form = &court.settings.snippet;
    let mut head = vec![
        format!("{} ({})", report.command, form.file),
        match &report.in_force {
            None => report.sentence.clone(),
            Some(_) => format!(
                "{} to survive {}",
                court.settings.system.title(),
                court.asked
            ),
        },
    ];
    if let Some(why) = report
        .not_measured
        .as_ref()
        .filter(|_| report.in_force.is_none())
    {
        head.push(format!("Times were not measured: {why}."));
    }
    head.extend(
        report
            .notes
            .iter()
            .filter(|_| report.in_force.is_none())
            .cloned(),
    );
    text::snippet(&head, &report.advice, form, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command};

    #[test]
    fn the_help_names_every_system_and_every_failure() {
        let mut command = Args::augment_args(Command::new("advise"));
        let help = command.render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for system in System::ALL {
            assert!(help.contains(system.name()), "{system}");
        }
        for failure in &Guarantee::ALL[1..] {
            assert!(help.contains(failure.name()), "{failure}");
        }
    }
}
