use super::super::text::render;
use super::*;
use logforce::disk::CutResult;
use logforce::disk::calibration::Decision;
use logforce_device::{BlockDevice, DirectAlignment, Source, WriteCache};
use logforce_measure::machine::Host;

fn facts(platform: Platform, fua: Option<bool>) -> Facts {
    let mut device = BlockDevice::new("disk9");
    (device.write_cache, device.cache_source) = (WriteCache::Back, Source::Device);
    (device.fua, device.rotational) = (fua, Some(false));
    device.model = "ACME 9".to_owned();
    let mut facts = Facts::new(platform, "afs", FilesystemKind::InPlace);
    facts.mount_options = "rw".to_owned();
    facts.mount_point = "/data".to_owned();
    facts.barriers = Some(true);
    facts.device = Some(device);
    facts.direct = Some(DirectAlignment {
        memory: 512,
        offset: 512,
    });
    facts.volume = "0d3a-uuid".to_owned();
    facts.capacity = Some(1 << 30);
    facts.kernel = "1".to_owned();
    facts.notes = vec!["A note.".to_owned()];
    facts
}

fn report(facts: Facts) -> FactsReport {
    let host = Host {
        os: facts.platform.name().to_owned(),
        kernel: "1".to_owned(),
        arch: "x86_64".to_owned(),
        cpus: 2,
        caveat: None,
    };
    let decision = Decision::undecided(facts.default_method(), "nothing was measured");
    let known = Report::new(facts, decision);
    let machine = Machine::new(&known.facts, host);
    FactsReport::new("logforce facts".to_owned(), Path::new("d"), machine, &known)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn through(facts: Facts) -> (&'static str, &'static str, String) {
    let report = report(facts);
    let text = one_line(&render(&report, 80));
    let w = report.write_through;
    for part in [&w.evidence, &w.what_matters] {
        assert!(text.contains(part.as_str()), "{part}: {text}");
    }
    (w.answer, w.verdict, w.what_matters)
}

#[test]
fn the_device_s_word_on_write_through_is_the_answer() {
    for platform in Platform::ALL {
        for (fua, answer) in [
            (Some(true), ("yes", "declared")),
            (Some(false), ("no", "contradicted")),
            (None, ("unknown", "unknown")),
        ] {
            let reported = through(facts(platform, fua));
            assert_eq!((reported.0, reported.1), answer, "{platform}");
        }
    }
}

#[test]
fn what_matters_is_told_of_each_system() {
    let (.., matters) = through(facts(Platform::Linux, Some(false)));
    assert!(matters.contains("what matters is the flush: dsync is power-loss, declared"));
    assert!(!matters.contains("as here"), "{matters}");
    let (.., matters) = through(facts(Platform::Linux, Some(true)));
    assert!(matters.contains("as here, direct+dsync relies on that"));
    let (.., matters) = through(facts(Platform::Windows, None));
    assert!(matters.contains("sends no flush in place") && matters.contains("flush is power-loss"));
    let (.., matters) = through(facts(Platform::Macos, None));
    assert!(matters.contains("full-fsync is power-loss"), "{matters}");
    let mut in_memory = facts(Platform::Linux, None);
    in_memory.kind = FilesystemKind::Volatile;
    let (answer, _, matters) = through(in_memory);
    assert_eq!(answer, "no");
    assert!(matters.contains("no medium"), "{matters}");
}

/// No field and no line prints a doubted guarantee as a certain one.
#[test]
fn a_doubted_guarantee_is_printed_with_its_doubt_everywhere() {
    let mut facts = facts(Platform::Linux, Some(true));
    (facts.kind, facts.device) = (FilesystemKind::Other, None);
    let assessed = facts.assess(facts.default_method(), FileState::Zeroed);
    let assessed = assessed.map(|a| (a.guarantee, a.verdict));
    assert_eq!(assessed, Some((Guarantee::PowerLoss, Verdict::Unknown)));
    let report = report(facts);
    let text = one_line(&render(&report, 80));
    for printed in [text, serde_json::to_string(&report).unwrap()] {
        assert!(printed.contains("power-loss?"), "{printed}");
        for wrong in [
            "\"guarantee\":\"power-loss\"",
            "power-loss, unknown",
            "survives power-loss,",
        ] {
            assert!(!printed.contains(wrong), "{wrong}: {printed}");
        }
    }
}

#[test]
fn a_cut_of_power_goes_before_the_device_s_word() {
    for (platform, method) in [
        (Platform::Linux, Method::DirectDsync),
        (Platform::Windows, Method::WriteThrough),
    ] {
        for (kept, answer) in [(false, ("no", "contradicted")), (true, ("yes", "proven"))] {
            let mut facts = facts(platform, Some(true));
            facts.tried = vec![CutResult::new(method, kept, "seen by a cut")];
            let report = report(facts);
            let w = &report.write_through;
            assert_eq!((w.answer, w.verdict), answer, "{platform}");
            assert!(w.evidence.contains("seen by a cut"));
            let line = report.methods.iter().find(|l| l.method == method.name());
            assert_eq!(line.unwrap().verdict, Some(answer.1));
            assert!(render(&report, 80).contains(answer.1));
        }
    }
    // A flush that lost something says nothing of FUA.
    let mut flushed = facts(Platform::Windows, Some(true));
    flushed.tried = vec![CutResult::new(Method::Flush, false, "lost")];
    assert_eq!(report(flushed).write_through.answer, "yes");
}

#[test]
fn evidence_that_cannot_be_read_is_told_and_promises_nothing() {
    let mut facts = facts(Platform::Windows, Some(true));
    facts.unread = vec!["/c/verdicts is torn: move it away".to_owned()];
    let report = report(facts);
    assert_eq!(report.power_cuts_unread.len(), 1);
    assert_eq!(report.write_through.answer, "unknown");
    let promised = |l: &MethodLine| l.guarantee == Some("power-loss");
    assert!(!report.methods.iter().any(promised));
    assert!(!report.next.is_enough);
    let text = render(&report, 120);
    for (part, is_there) in [
        ("NOT READ       /c/verdicts is torn: move it away", true),
        ("none are recorded", false),
    ] {
        assert_eq!(text.contains(part), is_there, "{part}: {text}");
    }
}

#[test]
fn every_method_of_the_system_is_there_and_differs_where_it_does() {
    for platform in Platform::ALL {
        let report = report(facts(platform, Some(true)));
        let named: Vec<&str> = report.methods.iter().map(|m| m.method).collect();
        let known: Vec<&str> = platform.methods().iter().map(|m| m.name()).collect();
        assert_eq!(named, known);
        let defaults = report.methods.iter().filter(|m| m.is_default);
        assert_eq!(
            defaults.map(|m| m.method).collect::<Vec<_>>(),
            [report.default]
        );
        for line in &report.methods {
            let bare = ["direct", "no-buffering"].contains(&line.method);
            assert_eq!(line.unprepared.is_some(), bare, "{line:?}");
            assert_eq!((line.guarantee.is_some(), &line.why_not), (true, &None));
        }
    }
    let mut without = facts(Platform::Linux, None);
    without.direct = None;
    let report = report(without);
    for line in &report.methods {
        let direct = line.method.starts_with("direct");
        assert_eq!(line.why_not.is_some(), direct, "{line:?}");
        assert_eq!(line.guarantee.is_none(), direct, "{line:?}");
    }
    assert_eq!(report.default, "dsync");
}

#[test]
fn the_text_fits_and_has_each_reason_once() {
    let report = report(facts(Platform::Linux, Some(true)));
    for width in [60, 120] {
        let text = render(&report, width);
        let head = text.split("What a force survives").next().unwrap();
        let widest = head.lines().map(|l| l.chars().count()).max();
        assert!(widest <= Some(width), "{text}");
        assert_eq!(one_line(&text).matches("[1] the bytes are").count(), 1);
        assert!(text.contains("direct+dsync (default)"), "{text}");
        assert!(text.contains("os-crash, declared"), "{text}");
    }
}

#[test]
fn a_log_that_would_be_refused_is_told() {
    let mut off = facts(Platform::Linux, Some(true));
    off.barriers = Some(false);
    let report = report(off);
    assert!(!report.next.is_enough);
    let text = one_line(&render(&report, 80));
    assert!(text.contains("BARRIERS ARE OFF") && text.contains("is refused here"));
}
