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
            let option = option(reader, before_comment(line, '#').trim());
            match (&group, option) {
                (_, Meaning::Foreign) => {}
                (Group::Other, _) => {}
                (Group::Some(group), _) => {
                    let why = format!("the group [{group}] counts only for some servers");
                    reader.not_understood(path, n + 1, &why);
                }
                (Group::Server, Meaning::Open(why)) => reader.not_understood(path, n + 1, &why),
                (Group::Server, Meaning::Set("log_bin", value)) => {
                    // The value is the beginning of the files' names.
                    let is_off = value.as_deref() == Some("0");
                    let base = value.filter(|v| v != "0" && v != "1");
                    reader.keep("log_bin_basename", base.unwrap_or_default(), path, n + 1);
                    reader.keep("log_bin", if is_off { "OFF" } else { "ON" }, path, n + 1);
                }
                (Group::Server, Meaning::Set(name, value)) => {
                    reader.keep(name, value.as_deref().unwrap_or("ON"), path, n + 1);
                }
            }
        }
    }
    Ok(())
}

/// Group of options that a line stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Group {
    /// The server.
    Server,
    /// Some servers: those of a version, a number or a name. `mysqld_multi`, systemd and
    /// `--defaults-group-suffix` choose them.
    Some(String),
    /// Another program.
    Other,
}

impl Group {
    fn of(name: &str, groups: &[&str]) -> Group {
        let is_of_some = |rest: &str| {
            let digit = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
            match rest.strip_prefix(['-', '_']) {
                // Names such as `mysqld_safe` and `mariadb-dump` are those of programs.
                Some(behind) => digit(behind),
                None => digit(rest) || rest.starts_with(|c: char| c.is_ascii_punctuation()),
            }
        };
        let rest = |g: &&str| name.strip_prefix(g).is_some_and(is_of_some);
        match groups.contains(&name) {
            true => Group::Server,
            false if groups.iter().any(rest) => Group::Some(name.to_owned()),
            false => Group::Other,
        }
    }
}

/// Meaning of a line for the settings that are wanted.
enum Meaning {
    /// It sets one of them, to a value if it has one.
    Set(&'static str, Option<String>),
    /// It may set one of them, for this reason.
    Open(String),
    /// It sets none of them.
    Foreign,
}

/// Prefixes of names, as `my_getopt.c` has them.
const PREFIXES: [&str; 6] = [
    "skip_", "disable_", "enable_", "maximum_", "loose_", "autoset_",
];

/// Options of the server itself whose names begin as those of settings do.
const WHOLE_NAMES: [&str; 2] = ["innodb", "debug"];

/// Returns what an option sets. `-` and `_` are the same in names; a name may be cut short, and some prefixes say
/// what the value is.
fn option(reader: &Reader<'_>, text: &str) -> Meaning {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(unquoted(value))),
        None => (text, None),
    };
    let name = name.trim().replace('-', "_").to_ascii_lowercase();
    let mut core = name.as_str();
    let mut prefixes = Vec::new();
    while let Some(prefix) = PREFIXES.iter().find(|p| core.starts_with(**p)) {
        core = &core[prefix.len()..];
        prefixes.push(prefix.trim_end_matches('_'));
    }
    // The server has no option of this name.
    let is_option = |w: &&&'static str| **w != "log_bin_basename";
    let mut wanted = reader.wanted.iter().filter(is_option);
    let Some(whole) = wanted.clone().find(|w| w.eq_ignore_ascii_case(core)) else {
        let is_short = !core.is_empty() && !WHOLE_NAMES.contains(&core);
        return match wanted.find(|w| is_short && w.starts_with(core)) {
            Some(wanted) => Meaning::Open(format!(
                "{name} may be short for {wanted}: write the whole name"
            )),
            None => Meaning::Foreign,
        };
    };
    let is_zero = value == Some("0");
    let switch = |is_on: bool| Some(if is_on { "1" } else { "0" }.to_owned());
    match prefixes.as_slice() {
        // A path, or the beginning of names, that is not a switch.
        [] | ["loose"] if *whole == "log_bin" => match value {
            Some("0" | "1") => Meaning::Set(whole, None),
            value => Meaning::Set(whole, value.map(str::to_owned)),
        },
        [] | ["loose"] => Meaning::Set(whole, value.map(str::to_owned)),
        ["skip" | "disable"] => Meaning::Set(whole, switch(is_zero)),
        ["enable"] => Meaning::Set(whole, switch(!is_zero)),
        _ => Meaning::Open(format!(
            "the server may not take {name} as {whole}: write {whole} and its value"
        )),
    }
}
