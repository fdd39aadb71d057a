//! Opening of an archive for writing: claims the next epoch, finds the end of what is there, and uploads.

use crate::archive::{Archive, runtime};
use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::format::Identity;
use crate::key::Epoch;
use crate::owner::{check_owner, claim, last_chunk, newest_chunk, newest_owner};
use crate::protocol::{Claimed, Local};
use crate::source::Source;
use crate::status::{Shared, Status};
use crate::upload::{Settings, Upload};
use logforce::Log;
use logforce::pages::PageFile;
use logforce::replica::{AtHoldLimit, LogState, ReplicaOptions};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// Settings of an archive that is being written.
#[derive(Debug, Clone)]
pub struct AttachOptions {
    owner: String,
    is_synchronous: bool,
    limit: u64,
    at_limit: AtHoldLimit,
    settings: Settings,
}

impl Default for AttachOptions {
    fn default() -> Self {
        AttachOptions {
            owner: format!("process {}", std::process::id()),
            is_synchronous: false,
            limit: u64::MAX,
            at_limit: AtHoldLimit::RefuseAppends,
            settings: Settings {
                window: 8,
                chunk_size: 8 << 20,
                delay: Duration::from_secs(1),
                segment_size: 32 << 20,
            },
        }
    }
}

impl AttachOptions {
    /// Returns the defaults: an asynchronous archive that is at most about a second behind.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of this machine, for people who read the archive.
    pub fn owner(mut self, name: impl Into<String>) -> Self {
        self.owner = name.into();
        self
    }

    /// Puts each commit at once, for commits by [`Policy::Replicated`](logforce::Policy::Replicated). Refused
    /// on a store that does not create an object only once.
    pub fn synchronous(mut self) -> Self {
        self.is_synchronous = true;
        self.settings.delay = Duration::ZERO;
        self
    }

    /// Sets the time for which a commit waits for others before it is put, if less than a chunk waits: the
    /// most that is lost with the machine while the store answers. Default: 1 s.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.settings.delay = delay;
        self
    }

    /// Sets the number of chunks that are put at once. Default: 8.
    pub fn window(mut self, puts: usize) -> Self {
        self.settings.window = puts.clamp(1, 256);
        self
    }

    /// Sets the size of a chunk in bytes of log, 64 KiB to 64 MiB. Default: 8 MiB.
    pub fn chunk_size(mut self, bytes: u64) -> Self {
        self.settings.chunk_size = bytes.clamp(64 << 10, 64 << 20);
        self
    }

    /// Sets the size of the segments that replace small chunks, in bytes of log, 1 to 128 MiB. Up to five times
    /// as much is kept in memory; beyond that, chunks wait for the segments. The store copies chunks of at
    /// least an eighth of it. Default: 32 MiB.
    pub fn segment_size(mut self, bytes: u64) -> Self {
        self.settings.segment_size = bytes.clamp(1 << 20, 128 << 20);
        self
    }

    /// Sets how much the log keeps for the archive, and the choice when it is more: see
    /// [`ReplicaOptions::limit`]. Default: everything.
    pub fn limit(mut self, bytes: u64, at_limit: AtHoldLimit) -> Self {
        (self.limit, self.at_limit) = (bytes, at_limit);
        self
    }
}

/// An archive that is being written. Dropping it ends the archive as [`Attached::close`] does, without its
/// error.
#[derive(Debug)]
pub struct Attached {
    shared: Arc<Shared>,
    stop: Option<watch::Sender<bool>>,
    thread: Option<JoinHandle<Result<()>>>,
    epoch: Epoch,
}

impl Attached {
    /// Returns the state of the upload.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Returns the epoch of this opening: the number of openings of the archive before it.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Archives everything that is durable, and ends the archive. Close the log first, or stop committing:
    /// otherwise commits by `Replicated` fail from then on. Beside another process's open log, waits up to 12 s
    /// until that log proves its last commit durable. One that guarantees less than `PowerLoss` does so when it is
    /// closed.
    ///
    /// # Errors
    /// The failure that ended the archive before. [`Error::is_deposed`] if another machine has taken over.
    pub fn close(mut self) -> Result<()> {
        self.end()
    }

