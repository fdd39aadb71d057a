//! SQLite: the mode of the journal, from the header of the database file.

use super::Answers;
use crate::advise::config::Found;
use anyhow::{Context, bail};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// First bytes of a database.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Offset of the version that a program must know to write the file.
const WRITE_VERSION: usize = 18;

/// Reads the header. The file is neither locked nor changed, as a client would.
pub fn ask(url: &str) -> anyhow::Result<Answers> {
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    let path = Path::new(path.strip_prefix("//").unwrap_or(path));
    let cannot = || format!("cannot read {}", path.display());
    // Opening a pipe would wait for a writer.
    if !path.metadata().with_context(cannot)?.is_file() {
        bail!("cannot read {}: it is not a file", path.display());
    }
    let mut header = Vec::new();
    let file = File::open(path).with_context(cannot)?;
    file.take(100)
        .read_to_end(&mut header)
        .with_context(cannot)?;
    let is_new = header.is_empty();
    if !is_new && !header.starts_with(MAGIC) {
        bail!(
            "cannot read {}: it is not a database of SQLite",
            path.display()
        );
    }
    let mode = match header.get(WRITE_VERSION) {
        Some(2) => "wal",
        Some(1) => "delete",
        None if is_new => "delete",
        _ => bail!(
            "cannot read {}: its header has an unknown version",
            path.display()
        ),
    };
    let mut answers = Answers {
        directory: path.parent().map(|dir| match dir.as_os_str().is_empty() {
            true => Path::new(".").to_owned(),
            false => dir.to_owned(),
        }),
        ..Answers::default()
    };
    answers.configuration.found.push(Found {
        name: "journal_mode",
        value: mode.to_owned(),
        place: format!("the header of {}", path.display()),
    });
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_tells_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let header = |version: u8| {
            let mut bytes = MAGIC.to_vec();
            bytes.resize(100, 0);
            bytes[WRITE_VERSION] = version;
            bytes
        };
        for (bytes, mode) in [
            (header(1), Some("delete")),
            (header(2), Some("wal")),
            (Vec::new(), Some("delete")),
            (header(7), None),
            (b"SQLite format 3\0".to_vec(), None),
            (b"rubbish".to_vec(), None),
        ] {
            std::fs::write(&path, &bytes).unwrap();
            let url = format!("sqlite:{}", path.display());
            let found = ask(&url)
                .ok()
                .and_then(|a| Some(a.configuration.of("journal_mode")?.value.clone()));
            assert_eq!(found.as_deref(), mode);
        }
        let error = format!("{:#}", ask(dir.path().to_str().unwrap()).unwrap_err());
        assert!(error.contains("is not a file"), "{error}");
    }
}
