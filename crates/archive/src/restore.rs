//! Restoring: from the archive to a directory that is a log again.

use crate::archive::{Archive, runtime};
use crate::base::{self, Needs, is_of_page_file, needs};
use crate::bucket::Bucket;
use crate::copier::{Copier, Progress, run_copy};
use crate::ends::{last_before, segments, stored_log};
use crate::error::{Error, Result};
use crate::format::random_nonce;
use crate::key::{Epoch, Key, is_mark_name};
use crate::level::first_segment;
use crate::object::{Base, Object};
use crate::owner::{claim, first_needed};
use crate::protocol::{self, Reading};
use crate::reader::LogReader;
use logforce::pages::base::BaseWriter;
use logforce::replica::{Import, ImportOptions, import};
use logforce::{BackupReport, Guarantee, Lsn};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Objects that are read at once.
const WINDOW: usize = 8;
/// Interval at which a standby looks for new chunks.
const POLL: Duration = Duration::from_millis(500);

/// End of a restored log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RestoreTo {
    /// Everything that is archived.
    #[default]
    End,
    /// First position at or above this LSN at which the log can end.
    Lsn(Lsn),
    /// Last chunk before the first one that was made later than this time: Unix time in ns. Within segments,
    /// chunks are known to the second.
    Time(u64),
    /// Position of a mark.
    Mark(String),
}

/// Settings of a restore.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    to: RestoreTo,
    require: Guarantee,
}

impl Default for RestoreOptions {
    fn default() -> Self {
        RestoreOptions {
            to: RestoreTo::End,
            require: Guarantee::PowerLoss,
        }
    }
}

impl RestoreOptions {
    /// Returns the defaults: everything that is archived.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the end of the restored log.
    pub fn to(mut self, to: RestoreTo) -> Self {
        self.to = to;
        self
    }

    /// Sets the minimum guarantee that a sync must give in the directory. Default:
    /// [`Guarantee::PowerLoss`].
    pub fn require(mut self, guarantee: Guarantee) -> Self {
        self.require = guarantee;
        self
    }
}

