//! The list of void ranges: each batch that voids something names the one before.

use crate::error::{Damage, Result};
use crate::scan::batch::Stop;
use crate::scan::end_of_log::damage;
use crate::scan::walk::ground::{Ground, Known};
use crate::storage::window::Window;
use logforce_device::ReadSource;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, Lsn, RecoveryCase, Seen};

/// What the list of voiding batches says, back to the front, or as far as it can be followed.
pub(super) fn list(ground: &Ground<'_>, last: Option<Lsn>) -> Result<Known> {
    let mut known = Known::default();
    let mut at = last.unwrap_or(Lsn::ORIGIN);
    let mut window = Window::new(ReadSource::Cache);
    // The format makes each link lie below the one before it, so this ends.
    // One at or below the front voids only what is gone anyway, and so do those before it.
    while at > ground.control.front {
        known.named.insert(at);
        match link(ground, &mut window, at)? {
            Ok(header) => {
                known.voids.add(header.void_from, header.lsn);
                at = header.last_void;
            }
            Err(lost) => {
                known.unknown = Some(lost);
                break;
            }
        }
    }
    Ok(known)
}

/// The header of the voiding batch at `at`, or what is wrong with it.
pub(super) fn link(
    ground: &Ground<'_>,
    window: &mut Window,
    at: Lsn,
) -> Result<std::result::Result<BatchHeader, Damage>> {
    let Ground {
        dir,
        segments,
        control,
        ..
    } = *ground;
    let lost = |found: String| {
        let seen = Seen::Broken;
        let stop = Stop { at, seen, found };
        Ok(Err(damage(
            dir.path(),
            segments,
            &stop,
            RecoveryCase::Damaged,
            at,
        )))
    };
    let Some(segment) = segments.containing(at) else {
        return lost("a void batch's segment is missing".to_owned());
    };
    let bytes = match window.get(&segment, segment.offset(at), BATCH_HEADER_LEN)? {
        Ok(bytes) => bytes,
        Err(no) => return lost(no.found),
    };
    match BatchHeader::decode(bytes) {
        Ok(h) if h.log_id == control.log_id && h.lsn == at && h.voids() => Ok(Ok(h)),
        Ok(_) => lost("a void batch should be here".to_owned()),
        Err(r) => lost(format!("a void batch should be here: {r}")),
    }
}
