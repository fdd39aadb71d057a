//! Guarantee of an InnoDB commit, with and without the binary log.

use super::Case;
use crate::worth::{SYNCED, documented, elsewhere, forced};
use logforce_device::{Assessment, Facts, FileState, Guarantee, Method};
use logforce_measure::inserts::Policy;

/// Returns the guarantee on the disk of `facts`; `None` for an unknown disk.
pub(super) fn worth(case: Case, facts: Option<&Facts>) -> Option<Assessment> {
    use Guarantee::{Nothing, ProcessCrash};
    let safe = |how: &str| match facts {
        Some(facts) => {
            let method = match case.through {
                Some(true) => Method::DirectDsync,
                _ => Method::Fdatasync,
            };
            // InnoDB fills its logs with zeroes and recycles them.
            forced(facts, method, FileState::Zeroed, how)
        }
        None => Some(elsewhere(how)),
    };
    let weak = |guarantee, why| Some(documented(guarantee, why));
    match (case.policy, case.binlog) {
        (Policy::Force, None) => safe(SYNCED),
        (Policy::Force, Some(1)) => safe(
            "the redo log is forced when a transaction is prepared, the binary log when it commits",
        ),
        (Policy::Force, Some(_)) => weak(
            ProcessCrash,
            "the redo log is forced when a transaction is prepared, but not the binary log when it \
             commits: after a crash of the system, transactions missing from the binary log are rolled back",
        ),
        (Policy::Write, Some(1)) => weak(
            ProcessCrash,
            "the binary log is forced at each commit, the redo log with the row once a second: after a \
                    crash of the system the table may lack rows that the binary log has",
        ),
        (Policy::Write, _) => weak(
            ProcessCrash,
            "the redo log is written at each commit and forced once a second",
        ),
        (Policy::Later, _) => weak(
            Nothing,
            "the redo log is in the server's memory when the commit returns, and written and forced once \
             a second",
        ),
    }
}
