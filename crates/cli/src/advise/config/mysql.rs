//! `my.cnf`, its `!include` and `!includedir`.

use super::{Reader, before_comment, beside, files_in, unquoted};
use std::path::Path;

/// Groups that a server reads. A name with a version behind it, such as `mysqld-8.4`, counts only for a server of
/// that version.
pub const MYSQL: &[&str] = &["mysqld", "server"];
/// Groups that a server of MariaDB reads.
pub const MARIADB: &[&str] = &[
    "mysqld",
    "server",
    "mariadb",
    "mariadbd",
    "client-server",
    "galera",
];

/// Reads the file and its includes. Only the groups of the server count.
pub fn read(reader: &mut Reader<'_>, path: &Path, groups: &[&str]) -> anyhow::Result<()> {
    file(reader, path, groups, 0)
}

fn file(reader: &mut Reader<'_>, path: &Path, groups: &[&str], depth: usize) -> anyhow::Result<()> {
    reader.check_depth(depth, path)?;
    let text = reader.text(path)?;
    let mut group = Group::Other;
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.split(']').next().unwrap_or(name).trim();
            group = Group::of(name, groups);
        } else if let Some(dir) = line.strip_prefix("!includedir") {
            for included in files_in(&beside(path, dir.trim()), ".cnf")? {
                file(reader, &included, groups, depth + 1)?;
            }
        } else if let Some(included) = line.strip_prefix("!include") {
            file(reader, &beside(path, included.trim()), groups, depth + 1)?;
        } else if group != Group::Other {
            let (name, value) = option(reader, before_comment(line, '#').trim());
            match group {
                Group::OneVersion if reader.wanted(&name).is_some() => {
                    let why = "the group counts only for a server of its version";
                    reader.not_understood(path, n + 1, why);
                }
                Group::OneVersion => {}
                _ => reader.keep(&name, value, path, n + 1),
            }
        }
    }
    Ok(())
}

/// Group of options that a line stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// The server.
    Server,
    /// Servers of one version.
    OneVersion,
    /// Another program.
    Other,
}

impl Group {
    fn of(name: &str, groups: &[&str]) -> Group {
        let version = |g: &&str| {
            let rest = name.strip_prefix(g).and_then(|rest| rest.strip_prefix('-'));
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        match groups.contains(&name) {
            true => Group::Server,
            false if groups.iter().any(version) => Group::OneVersion,
            false => Group::Other,
        }
    }
}

/// Returns name and value of an option. `-` and `_` are the same in names; some prefixes say what the value is.
fn option<'a>(reader: &Reader<'_>, text: &'a str) -> (String, &'a str) {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(unquoted(value))),
        None => (text, None),
    };
    let name = name.trim().replace('-', "_").to_ascii_lowercase();
    let name = name.strip_prefix("loose_").unwrap_or(&name);
    let without = |prefix: &str| {
        let rest = name.strip_prefix(prefix)?;
        reader.wanted(rest)
    };
    match (without("skip_").or(without("disable_")), without("enable_")) {
        (Some(name), _) => (name.to_owned(), "OFF"),
        (_, Some(name)) => (name.to_owned(), "ON"),
        // The value is the name of the files.
        _ if name == "log_bin" => (name.to_owned(), "ON"),
        _ => (name.to_owned(), value.unwrap_or("ON")),
    }
}
