//! Text and fields of made-up facts, for every platform.

use super::text::render;
use logforce::disk::CutResult;
use logforce_device::{
    Assessment, AtomicWrite, BlockDevice, DirectAlignment, Facts, FileState, FilesystemKind,
    Guarantee, Layer, Method, Reading,
};
use logforce_device::{Platform, Source, Verdict, WriteCache};
use logforce_device_os::Asked;
use logforce_measure::doctor::next::Next;
use logforce_measure::doctor::{Doctor, Findings, MethodLine, Severity, Test};
use logforce_measure::machine::{Host, Machine};
use std::cell::{Cell, RefCell};

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

fn examined(facts: Facts, tests: Vec<Test>) -> Doctor {
    let host = Host {
        name: String::new(),
        os: facts.platform.name().to_owned(),
        kernel: "1".to_owned(),
        arch: "x86_64".to_owned(),
        cpus: 2,
        caveat: None,
    };
    let findings = Findings {
        command: "logforce doctor".to_owned(),
        path: "d".to_owned(),
        target: "directory",
        machine: Machine::new(&facts, host),
        hypervisor: None,
        asked: Vec::new(),
        tests: Ok(tests),
    };
    let next = Next::unmeasured(&facts);
    Doctor::new(&facts, next, findings)
}

fn report(facts: Facts) -> Doctor {
    examined(facts, Vec::new())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Commands are sent once, behind USB only on request, and not at all with `--passive`.
#[test]
fn devices_are_asked_as_the_flags_say() {
    for (passive, ask) in [(false, false), (false, true), (true, false)] {
        let args = super::Args {
            path: ".".into(),
            passive,
            ask,
            cache: None,
            json: None,
            report: None,
        };
        let (looks, sent) = (Cell::new(0), RefCell::new(Vec::new()));
        let look = || {
            looks.set(looks.get() + 1);
            let mut facts = facts(Platform::Linux, None);
            facts.layers = vec![Layer::passing("sdz", "")];
            Ok((facts, looks.get()))
        };
        let send = |layers: &[Layer], with_usb| {
            sent.borrow_mut().push((layers[0].name.clone(), with_usb));
            let device = "sdz".to_owned();
            let answer = Err("it is deaf".to_owned());
            Ok(vec![Asked { device, answer }])
        };
        let (_, seen, asked) = super::look_and_ask(&args, look, send).unwrap();
        let expected = if passive {
            vec![]
        } else {
            vec![("sdz".to_owned(), ask)]
        };
        assert_eq!(sent.into_inner(), expected);
        assert_eq!(
            (seen, asked.len()),
            (2 - i32::from(passive), expected.len())
        );
    }
}

#[test]
fn an_answer_is_told_from_a_reason_why_there_is_none() {
    let mut doctor = report(facts(Platform::Linux, None));
    for (answer, line) in [
        (Ok("WCE 1".to_owned()), "asked sdz: WCE 1"),
        (Err("it is deaf".to_owned()), "not asked sdz: it is deaf"),
    ] {
        let device = "sdz".to_owned();
        doctor.asked = vec![super::question(Asked { device, answer })];
        let text = one_line(&render(&doctor, 100));
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// Each layer has a line with its own verdict, indented below the one above it.
#[test]
fn the_tree_shows_each_layer_with_its_own_verdict() {
    let mut facts = facts(Platform::Linux, None);
    let why = "its cache is on";
    let on = Assessment::new(
        Guarantee::OsCrash,
        Verdict::Contradicted,
        Source::Device,
        why,
    );
    for (level, name) in [(1, "md9"), (2, "sdy"), (2, "sdz")] {
        let mut layer = Layer::passing(name, "it passes flushes on");
        layer.level = level;
        facts.layers.push(layer);
    }
    facts.layers[2].synced = on;
    facts.layers[2].write_cache = WriteCache::Back;
    let doctor = report(facts);
    let text = render(&doctor, 100);
    let branches: Vec<&str> = text.lines().filter(|l| l.contains("─ ")).collect();
    assert_eq!(
        branches,
        [
            "└─ md9: power-loss, declared",
            "   ├─ sdy: power-loss, declared",
            "   └─ sdz: os-crash, contradicted",
        ],
    );
    let own = text.lines().next().unwrap();
    assert!(own.ends_with(": power-loss, declared"), "{own}");
    assert_eq!(doctor.conclusion.severity, Severity::Unsafe);
    // The kernel flushes this one already.
    assert!(!text.contains("echo 'write back'"), "{text}");
}

#[test]
fn pages_are_covered_by_the_atomic_writes_that_fit() {
    let mut facts = facts(Platform::Linux, None);
    for (unit_min, unit_max, pages) in [
        (512, 8192, "pages of 4 KiB, 8 KiB,"),
        (8192, 65536, "pages of 8 KiB, 16 KiB,"),
        (512, 512, "pages of no usual size,"),
    ] {
        facts.atomic_write = Some(AtomicWrite { unit_min, unit_max });
        let atomic = report(facts.clone()).atomic;
        assert!(atomic.contains(pages), "{atomic}");
    }
}

#[test]
fn zeroes_by_the_device_name_the_layer_that_offers_them() {
    let mut facts = facts(Platform::Linux, None);
    let mut says = |zeroes, layers: &[(&str, &str)]| {
        facts.device.as_mut().unwrap().zeroes = zeroes;
        let layer = |(name, limit): &(&str, &str)| {
            let synced = Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Declared,
                Source::Device,
                "it says so",
            );
            let mut layer = Layer::new(*name, synced);
            layer.readings = vec![Reading {
                what: "zeroes by the device, largest, bytes".to_owned(),
                value: (*limit).to_owned(),
                from: String::new(),
            }];
            layer
        };
        facts.layers = layers.iter().map(layer).collect();
        report(facts.clone()).zeroes
    };
    let offered = says(Some(true), &[("disk9", "4096")]);
    assert!(
        offered.starts_with("Device zeroes: disk9 offers them."),
        "{offered}"
    );
    let stopped = says(Some(false), &[("dm-0", "0"), ("disk9", "4096")]);
    assert!(
        stopped.contains("disk9 offers them, and a layer above"),
        "{stopped}"
    );
    assert_eq!(
        says(Some(false), &[("disk9", "0")]),
        "Device zeroes: not offered."
    );
    assert!(says(None, &[]).contains("unknown"));
}

/// The sentence reads like a caught liar if it says "no" of a healthy disk.
#[test]
fn a_disk_without_fua_is_no_contradiction() {
    for (platform, fua, expected) in [
        (
            Platform::Linux,
            Some(false),
            "FUA: none; the kernel flushes instead. A force survives power-loss (declared).",
        ),
        (
            Platform::Linux,
            Some(true),
            "FUA: yes; a write-through survives power-loss (declared).",
        ),
        (
            Platform::Windows,
            Some(false),
            "nothing flushes in its place. A force survives power-loss (declared).",
        ),
        (
            Platform::Macos,
            None,
            "FUA: unknown. A force survives power-loss (declared).",
        ),
    ] {
        let report = report(facts(platform, fua));
        assert!(report.fua.contains(expected), "{platform}: {}", report.fua);
        assert_eq!(report.conclusion.severity, Severity::Safe, "{platform}");
    }
}

/// The last line answers: what is survived, by whose word, what to do.
#[test]
fn the_conclusion_names_the_party_and_the_next_step() {
    let conclude = |change: &dyn Fn(&mut Facts)| {
        let mut facts = facts(Platform::Linux, Some(false));
        change(&mut facts);
        let doctor = report(facts);
        let text = one_line(&render(&doctor, 100));
        assert!(text.ends_with(&one_line(&format!(
            "→ {}",
            doctor.conclusion.advice.last().unwrap()
        ))));
        assert!(
            text.contains(&one_line(&doctor.conclusion.sentence)),
            "{text}"
        );
        let c = doctor.conclusion;
        (c.severity, format!("{} {}", c.sentence, c.advice.join(" ")))
    };
    let device = |facts: &mut Facts, cache, source| {
        let device = facts.device.as_mut().unwrap();
        (device.write_cache, device.cache_source) = (cache, source);
    };
    for (change, severity, words) in [
        (
            &(|_: &mut Facts| {}) as &dyn Fn(&mut Facts),
            Severity::Safe,
            ["by the device's word", "logforce powercut"],
        ),
        (
            &|f| device(f, WriteCache::Back, Source::Hypervisor),
            Severity::Safe,
            ["by the hypervisor's word", "operator"],
        ),
        (
            &|f| f.barriers = Some(false),
            Severity::Unsafe,
            ["not loss of power", "Mount /data with barriers"],
        ),
        (
            &|f| f.kind = FilesystemKind::Volatile,
            Severity::Unsafe,
            ["a crash of its program only", "on a disk"],
        ),
        (
            &|f| f.kind = FilesystemKind::Remote,
            Severity::Unknown,
            ["unknown whether", "operator of the server"],
        ),
        (
            &|f| f.read_only = true,
            Severity::Unsafe,
            ["survives nothing", "writable"],
        ),
        (
            &|f| f.barriers = None,
            Severity::Unknown,
            ["unknown whether", "power cut"],
        ),
        (
            &|f| {
                let why = "its cache is on";
                let on = Assessment::new(
                    Guarantee::OsCrash,
                    Verdict::Contradicted,
                    Source::Device,
                    why,
                );
                let mut layer = Layer::new("sdz", on);
                layer.write_cache = WriteCache::Through;
                f.layers.push(layer);
            },
            Severity::Unsafe,
            [
                "sdz: its cache is on",
                "echo 'write back' > /sys/block/sdz/queue/write_cache",
            ],
        ),
    ] {
        let (found, text) = conclude(change);
        assert_eq!(found, severity, "{text}");
        for word in words {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}

#[test]
fn a_test_that_contradicts_overrides_a_declaration() {
    let test = |passed| Test {
        name: "force-costs",
        question: "Does it?".to_owned(),
        passed,
        finding: "no: a force is free".to_owned(),
    };
    let healthy = || facts(Platform::Linux, Some(false));
    for (passed, severity) in [
        (Some(true), Severity::Safe),
        (None, Severity::Safe),
        (Some(false), Severity::Unsafe),
    ] {
        let doctor = examined(healthy(), vec![test(passed)]);
        assert_eq!(doctor.conclusion.severity, severity);
        let text = one_line(&render(&doctor, 100));
        assert_eq!(
            text.contains("BAD Does it? no: a force is free"),
            passed == Some(false)
        );
        assert_eq!(
            text.contains("Do not rely on it"),
            passed == Some(false),
            "{text}"
        );
    }
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
    assert!(!report.next.is_enough, "for a log's default requirement");
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
fn a_power_cut_goes_before_the_device_s_word() {
    for (kept, severity) in [(false, Severity::Unsafe), (true, Severity::Safe)] {
        // Without FUA all methods rely on the same flush.
        let mut facts = facts(Platform::Linux, Some(false));
        facts.tried = vec![CutResult::new(Method::DirectDsync, kept, "seen by a cut")];
        let report = report(facts);
        assert_eq!(report.conclusion.severity, severity);
        assert!(
            report.conclusion.sentence.contains("seen by a cut"),
            "{:?}",
            report.conclusion
        );
        let line = report.methods.iter().find(|l| l.method == "direct+dsync");
        let verdict = if kept { "proven" } else { "contradicted" };
        assert_eq!(line.unwrap().verdict, Some(verdict));
        assert!(render(&report, 80).contains(verdict));
    }
}

#[test]
fn evidence_that_cannot_be_read_is_told_and_promises_nothing() {
    let mut facts = facts(Platform::Windows, Some(true));
    facts.unread = vec!["/c/verdicts is torn: move it away".to_owned()];
    let report = report(facts);
    assert_eq!(report.power_cuts_unread.len(), 1);
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
    assert!(text.contains("mounted without barriers") && text.contains("is refused here"));
}
