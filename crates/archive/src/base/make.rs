//! Making of a base copy.

use crate::archive::{Archive, runtime};
use crate::bucket::{Bucket, blocking, panicked};
use crate::copier::Progress;
use crate::error::{Error, Result};
use crate::format::{PEEK_LEN, random_nonce};
use crate::key::{BaseId, Key};
use crate::object::{Base, Object, PAGE_HEADER_LEN, Part};
use crate::owner::{newest_chunk, start};
use crate::protocol;
use crate::store::Answer;
use bytes::Bytes;
use logforce::pages::base::{BaseReader, read};
use logforce::replica::{LogState, read_only};
use logforce::{ErrorKind, Lsn};
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinSet;

/// Size of a part, in bytes of the page file.
const PART: usize = 8 << 20;
/// Parts that are put at once.
const WINDOW: usize = 4;
/// Interval at which the archive's end is read.
const POLL: Duration = Duration::from_millis(200);
/// Pause after an answer that contradicts itself.
const PAUSE: Duration = Duration::from_millis(50);

impl Archive {
    /// Adds a base copy of the logged page file in `path`, while this process or another one writes it. With
    /// it and the log, the page file can be restored to any position from [`Base::end`] on.
    ///
    /// The page file's log must be archived meanwhile, and before: by [`Archive::attach_page_file`], or by
    /// [`Archive::attach_directory`] with the directory `log` in it. The copy becomes visible once the
    /// archive has the log up to its end; that is waited for until `stop` returns true. The progress counts
    /// bytes.
    ///
    /// # Errors
    /// [`Error::Pages`] if the page file is damaged, or commits by copy-on-write; [`Error::State`] if the
    /// archive is another log's; [`Error::Log`] if it contains another history of that log;
    /// [`Error::Invalid`] if it was stopped. What was put is invisible then, and removed by
    /// [`Archive::prune`] a day later.
    pub fn base(
        &self,
        path: &Path,
        stop: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Base> {
        runtime()?.block_on(async {
            let bucket = self.existing().await?;
            let from = path.to_owned();
            let reader = blocking(move || read(from)).await??;
            let start = check(&bucket, &reader).await?;
            let first_segment = reader.first_segment();
            if first_segment < start {
                return Err(protocol::Error::Pruned {
                    wanted: first_segment,
                    start,
                }
                .into());
            }
            let id = BaseId {
                lsn: reader.redo_from(),
                random: random_nonce()?.0 as u64,
            };
            let mut header = [0; PAGE_HEADER_LEN];
            header.copy_from_slice(&reader.header().encode()[..PAGE_HEADER_LEN]);
            let (reader, parts, bytes) = put_parts(&bucket, reader, id, stop, progress).await?;
            let end = blocking(move || reader.finish()).await??;
            // A log that begins at the archive's end has no chunk.
            let least = end.max(first_segment.plus(1));
            wait_until_archived(&bucket, &path.join("log"), least, stop).await?;
            let base = Base {
                id,
                first_segment,
                end,
                parts,
                bytes,
                time: bucket.now(),
                header,
            };
            finish(&bucket, &base).await?;
            Ok(base)
        })
    }
}

/// Checks that the archive is of the log. Returns where it begins.
async fn check(bucket: &Bucket, reader: &BaseReader) -> Result<Lsn> {
    let Some(identity) = bucket.identity() else {
        return Err(protocol::Error::NoArchive.into());
    };
    let (archive, local) = (identity.log_id, reader.log_id());
    if archive != local {
        return Err(protocol::Error::OtherLog { archive, local }.into());
    }
    start(bucket).await
}

/// Puts all parts. Returns their number, and the bytes in them.
async fn put_parts(
    bucket: &Bucket,
    mut reader: BaseReader,
    id: BaseId,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<(BaseReader, u64, u64)> {
    let (mut parts, mut bytes) = (0, 0);
    let mut open: JoinSet<Result<()>> = JoinSet::new();
    loop {
        let (back, part) = blocking(move || {
            let part = reader.part(PART);
            (reader, part)
        })
        .await?;
        reader = back;
        let Some(part) = part? else { break };
        bytes += part.len() as u64;
        let object = Part {
            base: id,
            number: parts,
            time: bucket.now(),
        };
        parts += 1;
        progress(Progress {
            from: Lsn(0),
            at: Lsn(bytes),
            goal: Lsn(bytes.saturating_add(reader.left())),
        });
        let bucket = bucket.clone();
        open.spawn(async move { put_part(&bucket, object, part).await });
        while open.len() >= WINDOW
            && let Some(put) = open.join_next().await
        {
            put.map_err(panicked)??;
        }
        check_stop(stop)?;
    }
    while let Some(put) = open.join_next().await {
        put.map_err(panicked)??;
    }
    Ok((reader, parts, bytes))
}

async fn put_part(bucket: &Bucket, object: Part, part: Vec<u8>) -> Result<()> {
    let mut encoder = bucket.codec()?.encoder();
    let key = Object::Part(object).key();
    let bytes = blocking(move || encoder.encode_part(object, &part)).await?;
    create(bucket, &key, bytes.map_err(|reject| reject.of(&key))?).await
}

/// Creates an object at a name that only this copy uses.
async fn create(bucket: &Bucket, key: &Key, bytes: Bytes) -> Result<()> {
    loop {
        let put = || bucket.store().create(key, bytes.clone());
        if bucket.try_until_known(&key.to_string(), put).await? == Answer::Done(()) {
            return Ok(());
        }
        // It is there from an earlier try, or a store under load answers so without any object.
        if let Some(there) = bucket.read(key, Some(PEEK_LEN)).await? {
            let object = bucket.codec()?.peek(key, there);
            return object.map(drop).map_err(|reject| reject.of(key).into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn check_stop(stop: &dyn Fn() -> bool) -> Result<()> {
    match stop() {
        false => Ok(()),
        true => Err(Error::Invalid("the base copy was stopped".to_owned())),
    }
}

/// Waits until the archive has the log up to `end`, and checks that it is this log. Otherwise a machine that
/// was deposed would add a copy with commits that the archive does not have.
async fn wait_until_archived(
    bucket: &Bucket,
    log: &Path,
    end: Lsn,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    loop {
        let control = newest_chunk(bucket).await?.map(|stored| stored.control);
        let archived = control.as_ref().map(|control| LogState::decode(control));
        let archived = archived.transpose()?.map(|state| state.end);
        if let Some(control) = control.filter(|_| archived >= Some(end)) {
            let log = log.to_owned();
            let compared = blocking(move || read_only(log, None)?.go_on_after(&control)).await?;
            match compared {
                // The log has moved on, since a later chunk is in the archive.
                Err(error) if error.kind() == ErrorKind::Truncated => {}
                compared => return Ok(compared?),
            }
        }
        if stop() {
            let at = archived.map_or("is empty".to_owned(), |at| format!("ends at LSN {at}"));
            return Err(Error::Invalid(format!(
                "the base copy needs the log up to LSN {end}, and the archive {at}: the log must be archived \
                 meanwhile, by `logforce archive run`"
            )));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Makes the copy visible.
async fn finish(bucket: &Bucket, base: &Base) -> Result<()> {
    // A prune that took it for abandoned, because it had waited for days, would leave a copy with holes.
    let prefix = format!("d/{}/", base.id);
    let parts = bucket.list(&prefix, None, |key| matches!(key, Key::Part { .. }));
    if parts.await?.len() as u64 != base.parts {
        return Err(Error::Invalid(
            "parts of the base copy were pruned while it waited for the log: make it again"
                .to_owned(),
        ));
    }
    let object = Object::Base(*base);
    let key = object.key();
    let bytes = bucket.codec()?.encode(&object);
    create(bucket, &key, bytes.map_err(|reject| reject.of(&key))?).await?;
    let start = start(bucket).await?;
    if base.first_segment < start {
        let delete = || bucket.store().delete(&key);
        bucket.try_until_known(&key.to_string(), delete).await?;
        let wanted = base.first_segment;
        return Err(protocol::Error::Pruned { wanted, start }.into());
    }
    Ok(())
}
