//! `logforce archive`.

mod base;
mod list;
mod mark;
mod metrics;
mod prune;
mod restore;
mod run;
mod state;
mod takeover;
mod times;
mod verify;

use crate::directory;
use crate::exit::{Damaged, End, Usage};
use crate::output::{Sink, Target, print};
use crate::progress::Bar;
use anyhow::{Context, anyhow};
use clap::Subcommand;
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use logforce_archive::format::{KeyError, Reject, SecretKey};
use logforce_archive::key::{Key, MAX_OWNER_LEN};
use logforce_archive::protocol::Error as StateError;
use logforce_archive::store::{Store, StoreOptions};
use logforce_archive::{Archive, ArchiveOptions, Error, Progress};
use logforce_terminal::progress::Progress as _;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Variable with the key of an encrypted archive.
const KEY: &str = "LOGFORCE_ARCHIVE_KEY";

const MORE: &str = "\
From nothing to a restore:
  logforce archive run sales.log s3://bucket/sales         beside the program that writes the log
  logforce archive list s3://bucket/sales --log sales.log  what can be restored, and how far behind is it?
  logforce archive restore s3://bucket/sales restored      after the loss of the machine

URL is s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, or a directory that exists, such as a
mounted disk of another machine. Each log needs a URL for itself. Credentials come from the environment,
under the names that the tools of the service use: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION.

Exit status: 0 done, 1 damage found in the archive, 2 unusable arguments, 4 failed: the store refuses, the
archive belongs to another log or was taken over, or the directory is not empty, for example.";

/// Archives logs.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copy a log or page file into an archive, continuously, beside the program that writes it.
    Run(Box<run::Args>),
    /// Add a base copy of a page file, with which a restore begins.
    Base(base::Args),
    /// Make a log or page file of an archive, or keep a copy up to date for a takeover.
    Restore(Box<restore::Args>),
    /// Show what can be restored.
    List(list::Args),
    /// Read and check a whole archive or a sample; exits with 1 if something is damaged.
    Verify(verify::Args),
    /// Delete the part of an archive that no restore to a recent time needs.
    Prune(prune::Args),
    /// Name a position, so that a restore can end there.
    Mark(mark::Args),
    /// Take a log over on this machine: the old writer can archive nothing more.
    Takeover(takeover::Args),
}

/// Runs the chosen part.
pub fn run(args: Args) -> anyhow::Result<End> {
    match args.command {
        Command::Run(args) => run::run(*args),
        Command::Base(args) => base::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::List(args) => list::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Prune(args) => prune::run(&args),
        Command::Mark(args) => mark::run(&args),
        Command::Takeover(args) => takeover::run(&args),
    }
}

/// The archive, and the file that the result is written to.
#[derive(Debug, clap::Args)]
struct ArchiveArgs {
    /// URL or directory of the archive
    #[arg(value_name = "URL", value_parser = Url)]
    url: String,
    #[command(flatten)]
    access: Access,
    /// Write the result as JSON to FILE; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
}

/// Parser of the argument URL.
#[derive(Debug, Clone)]
struct Url;

impl TypedValueParser for Url {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let text = value.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            let why = format!(
                "the path {value:?} is not UTF-8, as the URL of an archive must be: rename the directory, or name a \
                 symbolic link to it"
            );
            command.clone().error(ErrorKind::InvalidUtf8, why)
        })
    }
}

/// Parses the name of an owner.
fn owner(name: &str) -> Result<String, String> {
    match name.len() {
        0..=MAX_OWNER_LEN => Ok(name.to_owned()),
        len => Err(format!(
            "the name has {len} bytes, and an archive stores at most {MAX_OWNER_LEN}: choose a shorter one"
        )),
    }
}

/// The key and the address of the store.
#[derive(Debug, clap::Args)]
struct Access {
    /// File with the key of an encrypted archive: 32 bytes in hexadecimal or base64 [default: the variable
    /// LOGFORCE_ARCHIVE_KEY, if it is set]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Address of the object storage [default: the one in the environment, such as AWS_ENDPOINT]
    #[arg(long, value_name = "ADDRESS")]
    endpoint: Option<String>,
}

