//! The owner's checkpoint callback: it gets the log.

use crate::engine::Engine;
use crate::log::{Handle, Log};
use crate::options::{CheckpointCallback, Options};
use crate::types::CheckpointDue;
use std::sync::Arc;

impl Options {
    /// The function to call when a checkpoint is due: when the last segment that fits under
    /// [`Options::max_log_size`] was prepared, so while about a whole segment is still free, and
    /// again when an append finds no space. It should wake a thread that takes a checkpoint of what
    /// the log holds and [`truncate_front`](Log::truncate_front)s the log to it, at or above
    /// [`CheckpointDue::truncate_to`] if it can. It **must not take a lock that a thread holds across
    /// an append**, as a checkpoint of shared state does: that append may be waiting for the callback.
    ///
    /// It runs in a thread of its own, one call at a time, and may append, commit and truncate. The
    /// log reserves a few KiB for its appends, also if other threads have filled the log. If an
    /// append in it finds no space all the same, it fails with
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) at once, since it would wait for itself. The
    /// callback must not wait for other threads that append, in whatever way. A panic ends the call
    /// and nothing else.
    ///
    /// A clone of the log that it gets does not keep the log open: the log closes when its owner
    /// closes or drops it, which waits for the callback, and then drops it: a channel that it sends
    /// into ends.
    ///
    /// ```
    /// # use logforce_core::{Log, Lsn, Options, Result};
    /// # fn write_checkpoint() -> std::io::Result<Lsn> { Ok(Lsn::ORIGIN) }
    /// # fn example(open: impl FnOnce(Options) -> Result<Log>) -> Result<()> {
    /// let (wake, due) = std::sync::mpsc::sync_channel(1);
    /// let options = Options::new().max_log_size(1 << 30);
    /// let log = open(options.on_checkpoint_due(move |_, _| {
    ///     let _ = wake.try_send(()); // full: one is asked for already
    /// }))?;
    /// let checkpointed = log.clone();
    /// std::thread::spawn(move || {
    ///     while due.recv().is_ok() { // until the log is closed
    ///         // Durable when it returns, with all records below `covered` in it.
    ///         match write_checkpoint() {
    ///             Ok(covered) => checkpointed.truncate_front(covered).unwrap_or_else(|e| eprintln!("{e}")),
    ///             Err(e) => eprintln!("no space was made: {e}"),
    ///         }
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_checkpoint_due(
        mut self,
        callback: impl Fn(&Log, CheckpointDue) + Send + Sync + 'static,
    ) -> Self {
        let call = move |engine: Arc<dyn std::any::Any + Send + Sync>, due| {
            if let Ok(engine) = engine.downcast::<Engine>() {
                callback(&Log::borrowed(engine), due);
            }
        };
        self.on_checkpoint_due = Some(CheckpointCallback(Arc::new(call)));
        self
    }

    /// Returns true if a checkpoint callback is set.
    #[doc(hidden)]
    pub fn has_checkpoint_callback(&self) -> bool {
        self.on_checkpoint_due.is_some()
    }
}

impl Log {
    /// A handle that does not close the log when it is dropped.
    fn borrowed(engine: Arc<Engine>) -> Log {
        Log {
            handle: Arc::new(Handle {
                engine,
                closes: false,
            }),
        }
    }
}