    /// Ends the archive as [`Attached::close`] does, and calls `progress` at once and every 100 ms meanwhile.
    /// Returns the last state.
    ///
    /// # Errors
    /// As [`Attached::close`].
    pub fn close_with(mut self, progress: &mut dyn FnMut(&Status)) -> Result<Status> {
        self.stop();
        progress(&self.status());
        while self.thread.as_ref().is_some_and(|t| !t.is_finished()) {
            std::thread::sleep(Duration::from_millis(100));
            progress(&self.status());
        }
        self.end()?;
        Ok(self.status())
    }

    fn stop(&self) {
        if let Some(stop) = &self.stop {
            let _ = stop.send(true);
        }
    }

    fn end(&mut self) -> Result<()> {
        self.stop();
        let ended = match self.thread.take() {
            Some(thread) => thread.join().unwrap_or_else(|_| {
                Err(Error::Invalid(
                    "the thread of the archive panicked".to_owned(),
                ))
            }),
            None => Ok(()),
        };
        self.stop = None;
        ended
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Archive {
    /// Archives an open log from now on: claims the archive, creates it if it is new, and uploads in a thread.
    /// Returns when the archive is this log's.
    ///
    /// # Errors
    /// [`Error::State`] if another machine owns the archive, or it is another log's; [`Error::Store`] if the
    /// store refuses, or does not answer for a minute; [`Error::Log`] if the log does not contain what the
    /// archive has.
    pub fn attach(&self, log: &Log, options: AttachOptions) -> Result<Attached> {
        let replica = ReplicaOptions::new().limit(options.limit, options.at_limit);
        let replication = log.replicate(replica)?;
        self.start(Source::Open(Box::new(replication)), options)
    }

    /// Archives the log of an open page file, as [`Archive::attach`] does. Commits by
    /// [`Policy::Replicated`](logforce::Policy::Replicated) wait for it. Nothing can be restored before the
    /// archive has a [base copy](Archive::base).
    ///
    /// # Errors
    /// As [`Archive::attach`]; [`Error::Pages`] for a file that commits by copy-on-write, which has no log.
    pub fn attach_page_file(&self, file: &PageFile, options: AttachOptions) -> Result<Attached> {
        let replica = ReplicaOptions::new().limit(options.limit, options.at_limit);
        let replication = file.replicate(replica)?;
        self.start(Source::Open(Box::new(replication)), options)
    }

    /// Archives the log in `path` while another process writes it, or none does. Asynchronous: a commit there
    /// does not wait. It holds the log by a file, so that the writer drops nothing that is not archived.
    ///
    /// # Errors
    /// As [`Archive::attach`].
    pub fn attach_directory(&self, path: &Path, options: AttachOptions) -> Result<Attached> {
        if options.is_synchronous {
            return Err(Error::Invalid(
                "an archive beside the log's process cannot be synchronous: attach it in that process"
                    .to_owned(),
            ));
        }
        let replica = logforce::replica::read_only(path, None)?;
        let source = Source::files(replica, options.limit, options.at_limit);
        self.start(source, options)
    }

    fn start(&self, source: Source, options: AttachOptions) -> Result<Attached> {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = watch::channel(false);
        let (sender, claimed) = mpsc::channel();
        let archive = self.clone();
        let state = shared.clone();
        let thread = std::thread::Builder::new().name("logforce-archive".to_owned());
        let body = move || {
            let result = archive.upload(source, options, &state, stopped, &sender);
            state.ended();
            result
        };
        let thread = thread.spawn(body).map_err(|source| Error::Io {
            doing: "start the thread of the archive",
            source,
        })?;
        let mut attached = Attached {
            shared,
            stop: Some(stop),
            thread: Some(thread),
            epoch: Epoch(0),
        };
        match claimed.recv() {
            Ok(epoch) => {
                attached.epoch = epoch;
                Ok(attached)
            }
            // The thread has ended: its result says why.
            Err(_) => match attached.end() {
                Err(error) => Err(error),
                Ok(()) => Err(Error::Invalid("the archive has ended at once".to_owned())),
            },
        }
    }

    fn upload(
        &self,
        mut source: Source,
        options: AttachOptions,
        shared: &Arc<Shared>,
        stop: watch::Receiver<bool>,
        claimed_to: &mpsc::Sender<Epoch>,
    ) -> Result<()> {
        let runtime = runtime()?;
        runtime.block_on(async {
            let bucket = self.bucket();
            let begun = self.begin(&bucket, &mut source, &options).await;
            let claimed = match begun {
                Ok(claimed) => claimed,
                Err(error) => {
                    source.end(&error);
                    return Err(error);
                }
            };
            shared.note(claimed.first, claimed.first, None);
            let _ = claimed_to.send(claimed.epoch);
            let upload = bucket.for_upload();
            Upload::new(upload, source, claimed, options.settings, shared.clone())?
                .run(stop)
                .await
        })
    }

    /// Claims the archive for the log of `source`, and lets it go on behind what is there.
    async fn begin(
        &self,
        bucket: &Bucket,
        source: &mut Source,
        options: &AttachOptions,
    ) -> Result<Claimed> {
        check_owner(&options.owner)?;
        let probe = bucket.store().probe().await?;
        match options.is_synchronous {
            true => probe.check_synchronous(self.url())?,
            // A deposed owner would overwrite the chunks of its successor.
            false => probe.check(self.url(), "use as an archive")?,
        }
        await_creation(source).await?;
        let log = match bucket.read_identity().await? {
            Some(_) => source.state()?,
            None => source.hold_whole().await?,
        };
        let identity = bucket
            .read_or_create(|key| {
                let (id, start) = (log.log_id, log.first_segment);
                Ok(Identity::new(id, start, bucket.now(), key)?)
            })
            .await?;
        let start = identity.start;
        source.set_archive(identity.id)?;
        check_history(bucket, source, &log).await?;
        let opening = log.openings.first().copied().unwrap_or_default();
        let claimed = claim(
            bucket,
            options.owner.clone(),
            opening,
            Some(Local {
                log: log.log_id,
                front: log.first_segment,
                end: log.end,
                openings: log.openings.clone(),
                forgets_openings: forgets_openings(&log),
            }),
        )
        .await?;
        // Again: puts of the owner before may have landed meanwhile.
        go_on(bucket, source, claimed.epoch.0).await?;
        if source.position() != claimed.first && claimed.first != start {
            return Err(Error::Invalid(format!(
                "the archive ends at LSN {}, and its last chunk at LSN {}: verify it",
                claimed.first,
                source.position()
            )));
        }
        source.hold(claimed.first)?;
        Ok(claimed)
    }
}

/// Openings that the state of a log has at most.
const MAX_OPENINGS: usize = 129;
/// Time that the creation of a log may take.
const CREATION: Duration = Duration::from_secs(30);

/// Returns true if the log may have had more openings than it knows.
fn forgets_openings(log: &LogState) -> bool {
    log.openings.len() >= MAX_OPENINGS
}

/// Waits until the log has been opened. Until then its opening has no number, and an archive that is claimed
/// without one belongs to no opening of this log.
async fn await_creation(source: &mut Source) -> Result<()> {
    let begun = tokio::time::Instant::now();
    while source.state()?.openings.first().is_none_or(|n| *n == 0) {
        if begun.elapsed() > CREATION {
            return Err(Error::Invalid(
                "the log is being created, or its creation was interrupted: open it once, then archive it"
                    .to_owned(),
            ));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Fails if the log went another way than the archive. Otherwise a copy of the log could depose the owner, and
/// fail only then. A log that is shorter is refused by the claim.
async fn check_history(bucket: &Bucket, source: &mut Source, log: &LogState) -> Result<()> {
    let Some(stored) = newest_chunk(bucket).await? else {
        return Ok(());
    };
    if LogState::decode(&stored.control)?.end > log.end {
        return Ok(());
    }
    match source.go_on_after(&stored.control) {
        Err(error @ Error::Log(logforce::Error::Diverged { .. })) => {
            match newest_owner(bucket).await? {
                // The usual reason: this machine was deposed, and has come back.
                Some(hint)
                    if !log.openings.contains(&hint.nonce.opening()) && !forgets_openings(log) =>
                {
                    let (epoch, owner) = (hint.epoch, hint.owner);
                    Err(crate::protocol::Error::Deposed { epoch, owner }.into())
                }
                _ => Err(error),
            }
        }
        checked => checked,
    }
}

/// Lets the source go on behind the newest chunk of the epochs below `end`. Fails if the log does not contain
/// it. Does nothing if there is none.
async fn go_on(bucket: &Bucket, source: &mut Source, end: u64) -> Result<()> {
    match last_chunk(bucket, Epoch(end)).await? {
        Some((_, stored)) => source.go_on_after(&stored.control),
        None => Ok(()),
    }
}
