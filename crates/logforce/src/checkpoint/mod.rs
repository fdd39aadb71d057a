//! Checkpoint files: your state, with the LSN up to which it contains the log.
//!
//! [`write`](write()) replaces the file atomically: a crash at any moment leaves the complete previous file
//! or the complete new one. [`read`](read()) distinguishes a missing checkpoint from a damaged one.
//! `docs/format.md` describes the bytes.
//!
//! ```
//! # use logforce::{Guarantee, Options, checkpoint};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir_in(".")?;
//! # let options = Options::new().require(Guarantee::ProcessCrash);
//! # let log = logforce::create_new(home.path().join("log"), options)?;
//! let file = home.path().join("checkpoint");
//! let applied = log.commit(b"one coffee")?.end; // durable, as every record in a checkpoint must be
//! checkpoint::write(&file, applied, b"coffees: 1")?;
//! log.truncate_front(applied)?;
//!
//! let found = checkpoint::read(&file)?.ok_or("no checkpoint")?;
//! assert_eq!((found.lsn, found.state), (applied, b"coffees: 1".to_vec()));
//! # Ok(())
//! # }
//! ```

mod bytes;
#[cfg(test)]
mod tests;

use crate::Lsn;
use bytes::{HEADER, Header, checksum};
use logforce_device::{Directory, File, OpenFile, ReadSource, System};
use logforce_device_os::OsSystem;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of bytes that one call reads.
const CHUNK: usize = 1 << 20;

/// A checkpoint that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// End of the last record that the state contains: replay begins here.
    pub lsn: Lsn,
    /// The state.
    pub state: Vec<u8>,
}

/// An error of this module.
#[derive(Clone)]
#[non_exhaustive]
pub enum Error {
    /// A call of the operating system failed. The previous checkpoint is still in place. If only the sync of
    /// the directory failed, the new one is in place.
    Io(crate::Error),
    /// The file is not a whole checkpoint.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A newer version of Logforce has written the file.
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Format version of the file.
        version: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => error.fmt(f),
            Error::Damaged { path, why } => write!(
                f,
                "the checkpoint {} is damaged: {why}. Restore it from a backup, together with the log",
                path.display()
            ),
            Error::NewerFormat { path, version } => write!(
                f,
                "the checkpoint {} has format version {version}, but this program reads at most version {}: \
                 use a newer version of the program",
                path.display(),
                bytes::VERSION
            ),
        }
    }
}

/// Prints the message, because `main() -> Result<(), Error>` prints errors by `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// Writes the checkpoint `path` and replaces the previous one. It is durable when this returns. Only then may
/// the log be truncated to `lsn`, the end of the last record that `state` holds.
///
/// A crash before the return leaves the previous checkpoint or the new one. It may also leave the file
/// `<path>.new`, which the next call replaces. Calls for the same path must not overlap. Otherwise the older
/// state could replace the newer one.
///
/// # Errors
/// [`Error::Io`] if a call of the system fails.
pub fn write(path: impl AsRef<Path>, lsn: Lsn, state: &[u8]) -> Result<(), Error> {
    write_on(&OsSystem::new(), path.as_ref(), lsn, state)
}

/// Reads the checkpoint `path`. Returns `None` if its directory exists without such a file. Allocates memory
/// for the state only after the checksum was verified.
///
/// # Errors
/// [`Error::Damaged`] if the file is not a whole checkpoint of [`write`](write()); [`Error::NewerFormat`];
/// [`Error::Io`] if a call of the system fails, or the directory is missing.
pub fn read(path: impl AsRef<Path>) -> Result<Option<Checkpoint>, Error> {
    read_on(&OsSystem::new(), path.as_ref())
}

fn failed<'p>(doing: &'static str, path: &'p Path) -> impl Fn(io::Error) -> Error + 'p {
    move |source| {
        Error::Io(crate::Error::Io {
            doing,
            path: path.to_owned(),
            source: Arc::new(source),
        })
    }
}

