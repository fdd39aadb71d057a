//! `my.cnf`, its `!include` and `!includedir`.

use super::{Reader, before_comment, beside, files_in, unquoted};
use std::path::Path;

/// Groups that a server reads. A name that ends with `-` stands for those of all versions.
pub const MYSQL: &[&str] = &["mysqld", "server", "mysqld-"];
/// Groups that a server of MariaDB reads.
pub const MARIADB: &[&str] = &[
    "mysqld",
    "server",
    "mysqld-",
    "mariadb",
    "mariadb-",
    "mariadbd",
    "mariadbd-",
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
    let mut is_read = false;
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.split(']').next().unwrap_or(name).trim();
            is_read = groups.iter().any(|g| match g.ends_with('-') {
                true => name.starts_with(g),
                false => name == *g,
            });
        } else if let Some(dir) = line.strip_prefix("!includedir") {
            for included in files_in(&beside(path, dir.trim()), ".cnf")? {
                file(reader, &included, groups, depth + 1)?;
            }
        } else if let Some(included) = line.strip_prefix("!include") {
            file(reader, &beside(path, included.trim()), groups, depth + 1)?;
        } else if is_read {
            option(reader, path, n + 1, before_comment(line, '#').trim());
        }
    }
    Ok(())
}

/// Keeps an option. `-` and `_` are the same in names; some prefixes say what the value is.
fn option(reader: &mut Reader<'_>, path: &Path, line: usize, text: &str) {
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
    let (name, value) = match (without("skip_").or(without("disable_")), without("enable_")) {
        (Some(name), _) => (name, "OFF"),
        (_, Some(name)) => (name, "ON"),
        // The value is the name of the files.
        _ if name == "log_bin" => (name, "ON"),
        _ => (name, value.unwrap_or("ON")),
    };
    reader.keep(name, value, path, line);
}
