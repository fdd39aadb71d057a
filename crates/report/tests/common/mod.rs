//! Results of real runs, unchanged.
#![allow(dead_code)]

use logforce_report::Document;
use serde_json::Value;

/// One result of each scenario.
pub const SAMPLES: [(&str, &str); 6] = [
    ("journal", include_str!("../data/journal.json")),
    ("group", include_str!("../data/group.json")),
    ("pages", include_str!("../data/pages.json")),
    ("map", include_str!("../data/map.json")),
    ("sweep", include_str!("../data/sweep.json")),
    ("inserts", include_str!("../data/inserts.json")),
];

/// Returns the JSON of a sample.
pub fn value(name: &str) -> Value {
    let (_, text) = SAMPLES.iter().find(|(n, _)| *n == name).unwrap();
    serde_json::from_str(text).unwrap()
}

/// Returns a sample.
pub fn sample(name: &str) -> Document {
    Document::from_value(value(name), name).unwrap()
}

/// Returns a sample with a change.
pub fn changed(name: &str, change: impl FnOnce(&mut Value)) -> Document {
    let mut value = value(name);
    change(&mut value);
    Document::from_value(value, name).unwrap()
}

/// Returns all samples.
pub fn documents() -> Vec<(&'static str, Document)> {
    SAMPLES
        .iter()
        .map(|(name, _)| (*name, sample(name)))
        .collect()
}

/// Returns a crash test that lost, with texts that are HTML.
#[cfg(target_os = "linux")]
pub fn crash_test() -> logforce_crashtest::report::Report {
    use logforce_crashtest::explain::{
        Experiment, Explanation, Least, LostWrite, Mark, MarkKind, Object, Region, Stack,
    };
    use logforce_crashtest::parts::Part;
    use logforce_crashtest::plan::Plan;
    use logforce_crashtest::program::Program;
    use logforce_crashtest::report::{Failure, Loss, Report, Row, Verdict};
    use logforce_crashtest::testbed::Filesystem;

    let message = "<b>17</b> is \u{7}missing of a_very_long_name_".repeat(6);
    let row = |filesystem, part| Row {
        filesystem,
        part,
        checks: 300,
        with_acks: 299,
        acknowledged: 4_445_376,
        lost: 258,
        unopened: 1,
        hung: 0,
        failed_without_acks: 0,
        filesystem_lost: 2,
        most_acked: 30_000,
    };
    let mark = |(n, kind): (u64, MarkKind)| Mark {
        before_cut: 50_000 - 410 * n,
        kind,
    };
    let kinds = [
        MarkKind::Write,
        MarkKind::Flush,
        MarkKind::Ack,
        MarkKind::Write,
    ];
    let marks = (0..120).zip(kinds.into_iter().cycle());
    let lost = |region, before_cut| LostWrite {
        region,
        disk_offset: 34_603_008,
        bytes: 512,
        before_cut,
        after_flush: Some(12_345),
        acks_since: 2,
    };
    let file = Region::File {
        name: "wal-000000000000000000000000000000000017.log".repeat(3),
        offset: 4096,
    };
    let object = Object::File("wal-#.log<script>".to_owned());
    let experiment = |object, failed| Experiment {
        object,
        checks: 12,
        failed,
    };
    let check = Program::Shell("check {} {acked} && true < <(x)".to_owned());
    let workload = Program::Arguments(["./work<script>".into(), "{}".into()].into());
    Report {
        schema: "logforce-crashtest",
        version: 1,
        verdict: Verdict::Lost,
        sentence: "The check failed after 27 of 30 power cuts.".to_owned(),
        plan: Plan {
            command: format!("logforce crashtest --keep /{}", "long/".repeat(60)),
            ..Plan::new(workload, check)
        },
        rehearsals: Vec::new(),
        rows: [Part::Kill, Part::Control, Part::Cuts, Part::States]
            .map(|part| row(Filesystem::Ext4, part))
            .into(),
        losses: vec![Loss {
            filesystem: Filesystem::Ext4,
            part: Part::States,
            failure: Failure::Lost,
            message: message.clone(),
            cases: 258,
            acked: 2,
            last_acked: Some("2".to_owned()),
            kept: Some("/kept/loss-1".to_owned()),
        }],
        explanation: Some(Explanation {
            filesystem: Filesystem::Ext4,
            examined: 150,
            dirty: Vec::new(),
            repeated: Part::Cuts,
            experiments: vec![
                experiment(Object::Nothing, 11),
                experiment(object.clone(), 0),
            ],
            kills: 8,
            lost_by_kill: 3,
            least: Some(Least {
                filesystem: Filesystem::Ext4,
                acked: 2,
                message,
                lost: vec![lost(file, 1400), lost(Region::Metadata, 0)],
                differences: vec!["value is another file".to_owned()],
                timeline: marks
                    .map(mark)
                    .chain([mark((119, MarkKind::LostWrite))])
                    .collect(),
            }),
            stacks: vec![Stack {
                object,
                call: "write".to_owned(),
                functions: vec![
                    "<std::fs::File as std::io::Write>::write".to_owned(),
                    "main".to_owned(),
                ],
            }],
            conclusion: "Missing before the acknowledgement: fsync of wal-#.log.".to_owned(),
        }),
        notes: vec!["ext4: the disk was full at the end of 3 of 9 sessions".to_owned()],
        reasons: vec![
            "ext4: only 3 of 30 cuts count: before 27 of them nothing had been acknowledged, and 0 left a filesystem that \
             cannot be mounted"
                .to_owned(),
        ],
        untested: vec!["Other filesystems than ext4".to_owned()],
        seconds: 12.5,
    }
}