/// Opens the directory of the file. Returns it with the file's name.
fn located<'p>(system: &dyn System, path: &'p Path) -> io::Result<(Arc<dyn Directory>, &'p str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "not a file name"))?;
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    Ok((system.directory(parent.unwrap_or(Path::new(".")))?, name))
}

fn write_on(system: &dyn System, path: &Path, lsn: Lsn, state: &[u8]) -> Result<(), Error> {
    let header = Header::new(lsn, state).encode();
    let written = located(system, path)
        .and_then(|(dir, name)| logforce_commit::file::replace(&*dir, name, &[&header, state]));
    written.map_err(failed("write the checkpoint", path))
}

fn read_on(system: &dyn System, path: &Path) -> Result<Option<Checkpoint>, Error> {
    let reading = failed("read the checkpoint", path);
    // A missing directory is an error. Otherwise a volume that is not mounted would pass for a missing
    // checkpoint.
    let (dir, name) = located(system, path).map_err(&reading)?;
    let file = match dir.open(name, OpenFile::READ) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(&reading)?,
    };
    let damaged = |why: String| Error::Damaged {
        path: path.to_owned(),
        why,
    };
    let len = file.len().map_err(&reading)?;
    let mut header = [0; HEADER];
    if len < HEADER as u64 || !whole(&*file, 0, &mut header).map_err(&reading)? {
        return Err(damaged(format!("it has {len} bytes, minimum {HEADER}")));
    }
    let header = match Header::decode(&header) {
        Ok(header) => header,
        Err(bytes::Refused::Version(version)) => {
            return Err(Error::NewerFormat {
                path: path.to_owned(),
                version,
            });
        }
        Err(bytes::Refused::Other(why)) => return Err(damaged(why.to_owned())),
    };
    if header.len != len - HEADER as u64 {
        let why = format!(
            "it has {len} bytes, but its header says that the state has {}",
            header.len
        );
        return Err(damaged(why));
    }
    // Reads the state twice: the first pass proves the checksum before memory is allocated, the second
    // verifies the bytes that are returned.
    let mut state = Vec::new();
    for keeps in [false, true] {
        if keeps {
            let len = usize::try_from(header.len).unwrap_or(usize::MAX);
            let space = state.try_reserve_exact(len);
            space.map_err(|e| reading(io::Error::new(ErrorKind::OutOfMemory, e)))?;
        }
        if state_sum(&*file, &header, keeps.then_some(&mut state)).map_err(&reading)?
            != Some(header.sum)
        {
            return Err(damaged("its checksum is wrong".to_owned()));
        }
    }
    Ok(Some(Checkpoint {
        lsn: header.lsn,
        state,
    }))
}

/// Reads the state in pieces, into `state` if given. Returns the checksum, or `None` if the file ends early.
fn state_sum(
    file: &dyn File,
    header: &Header,
    mut state: Option<&mut Vec<u8>>,
) -> io::Result<Option<u32>> {
    let mut sum = checksum(header);
    let mut chunk = vec![0; CHUNK.min(usize::try_from(header.len).unwrap_or(CHUNK))];
    let mut done = 0;
    while done < header.len {
        let now = usize::try_from(header.len - done).map_or(CHUNK, |left| left.min(CHUNK));
        let part = &mut chunk[..now];
        if !whole(file, HEADER as u64 + done, part)? {
            return Ok(None);
        }
        sum = crc32c::crc32c_append(sum, part);
        if let Some(state) = &mut state {
            state.extend_from_slice(part);
        }
        done += now as u64;
    }
    Ok(Some(sum))
}

/// Fills `buf` from `offset`. Returns false if the file ends before.
fn whole(file: &dyn File, offset: u64, buf: &mut [u8]) -> io::Result<bool> {
    let read = file.read_at(offset, buf, ReadSource::Cache)?;
    Ok(read == buf.len())
}