impl Archive {
    /// Makes a log of the archive in the directory `to`, which must be missing or empty, or contain a restore
    /// that was cut short. When this returns, the log is durable, and each of its batches was checked.
    ///
    /// An archive with [base copies](Archive::base) becomes a page file: the newest copy that is old enough,
    /// and the log behind it. The report is that of its log. The progress counts the bytes of the copy first.
    ///
    /// # Errors
    /// [`Error::State`] if the archive has a gap or was pruned beyond the wanted position; [`Error::Object`] if
    /// an object is damaged; [`Error::Log`] if the directory cannot be used, or is full.
    pub fn restore(
        &self,
        to: &Path,
        options: &RestoreOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BackupReport> {
        runtime()?.block_on(async {
            let bucket = self.existing().await?;
            let target = match &options.to {
                RestoreTo::Mark(name) => RestoreTo::Lsn(mark(&bucket, name).await?),
                other => other.clone(),
            };
            let base = match needs(&bucket, &target).await? {
                Needs::Base(base) => Some(base),
                Needs::Nothing => None,
            };
            let (writer, log) =
                restore_base(&bucket, base.as_deref(), to, options.require, progress).await?;
            let mut import = ImportOptions::new().require(options.require);
            let lsn = match target {
                RestoreTo::Lsn(lsn) => Some(lsn),
                _ => None,
            };
            if let Some(lsn) = lsn {
                import = import.until(lsn);
            }
            let mut reading = Reading::new(lsn, WINDOW);
            if let Some(base) = &base {
                import = import.front(base.id.lsn);
                reading = reading.starting_at(base.first_segment);
            } else if let Some(needed) = needed_for(&bucket, &target).await? {
                reading = reading.starting_at(needed);
            }
            let time = match target {
                RestoreTo::Time(time) => Some(time),
                _ => None,
            };
            let reader = LogReader::new(&bucket, reading);
            let import = copy(reader, log, import, time, progress).await?;
            let import = import.ok_or_else(|| nothing(time, lsn))?;
            finish_with(import, base.as_deref(), writer).await
        })
    }

    /// Keeps a copy of the archive in the directory `to` up to date, for a [takeover](Archive::takeover), until
    /// `stop` returns true. The copy is not a log until then. It goes on where an earlier call has ended.
    ///
    /// # Errors
    /// As [`Archive::restore`]; [`Error::Invalid`] for the archive of a page file, which has no standby.
    pub fn follow(
        &self,
        to: &Path,
        require: Guarantee,
        stop: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        runtime()?.block_on(async {
            let bucket = self.existing().await?;
            if is_of_page_file(&bucket).await? {
                return Err(Error::Invalid(
                    "a copy of a page file cannot be kept up to date: call takeover when it is needed, which \
                     restores the newest base copy and the log behind it"
                        .to_owned(),
                ));
            }
            let options = ImportOptions::new().require(require).resume(true);
            let (mut import, mut next) = (None, None);
            while !stop() {
                let begun = begin_import(import, to, &options).await?;
                let (copied, grown) =
                    catch_up(&bucket, to, &options, begun, None, &mut next, progress).await?;
                import = Some(copied);
                if !grown {
                    tokio::time::sleep(POLL).await;
                }
            }
            Ok(())
        })
    }

    /// Takes the log over: claims the archive, so that its owner can confirm nothing more, and makes a log of
    /// it in the directory `to`, which may have a copy that [`Archive::follow`] has left. Open that log, and
    /// attach this archive to it. The archive of a page file becomes a page file, as by [`Archive::restore`].
    ///
    /// # Errors
    /// As [`Archive::restore`]. After an error the archive may be claimed already: call it again.
    pub fn takeover(
        &self,
        to: &Path,
        owner: &str,
        require: Guarantee,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Epoch, BackupReport)> {
        runtime()?.block_on(async {
            let bucket = self.existing().await?;
            let opening = random_nonce()?.0 as u64;
            let mut options = ImportOptions::new()
                .require(require)
                .resume(true)
                .opening(opening);
            let base = match needs(&bucket, &RestoreTo::End).await? {
                Needs::Base(base) => Some(base),
                Needs::Nothing => None,
            };
            let base = base.as_deref();
            let (writer, to) = restore_base(&bucket, base, to, require, progress).await?;
            let from = base.map(|base| base.first_segment);
            if let Some(base) = base {
                options = options.front(base.id.lsn);
            }
            // The directory is examined first: a full disk must not cost the owner its archive.
            let begun = begin_import(None, &to, &options).await?;
            let mut next = None;
            let (import, _) =
                catch_up(&bucket, &to, &options, begun, from, &mut next, progress).await?;
            let claimed = claim(&bucket, owner.to_owned(), opening, None).await?;
            let (import, _) =
                catch_up(&bucket, &to, &options, import, from, &mut next, progress).await?;
            if import.position() != Some(claimed.first) {
                return Err(Error::Invalid(format!(
                    "the archive was claimed at LSN {}, and the copy ends at LSN {}: call it again",
                    claimed.first,
                    import.position().unwrap_or_default()
                )));
            }
            Ok((claimed.epoch, finish_with(import, base, writer).await?))
        })
    }
}

/// Returns the start of the first segment that the log needs which ends there, or a position below. `None` if the
/// whole archive may be needed.
async fn needed_for(bucket: &Bucket, to: &RestoreTo) -> Result<Option<Lsn>> {
    let before = match to {
        RestoreTo::Lsn(lsn) => {
            let all = segments(bucket).await?.into_iter();
            all.take_while(|(_, to, _)| to <= lsn).last()
        }
        RestoreTo::Time(time) => last_before(bucket, *time).await?,
        _ => return first_needed(bucket).await,
    };
    let Some((_, end, key)) = before else {
        return Ok(None);
    };
    let needed = first_segment(&stored_log(bucket, &key).await?.control)?;
    // The log gets the front of the last part that is read as a whole. The part before has to be read, so that there
    // is one.
    Ok(Some(needed).filter(|needed| *needed < end))
}

/// Restores a base copy, if there is one. Returns the directory of the log.
async fn restore_base(
    bucket: &Bucket,
    base: Option<&Base>,
    to: &Path,
    require: Guarantee,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Option<BaseWriter>, PathBuf)> {
    let Some(base) = base else {
        return Ok((None, to.to_owned()));
    };
    let writer = base::begin(bucket, base, to, require, progress).await?;
    let log = writer.log_path()?;
    Ok((Some(writer), log))
}

/// Completes the log, and the page file that it belongs to.
async fn finish_with(
    import: Import<'static>,
    base: Option<&Base>,
    writer: Option<BaseWriter>,
) -> Result<BackupReport> {
    let report = blocking_finish(import).await?;
    match (base, writer) {
        (Some(base), Some(writer)) => base::finish(base, writer, report).await,
        _ => Ok(report),
    }
}

fn nothing(time: Option<u64>, lsn: Option<Lsn>) -> Error {
    Error::Invalid(match (time, lsn) {
        (Some(_), _) => "the archive has nothing that is older: choose a later time".to_owned(),
        (_, Some(lsn)) => format!(
            "the archive has nothing below LSN {lsn}: `logforce archive list` shows what can be restored"
        ),
        _ => "the archive is empty: nothing was archived yet".to_owned(),
    })
}

/// Returns the position of a mark.
async fn mark(bucket: &Bucket, name: &str) -> Result<Lsn> {
    let none = || {
        Error::Invalid(format!(
            "the archive has no mark '{name}': `logforce archive list` shows all"
        ))
    };
    if !is_mark_name(name) {
        return Err(none());
    }
    let key = Key::Mark(name.to_owned());
    let bytes = bucket.read(&key, None).await?.ok_or_else(none)?;
    let object = bucket.codec()?.peek(&key, bytes);
    match object.map_err(|reject| reject.of(&key))? {
        Object::Mark(mark) => Ok(mark.lsn),
        _ => Err(none()),
    }
}

async fn begin_import(
    import: Option<Import<'static>>,
    to: &Path,
    options: &ImportOptions,
) -> Result<Import<'static>> {
    match import {
        Some(import) => Ok(import),
        None => Ok(self::import(to, options.clone())?),
    }
}

