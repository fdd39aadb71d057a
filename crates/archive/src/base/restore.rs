//! Restoring of a base copy, before the log that continues it.

use crate::bucket::{Bucket, blocking, panicked};
use crate::copier::Progress;
use crate::error::{Error, Result};
use crate::format::{ObjectError, Reject};
use crate::key::Key;
use crate::object::{Base, PAGE_HEADER_LEN};
use bytes::Bytes;
use logforce::pages::base::{BaseWriter, PageFileHeader, write};
use logforce::pages::inspect::PageFileKind;
use logforce::pages::{Error as PageError, ErrorKind as PageErrorKind};
use logforce::{BackupReport, Guarantee, Lsn};
use std::collections::VecDeque;
use std::path::Path;
use tokio::task::JoinHandle;

/// Parts that are read at once.
const WINDOW: usize = 4;
/// Length of a slot of a page file's header, in bytes.
const SLOT_LEN: usize = 4096;

/// Begins a page file in the directory `to`, and writes all parts. Its log comes next.
pub(crate) async fn begin(
    bucket: &Bucket,
    base: &Base,
    to: &Path,
    require: Guarantee,
    progress: &mut dyn FnMut(Progress),
) -> Result<BaseWriter> {
    let header = header_of(bucket, base).map_err(|reject| reject.of(&Key::Base(base.id)))?;
    let to = to.to_owned();
    let mut writer = blocking(move || write(to, header, require)).await??;
    let mut open: VecDeque<JoinHandle<Result<Bytes>>> = VecDeque::new();
    let mut next = 0;
    let mut done = 0;
    loop {
        while open.len() < WINDOW && next < base.parts {
            let (bucket, base, number) = (bucket.clone(), base.id, next);
            let key = Key::Part { base, number };
            open.push_back(tokio::spawn(async move { read_part(&bucket, &key).await }));
            next += 1;
        }
        let Some(first) = open.pop_front() else {
            return Ok(writer);
        };
        let number = next - 1 - open.len() as u64;
        let body = first.await.map_err(panicked)??;
        done += body.len() as u64;
        let (back, written) = blocking(move || {
            let written = writer.part(&body);
            (writer, written)
        })
        .await?;
        writer = back;
        written.map_err(|error| part_error(error, base, number))?;
        progress(Progress {
            from: Lsn(0),
            at: Lsn(done),
            goal: Lsn(base.bytes.max(done)),
        });
    }
}

/// Completes the page file. Its log is complete.
pub(crate) async fn finish(
    base: &Base,
    writer: BaseWriter,
    report: BackupReport,
) -> Result<BackupReport> {
    if report.end < base.end {
        return Err(Error::Invalid(format!(
            "the log ends at LSN {}, and the base copy stands for LSN {}: choose a later end",
            report.end, base.end
        )));
    }
    blocking(move || writer.finish()).await??;
    Ok(report)
}

fn header_of(bucket: &Bucket, base: &Base) -> std::result::Result<PageFileHeader, Reject> {
    let mut slot = [0; SLOT_LEN];
    slot[..PAGE_HEADER_LEN].copy_from_slice(&base.header);
    let header = PageFileHeader::decode(&slot).map_err(|_| Reject::Payload)?;
    let log_id = bucket.identity().map(|identity| identity.log_id);
    match header.kind {
        PageFileKind::Logged(state)
            if Some(state.log_id) == log_id
                && state.redo_from == base.id.lsn
                && base.first_segment <= base.id.lsn =>
        {
            Ok(header)
        }
        _ => Err(Reject::Contradiction),
    }
}

/// Returns the error of a part that does not continue the copy.
fn part_error(error: PageError, base: &Base, number: u64) -> Error {
    let base = base.id;
    match error.kind() {
        PageErrorKind::Damaged => Reject::Payload.of(&Key::Part { base, number }).into(),
        _ => error.into(),
    }
}

/// Reads one part.
pub(super) async fn read_part(bucket: &Bucket, key: &Key) -> Result<Bytes> {
    let Some(bytes) = bucket.read(key, None).await? else {
        return Err(Reject::Missing.of(key).into());
    };
    let (codec, name) = (bucket.codec()?.clone(), key.clone());
    let decoded = blocking(move || codec.decode_part(&name, bytes)).await?;
    let (_, body) = decoded.map_err(|reject| -> ObjectError { reject.of(key) })?;
    Ok(body)
}
