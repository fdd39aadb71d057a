//! Steps of a thread on a log.

use logforce_core::{MAX_META_LEN, Method, Policy};
use logforce_testkit::Rng;
use std::time::Duration;

/// One step of a thread.
#[derive(Debug, Clone)]
pub enum Step {
    /// Append a record of this many bytes.
    Append(usize),
    /// Append a number of records of a number of bytes each, atomically.
    Group(usize, usize),
    /// Append and force.
    Commit(usize),
    /// Append atomically and force.
    CommitGroup(usize, usize),
    /// Force everything that this thread appended.
    Force,
    /// Truncate at the front, removing this percentage of the appends.
    Front(u64),
    /// Truncate at the back, voiding this many of the last appends.
    Back(usize),
    /// Leave the log idle for this many milliseconds.
    Idle(u64),
    /// Read everything and compare. For one thread only.
    Read,
    /// Close and open again. For one thread only.
    Reopen,
    /// Like `Reopen`, but with another method.
    Switch(Method),
    /// Cut the power.
    Cut,
    /// Drop the log, ignoring the result of its closing, and open it again.
    Drop,
    /// Submit a record of this many bytes under a policy, and keep the handle.
    Submit(usize, Policy),
    /// Wait for all kept handles.
    WaitAll,
    /// Drop all kept handles, in whatever state they are.
    DropHandles,
    /// Commit a record of this many bytes under a policy.
    CommitWith(usize, Policy),
    /// Set the metadata to this many bytes. Only one thread does that.
    Meta(usize),
    /// Follow the log from its front to its durable end, and compare. For one thread only.
    Follow,
}

fn random_policy(rng: &mut Rng) -> Policy {
    let within = Duration::from_micros(rng.pick(&[50, 1_000, 20_000]));
    match rng.below(3) {
        0 => Policy::Force,
        1 => Policy::Write {
            force_within: within,
        },
        _ => Policy::Interval { within },
    }
}

/// Returns random steps, which follow from a seed.
pub fn random_steps(rng: &mut Rng, count: u64, alone: bool) -> Vec<Step> {
    (0..count)
        .map(|_| {
            let len = match rng.below(8) {
                0..=3 => rng.below(300),
                4 | 5 => rng.below(5_000),
                6 => rng.below(12_000),
                _ => rng.below(40_000),
            } as usize;
            let few = 1 + rng.below(4) as usize;
            let policy = random_policy(rng);
            match rng.below(if alone { 38 } else { 31 }) {
                0..=4 => Step::Append(len),
                5 => Step::Group(few, len / few),
                6..=11 => Step::Commit(len),
                12 => Step::CommitGroup(few, len / few),
                13..=15 => Step::Force,
                16 | 17 => Step::Front(rng.below(101)),
                18 => Step::Back(few),
                19..=21 => Step::Idle(rng.below(6)),
                22..=24 => Step::Submit(len, policy),
                25 => Step::WaitAll,
                26 => Step::DropHandles,
                27 | 28 => Step::CommitWith(len, policy),
                29 | 30 => Step::Meta(rng.pick(&[0, 1, 700, 3_333, MAX_META_LEN])),
                31..=33 => Step::Read,
                34 => Step::Follow,
                35 => Step::Reopen,
                36 => Step::Drop,
                _ => Step::Switch(rng.pick(&Method::LINUX)),
            }
        })
        .collect()
}