async fn blocking_finish(import: Import<'static>) -> Result<BackupReport> {
    let finished = crate::bucket::blocking(move || import.finish()).await?;
    finished.map_err(|error| match error {
        logforce::Error::BeyondEnd { lsn, end } => Error::Invalid(format!(
            "the archive ends at LSN {end}, below LSN {lsn}: choose an end up to there"
        )),
        logforce::Error::Truncated { lsn, front } => Error::Invalid(format!(
            "no log that ends there can be restored: it needs LSN {lsn}, and what the archive still has of it begins \
             at LSN {front}. Choose a later end: `logforce archive list` shows the lowest one"
        )),
        error => error.into(),
    })
}

/// Copies what the archive has beyond the copy, and makes it durable. A new copy begins at `from`, or with what
/// the newest state needs. `next` is the place behind the copy, if it is known. Returns true if there was more.
async fn catch_up(
    bucket: &Bucket,
    to: &Path,
    options: &ImportOptions,
    import: Import<'static>,
    from: Option<Lsn>,
    next: &mut Option<(Epoch, protocol::Base)>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Import<'static>, bool)> {
    let before = import.position();
    let from = match before.or(from) {
        Some(from) => from,
        None => first_needed(bucket).await?.unwrap_or_default(),
    };
    let reading = Reading::new(None, WINDOW).starting_at(from);
    let reading = reading.behind(next.filter(|_| before.is_some()));
    let mut reader = LogReader::new(bucket, reading);
    let copier = Copier {
        to: to.to_owned(),
        options: options.clone(),
        import: Some(import),
        time: None,
    };
    let copied = run_copy(&mut reader, copier, progress).await?;
    *next = reader.next_place();
    let mut import = match copied {
        Some(import) => import,
        None => self::import(to, options.clone())?,
    };
    let grown = import.position() != before;
    if grown {
        import = crate::bucket::blocking(move || import.checkpoint().map(|()| import)).await??;
    }
    Ok((import, grown))
}

async fn copy(
    mut reader: LogReader,
    to: PathBuf,
    options: ImportOptions,
    time: Option<u64>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Import<'static>>> {
    // Examined before anything is read: the directory may be unusable.
    let import = Some(import(&to, options.clone())?);
    let copier = Copier {
        to,
        options,
        import,
        time,
    };
    run_copy(&mut reader, copier, progress).await
}
