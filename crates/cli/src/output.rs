//! Destinations of output: files, standard output for data, and standard error for other text.

use anyhow::Context;
use logforce_terminal::layout::WIDTH;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A file named on the command line; `-` is standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// A file, replaced if it exists.
    File(PathBuf),
}

impl FromStr for Target {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "-" {
            Target::Stdout
        } else {
            Target::File(PathBuf::from(text))
        })
    }
}

/// An open [`Target`]. It is opened before measuring, so that a wrong name is reported at once.
#[derive(Debug)]
pub enum Sink {
    /// Standard output.
    Stdout,
    /// An existing file.
    File(PathBuf, File),
    /// A file that can be created. It is created when there is something to write, so that an
    /// interrupted run leaves no empty file.
    New(PathBuf),
}

impl Sink {
    /// Opens the target.
    pub fn open(target: &Target) -> anyhow::Result<Sink> {
        match target {
            Target::Stdout => Ok(Sink::Stdout),
            Target::File(path) => {
                // On any other error the file may exist: a device of Windows (`NUL`), or a path that
                // may not be examined.
                let is_new = path
                    .symlink_metadata()
                    .is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
                let refused = |e| cannot_write::with_advice(path, e);
                let failed = || cannot_write::file(path);
                if is_new {
                    probe(path).map_err(refused).with_context(failed)?;
                    return Ok(Sink::New(path.clone()));
                }
                let mut how = File::options();
                // The old contents stay until there is something to replace them.
                let file = how.write(true).create(true).truncate(false).open(path);
                let file = file.map_err(refused).with_context(failed)?;
                Ok(Sink::File(path.clone(), file))
            }
        }
    }

    /// Writes all that `body` writes. If that fails, a new file is removed, because half a result is
    /// useless.
    pub fn fill(self, body: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
        let new = match &self {
            Sink::New(path) => Some(path.clone()),
            _ => None,
        };
        let mut out = self.writer()?;
        let written = body(&mut out).and_then(|()| out.flush());
        // Discards the buffer. Otherwise dropping the writer would try to write it once more.
        let _ = out.out.into_parts();
        if let (Err(_), Some(path)) = (&written, new) {
            let _ = std::fs::remove_file(path);
        }
        Ok(written?)
    }

    /// Returns a writer, and empties an existing file now. The caller must flush it in the end.
    pub fn writer(self) -> anyhow::Result<Writer> {
        let (out, fails): (Box<dyn Write>, _) = match self {
            Sink::Stdout => (
                Box::new(io::stdout()),
                "cannot write to standard output".to_owned(),
            ),
            Sink::New(path) => {
                let fails = cannot_write::file(&path);
                (Box::new(File::create(path).context(fails.clone())?), fails)
            }
            Sink::File(path, file) => {
                let fails = cannot_write::file(&path);
                let is_file = file.metadata().is_ok_and(|m| m.is_file());
                if is_file {
                    file.set_len(0).context(fails.clone())?;
                }
                (Box::new(file), fails)
            }
        };
        Ok(Writer {
            out: BufWriter::with_capacity(64 << 10, out),
            fails,
        })
    }
}

/// Writer to a [`Sink`]. Its errors name the sink.
pub struct Writer {
    out: BufWriter<Box<dyn Write>>,
    fails: String,
}

impl Writer {
    fn named(fails: &str, e: io::Error) -> io::Error {
        io::Error::new(e.kind(), format!("{fails}: {e}"))
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out
            .write(bytes)
            .map_err(|e| Writer::named(&self.fails, e))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|e| Writer::named(&self.fails, e))
    }
}

/// Creates a file, writes a little into it, and removes it. A full disk may still have space for a name.
pub fn probe(path: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    let written = file.write_all(&[b' '; 4096]);
    drop(file);
    std::fs::remove_file(path)?;
    written
}

/// Messages for files and directories that cannot be written.
pub mod cannot_write {
    use std::io::{Error, ErrorKind};
    use std::path::Path;

    /// Returns the message for a file.
    pub fn file(path: &Path) -> String {
        format!("cannot write {}", path.display())
    }

    /// Returns the message for a directory of charts.
    pub fn charts(dir: &Path) -> String {
        format!("cannot write the charts into {}", dir.display())
    }

    /// Adds the remedy to the system's error.
    pub fn with_advice(path: &Path, e: Error) -> Error {
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
        let advice = match e.kind() {
            ErrorKind::NotFound => match parent {
                Some(parent) if !parent.exists() => {
                    format!("create the directory {} first", parent.display())
                }
                _ => "name another path".to_owned(),
            },
            ErrorKind::IsADirectory => "name a file in it".to_owned(),
            ErrorKind::AlreadyExists => {
                "it exists and is not a directory: name a directory, new or existing".to_owned()
            }
            ErrorKind::NotADirectory => "a part of that path is a file: name another".to_owned(),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "name a path that you may write to".to_owned()
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "free space there, or name a path on another disk".to_owned()
            }
            _ => return e,
        };
        Error::new(e.kind(), format!("{e}: {advice}"))
    }
}

/// True after `--quiet`.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses all further output but errors and the requested data.
pub fn be_quiet() {
    IS_QUIET.store(true, Relaxed);
}

/// Returns true if `--quiet` was given.
pub fn is_quiet() -> bool {
    IS_QUIET.load(Relaxed)
}

/// Prints text for a person: to standard output, or to standard error if standard output carries data. Prints
/// nothing if `--quiet` was given.
pub fn print(text: &str, stdout_has_data: bool) -> anyhow::Result<()> {
    if is_quiet() {
        return Ok(());
    }
    if stdout_has_data {
        complain(text.trim_end_matches('\n'));
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Returns a word of a command line, quoted if a shell needs it.
pub fn quoted(word: String) -> String {
    // The shells of Windows use double quotes, and a backslash is part of a path there.
    let unquoted = if cfg!(windows) {
        "-_./,=:+\\"
    } else {
        "-_./,=:+"
    };
    let plain = |c: char| c.is_alphanumeric() || unquoted.contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word
    } else if cfg!(windows) {
        format!("\"{}\"", word.replace('"', "\\\""))
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Prints a line to standard error, unless `--quiet` was given.
pub fn complain(line: &str) {
    if !is_quiet() {
        complain_always(line);
    }
}

/// Returns the width of the terminal that a table goes to, or the default width if it goes elsewhere.
pub fn terminal_width(to_stderr: bool) -> usize {
    let terminal = if to_stderr {
        console::Term::stderr()
    } else {
        console::Term::stdout()
    };
    match terminal
        .is_term()
        .then(|| terminal.size_checked())
        .flatten()
    {
        // A terminal that does not know its size reports 0.
        Some((_, columns)) if columns > 0 => usize::from(columns),
        _ => WIDTH,
    }
}

/// Prints a line to standard error, even with `--quiet`. A failure to write it is ignored.
pub fn complain_always(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
