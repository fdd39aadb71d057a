//! The logs to damage: small, and with every structure that a log can have.

use logforce_core::{BatchKind, Options};
use logforce_sim::fixture::{Ending, Fixture};
use logforce_sim::model::small;
use logforce_sim::workload::Step;

/// Returns steps that write a few hundred records in every kind of batch, over several segments, one of them
/// recycled. With `before` first commits, the long run of records begins in the last unit of a segment.
fn steps(before: usize) -> Vec<Step> {
    // These first records are truncated later. Their bytes stay in the recycled file.
    let mut steps = vec![Step::Commit(30), Step::Meta(40)];
    steps.extend((0..before).map(|n| Step::Commit(100 + n)));
    steps.extend([Step::Front(100), Step::Meta(25), Step::Commit(9)]);
    // Records over batches and segments; a unit holds twenty-two of them.
    steps.extend(vec![Step::Append(170); 26]);
    steps.extend([Step::Force, Step::Group(5, 30), Step::CommitGroup(4, 20)]);
    steps.extend(vec![Step::Append(8); 40]);
    steps.extend([Step::Commit(8), Step::Back(3), Step::Idle(5)]);
    steps.extend(vec![Step::Append(3); 60]);
    steps.extend([Step::Force, Step::Reopen, Step::Front(9)]);
    steps.extend(vec![Step::Append(5); 90]);
    steps.extend([Step::Force, Step::Idle(1500)]);
    steps.extend([Step::Append(0), Step::Commit(20)]);
    steps.extend([Step::Group(3, 11), Step::Force, Step::Commit(21)]);
    steps
}

fn options(segment_size: u64) -> Options {
    small().segment_size(segment_size).live_stats(true)
}

/// Returns a log that was closed cleanly: all records are below the anchor and proven.
pub fn closed() -> Fixture {
    checked(Fixture::new(
        "closed log",
        options(16 << 10),
        &steps(8),
        Ending::Closed,
    ))
}

/// Returns a log after a power cut, so that the opening has batches to scan.
pub fn crashed() -> Fixture {
    checked(Fixture::new(
        "crashed log",
        options(32 << 10),
        &steps(10),
        Ending::Cut,
    ))
}

/// Returns a log after a power cut in the middle of a write, of which a part exists. It is small, because the
/// other logs cover all other structures.
pub fn torn() -> Fixture {
    let mut steps = vec![Step::Commit(30), Step::CommitGroup(3, 40), Step::Append(9)];
    steps.extend([Step::Commit(700), Step::Back(1), Step::Commit(60)]);
    steps.push(Step::Commit(61));
    let fixture = Fixture::new("torn log", options(16 << 10), &steps, Ending::Torn(900));
    assert!(fixture.batches.len() >= 6);
    fixture
}

fn checked(fixture: Fixture) -> Fixture {
    let kinds = [
        BatchKind::Data,
        BatchKind::Stamp,
        BatchKind::Epoch,
        BatchKind::Void,
    ];
    for kind in kinds {
        assert!(fixture.batches.iter().any(|b| b.kind == kind), "{kind:?}");
    }
    assert!(fixture.live.len() >= 200);
    let spans = |end| {
        fixture
            .live
            .iter()
            .any(|(lsn, k)| *lsn < end && k.end > end)
    };
    assert!(
        fixture.batches.iter().any(|b| spans(b.end)),
        "records span batches"
    );
    let segments = &fixture.look.summary.segments;
    let ends = segments.iter().map(|s| s.start.plus(s.len));
    assert!(ends.into_iter().any(spans), "records span segments");
    assert!(fixture.look.summary.segments.len() >= 3);
    assert!(fixture.model.meta.is_some());
    fixture
}
