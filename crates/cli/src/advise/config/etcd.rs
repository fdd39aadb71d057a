//! etcd: its YAML file, and files with its command line or its environment, such as a manifest of Kubernetes,
//! a unit of systemd, or `/etc/default/etcd`.

use super::{Reader, unquoted, yaml};
use std::path::Path;

/// Reads the file in all these forms.
pub fn read(reader: &mut Reader<'_>, path: &Path) -> anyhow::Result<()> {
    let text = reader.text(path)?;
    let foreign = yaml::parse(reader, path, &text);
    let of_yaml = reader.configuration.found.len();
    let variable = |name: &str| format!("ETCD_{}", name.to_ascii_uppercase().replace('-', "_"));
    let names: Vec<(&'static str, String)> = reader
        .wanted
        .iter()
        .map(|name| (*name, variable(name)))
        .collect();
    let separators = [' ', '\t', ',', '"', '\''];
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('#') {
            continue;
        }
        let mut words = line.split(separators).peekable();
        while let Some(word) = words.next() {
            let (flag, mut value) = match word.split_once('=') {
                Some((flag, value)) => (flag, unquoted(value).to_owned()),
                None => (word, String::new()),
            };
            let dashes = flag.strip_prefix("--").or_else(|| flag.strip_prefix('-'));
            let is_flag =
                |(name, variable): &&(&str, String)| dashes == Some(name) || flag == variable;
            let Some((name, variable)) = names.iter().find(is_flag) else {
                continue;
            };
            if flag == variable && !word.contains('=') {
                let why = format!("write it as {flag}=value on one line");
                reader.not_understood(path, n + 1, &why);
                continue;
            }
            // A switch takes its value only behind `=`. `NAME="value"` was split at the quote.
            if value.is_empty() {
                value = match *name {
                    "unsafe-no-fsync" if !word.contains('=') => "true".to_owned(),
                    _ => words.peek().map(|w| (*w).to_owned()).unwrap_or_default(),
                };
            }
            reader.keep(name, value, path, n + 1);
        }
        // The value of a variable in a command line is not known.
        let is_etcd = |word: &&str| *word == "etcd" || word.ends_with("/etcd");
        let mut words = line.split(separators);
        if words.any(|word| is_etcd(&word.rsplit('=').next().unwrap_or(word)))
            && words.any(|word| word.starts_with('$'))
        {
            let why = "a variable of the command line may hold more flags: write them here";
            reader.not_understood(path, n + 1, why);
        }
    }
    let has_flags = reader.configuration.found.len() > of_yaml;
    if let Some(line) = foreign.filter(|_| !has_flags) {
        let why = "it is neither YAML nor a command line or environment with a flag of etcd";
        reader.not_understood(path, line, why);
    }
    Ok(())
}