impl Access {
    fn open(&self, url: &str) -> anyhow::Result<Archive> {
        Store::check_url(url).map_err(|error| Usage(error.to_string()))?;
        let key = match &self.key_file {
            Some(path) => Some(SecretKey::from_file(path)),
            None if std::env::var_os(KEY).is_some() => Some(SecretKey::from_env(KEY)),
            None => None,
        };
        let key = key.transpose().map_err(|error| match error {
            KeyError::Text { .. } => Usage(error.to_string()).into(),
            error => anyhow::Error::from(error),
        })?;
        let mut store = StoreOptions::default();
        if let Some(endpoint) = &self.endpoint {
            store = store.endpoint(endpoint);
        }
        let options = ArchiveOptions {
            store,
            key,
            ..ArchiveOptions::default()
        };
        Archive::open(url, options).map_err(failed)
    }
}

impl ArchiveArgs {
    /// Opens the archive, and the file for the result, so that a wrong name is reported at once.
    fn open(&self) -> anyhow::Result<(Archive, Report)> {
        let json = self.json.as_ref().map(Sink::open).transpose();
        let report = Report {
            json: json.context("--json")?,
        };
        Ok((self.access.open(&self.url)?, report))
    }
}

/// The result of one command.
struct Report {
    json: Option<Sink>,
}

/// Head of each result as JSON.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'static str,
    version: u32,
    url: &'a str,
    #[serde(flatten)]
    result: T,
}

impl Report {
    /// Prints the text, and writes the result as JSON, if that was asked for.
    fn finish(
        self,
        archive: &Archive,
        schema: &'static str,
        text: &str,
        result: impl Serialize,
    ) -> anyhow::Result<()> {
        print(text, matches!(self.json, Some(Sink::Stdout)))?;
        let Some(json) = self.json else {
            return Ok(());
        };
        let document = Document {
            schema,
            version: 1,
            url: archive.url(),
            result,
        };
        json.fill(|out| {
            serde_json::to_writer_pretty(&mut *out, &document).map_err(std::io::Error::from)?;
            out.write_all(b"\n")
        })
        .context("--json")
    }
}

/// Returns the directory of the log in a directory that the user named: a log or a page file.
fn log_of(dir: &Path) -> anyhow::Result<PathBuf> {
    Ok(match directory::is_page_file(dir)? {
        true => dir.join("log"),
        false => dir.to_owned(),
    })
}

/// Moves the bar.
fn advance(bar: &Bar, at: Progress) {
    let whole = at.goal.since(at.from).max(1);
    bar.fraction(at.at.since(at.from) as f64 / whole as f64);
}

/// Returns the error for the user of the command. A damaged object ends the command with 1.
fn failed(error: Error) -> anyhow::Error {
    let is_damage = match &error {
        Error::Object(object) => match &object.reject {
            // Some other program's file at the archive's address.
            Reject::Magic => object.key != Key::Identity,
            Reject::Version(_)
            | Reject::OtherLog { .. }
            | Reject::TooLarge { .. }
            | Reject::NoKey
            | Reject::WrongKey
            | Reject::PlainArchive
            | Reject::NoRandom
            | Reject::NoMemory => false,
            _ => true,
        },
        Error::State(StateError::Gap { .. } | StateError::Misplaced { .. }) => true,
        Error::Log(logforce::Error::Chunk { .. }) => true,
        _ => false,
    };
    if is_damage {
        return Damaged(error.to_string()).into();
    }
    match error {
        Error::Object(object) if matches!(object.reject, Reject::NoKey) => {
            anyhow!("{object}: give it by --key-file, or in the variable {KEY}")
        }
        Error::Object(object) if matches!(object.reject, Reject::PlainArchive) => {
            anyhow!("{object}: leave out --key-file, or unset the variable {KEY}")
        }
        Error::Log(error) => error.into(),
        Error::Pages(error) => error.into(),
        error => anyhow!("{error}"),
    }
}

/// Adds the remedy to an error of a directory that is written.
fn not_restored(error: Error) -> anyhow::Error {
    match &error {
        Error::Log(e) => match crate::salvage::no_space(e) {
            Some(source) => anyhow!(
                "there is no space for the log: {source}. Free space there, or name a directory on another \
                 filesystem. The archive was only read"
            ),
            None => failed(error),
        },
        _ => failed(error),
    }
}
