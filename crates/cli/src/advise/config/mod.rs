//! Configuration files of other systems: the settings in them, with file and line.
//!
//! Each format has a reader, for the part of the format that the settings use. A line that it does not
//! understand is reported and never skipped. docs/decisions/0029-configuration-files.md has the reasons.

mod etcd;
mod mysql;
mod nats;
mod postgresql;
mod pragma;
mod properties;
mod redis;
mod yaml;

use anyhow::{Context, bail};
use logforce_systems::System;
use logforce_terminal::numbers::bytes;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Largest file that is read, bytes. No configuration comes near it.
const LARGEST: u64 = 4 << 20;
/// Largest number of files that one configuration may include.
const MOST_FILES: usize = 1000;
/// Deepest chain of includes, as in PostgreSQL.
const DEEPEST: usize = 10;

/// A setting that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Name, as the table of settings has it.
    pub name: &'static str,
    /// Text of the value.
    pub value: String,
    /// Place where it was found, such as `redis.conf:12`.
    pub place: String,
}

/// Settings that were found, in the order in which they take effect: the last one of a name counts.
#[derive(Debug, Default)]
pub struct Configuration {
    /// The settings.
    pub found: Vec<Found>,
    /// Parts that could not be read or understood, in sentences. A setting may be in them.
    pub unread: Vec<String>,
}

impl Configuration {
    /// Returns the setting of this name that is in force.
    pub fn of(&self, name: &str) -> Option<&Found> {
        self.found.iter().rev().find(|f| f.name == name)
    }
}

/// Reads the configuration of a system from a file and the files that it includes.
pub fn read(system: System, wanted: &[&'static str], path: &Path) -> anyhow::Result<Configuration> {
    let mut reader = Reader {
        wanted,
        is_exact: matches!(
            system,
            System::Kafka
                | System::Zookeeper
                | System::Rocksdb
                | System::Cassandra
                | System::Mongodb
                | System::Etcd
        ),
        files: 0,
        configuration: Configuration::default(),
    };
    match system {
        System::Postgresql => postgresql::read(&mut reader, path)?,
        System::Mysql => mysql::read(&mut reader, path, mysql::MYSQL)?,
        System::Mariadb => mysql::read(&mut reader, path, mysql::MARIADB)?,
        System::Redis => redis::read(&mut reader, path)?,
        System::Kafka | System::Zookeeper | System::Rocksdb => properties::read(&mut reader, path)?,
        System::Cassandra | System::Mongodb => yaml::read(&mut reader, path)?,
        System::Etcd => etcd::read(&mut reader, path)?,
        System::Nats => nats::read(&mut reader, path)?,
        System::Sqlite => pragma::read(&mut reader, path)?,
        other => bail!("no configuration file of {} is understood", other.title()),
    }
    Ok(reader.configuration)
}

/// State while a configuration is read.
struct Reader<'a> {
    wanted: &'a [&'static str],
    /// True if names are the same only in the same letters.
    is_exact: bool,
    files: usize,
    configuration: Configuration,
}

impl Reader<'_> {
    /// Returns the text of a file, of which at most [`LARGEST`] bytes are read.
    fn text(&mut self, path: &Path) -> anyhow::Result<String> {
        self.files += 1;
        if self.files > MOST_FILES {
            bail!(
                "cannot read {}: more than {MOST_FILES} files are included: look for a circle of includes",
                path.display()
            );
        }
        let cannot = || format!("cannot read {}", path.display());
        // Opening a pipe would wait for a writer.
        let found = path.metadata().with_context(cannot)?;
        if !found.is_file() {
            bail!("cannot read {}: it is not a file", path.display());
        }
        let mut data = Vec::new();
        let file = File::open(path).with_context(cannot)?;
        file.take(LARGEST + 1)
            .read_to_end(&mut data)
            .with_context(cannot)?;
        if data.len() as u64 > LARGEST {
            bail!(
                "cannot read {}: it is larger than {}, which no configuration is",
                path.display(),
                bytes(LARGEST)
            );
        }
        if data.contains(&0) {
            bail!("cannot read {}: it is not a text file", path.display());
        }
        // Comments may have any encoding; names and values of settings are ASCII.
        let text = String::from_utf8_lossy(&data).into_owned();
        Ok(text
            .strip_prefix('\u{feff}')
            .map(str::to_owned)
            .unwrap_or(text))
    }

    /// Returns the name in the table of settings that `name` stands for, if the setting is wanted.
    fn wanted(&self, name: &str) -> Option<&'static str> {
        let same = |w: &&&'static str| match self.is_exact {
            true => **w == name,
            false => w.eq_ignore_ascii_case(name),
        };
        self.wanted.iter().find(same).copied()
    }

    /// Keeps a setting, if it is wanted.
    fn keep(&mut self, name: &str, value: impl Into<String>, path: &Path, line: usize) {
        if let Some(name) = self.wanted(name) {
            self.configuration.found.push(Found {
                name,
                value: value.into(),
                place: place(path, line),
            });
        }
    }

    /// Reports a part that was not understood.
    fn not_understood(&mut self, path: &Path, line: usize, why: &str) {
        let place = place(path, line);
        self.unread(format!("{place} is not understood: {why}"));
    }

    /// Reports a part that was not read.
    fn unread(&mut self, sentence: String) {
        // A file of rubbish has thousands of such lines.
        const MOST: usize = 20;
        match self.configuration.unread.len() {
            n if n < MOST => self.configuration.unread.push(sentence),
            MOST => self
                .configuration
                .unread
                .push("Further lines are not understood.".to_owned()),
            _ => {}
        }
    }

    /// Returns an error if a chain of includes is too deep.
    fn check_depth(&self, depth: usize, path: &Path) -> anyhow::Result<()> {
        if depth > DEEPEST {
            bail!(
                "cannot read {}: includes are nested more than {DEEPEST} deep: look for a circle of includes",
                path.display()
            );
        }
        Ok(())
    }
}

fn place(path: &Path, line: usize) -> String {
    format!("{}:{line}", path.display())
}

/// Returns the path of an included file. A relative one starts at the directory of the file that names it.
fn beside(path: &Path, name: &str) -> PathBuf {
    let name = name.strip_prefix("./").unwrap_or(name);
    path.parent().unwrap_or(Path::new(".")).join(name)
}

/// Returns the files of a directory whose names end with `ending`, sorted by name. Hidden ones are left out.
fn files_in(dir: &Path, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read the included directory {}", dir.display());
    let mut files = Vec::new();
    for entry in dir.read_dir().with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(ending) && !name.starts_with('.') {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Returns `text` up to the first `mark` that is not within quotes.
fn before_comment(text: &str, mark: char) -> &str {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None, c) if c == mark => return &text[..at],
            _ => {}
        }
    }
    // Without its closing quote, a quote is an apostrophe in a comment or a part of a word.
    match quote.and_then(|_| text.find(mark)) {
        Some(at) => &text[..at],
        None => text,
    }
}

/// Returns `text` without the quotes around it.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner;
        }
    }
    text
}

#[cfg(test)]
mod tests;
