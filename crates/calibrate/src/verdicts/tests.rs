use super::*;
use logforce_device::{Platform, Verdict};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

fn run(number: u128, method: Method, lost: u64) -> CutRun {
    CutRun {
        place: Place::of(&SimOptions::default().facts()).unwrap(),
        method,
        run: number,
        cuts: 3,
        acknowledged: 1000,
        lost,
        control_lost: 5,
        at: 1_795_263_535_000,
        kernel: "6.1".to_owned(),
        tool: "0.1.0".to_owned(),
    }
}

fn with_directory(body: impl Fn(&Arc<dyn Directory>, &dyn Runtime)) {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let dir = system.make_directory(std::path::Path::new("/d")).unwrap();
        body(&dir, &*system.runtime());
    });
}

#[test]
fn the_methods_of_every_system_count_there() {
    let mut facts = SimOptions::default().facts();
    for platform in Platform::ALL {
        facts.platform = platform;
        let runs: Vec<CutRun> = (1..)
            .zip(Method::ALL)
            .map(|(number, method)| run(number, method, 1))
            .collect();
        let known: Vec<Method> = tried(&runs, &facts).iter().map(|t| t.method).collect();
        assert_eq!(known, platform.methods());
    }
}

#[test]
fn what_is_recorded_is_read_again() {
    with_directory(|dir, runtime| {
        assert_eq!(read(dir).unwrap(), []);
        let (a, b) = (run(1, Method::Dsync, 0), run(2, Method::Dsync, 7));
        record(dir, runtime, &a).unwrap();
        record(dir, runtime, &b).unwrap();
        assert_eq!(read(dir).unwrap(), [a.clone(), b.clone()]);
        let more = CutRun { cuts: 4, ..a };
        record(dir, runtime, &more).unwrap();
        assert_eq!(read(dir).unwrap(), [b.clone(), more], "the same run, later");
        let back = CutRun {
            lost: 0,
            ..b.clone()
        };
        record(dir, runtime, &back).unwrap();
        assert!(read(dir).unwrap().contains(&b), "a loss stays");
        let names: Vec<String> = dir.entries().unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, [NAME]);
    });
}

#[test]
fn what_could_not_be_read_back_is_not_recorded() {
    with_directory(|dir, runtime| {
        let good = run(1, Method::Dsync, 0);
        let mut long = good.clone();
        long.kernel = "x".repeat(crate::key::LONGEST + 1);
        let mut uncut = good.clone();
        uncut.cuts = 0;
        for bad in [run(2, Method::Buffered, 1), long, uncut] {
            let e = record(dir, runtime, &bad).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::InvalidInput, "{e}");
        }
        record(dir, runtime, &good).unwrap();
        assert_eq!(read(dir).unwrap(), [good]);
    });
}

#[test]
fn a_file_that_is_full_keeps_its_losses() {
    with_directory(|dir, runtime| {
        record(dir, runtime, &run(0, Method::Dsync, 1)).unwrap();
        for number in 1..=MOST as u128 {
            record(dir, runtime, &run(number, Method::Dsync, 0)).unwrap();
        }
        let runs = read(dir).unwrap();
        assert_eq!(runs.len(), MOST);
        assert!(runs.iter().any(|r| r.lost > 0));
        assert!(runs.iter().all(|r| r.run != 1), "the oldest was replaced");
    });
}

#[test]
fn runs_add_up_and_a_loss_goes_before_them() {
    let facts = SimOptions::default().facts();
    let kept = run(1, Method::Dsync, 0);
    let again = run(2, Method::Dsync, 0);
    let twice = [kept.clone(), kept.clone(), again];
    let known = tried(&twice, &facts);
    assert_eq!(known.len(), 1);
    assert!(known[0].kept);
    let words = "over 6 power cuts all of 2000 acknowledged commits were kept on 2026-11-21";
    assert!(
        known[0].evidence.starts_with(words),
        "{}",
        known[0].evidence
    );
    let known = tried(&[kept, run(3, Method::Dsync, 7)], &facts);
    assert!(!known[0].kept && known.len() == 1);
    let evidence = &known[0].evidence;
    assert!(evidence.contains("lost 7 of 1000"), "{evidence}");
    assert!(
        evidence.contains("remove the file 'verdicts'"),
        "{evidence}"
    );
}

#[test]
fn another_place_is_another_matter() {
    let facts = SimOptions::default().facts();
    let runs = [run(1, Method::Dsync, 3)];
    let changes: [fn(&mut Facts); 4] = [
        |f| f.volume.push('x'),
        |f| f.filesystem.push('x'),
        |f| f.mount_options.push_str(",nobarrier"),
        |f| f.device.as_mut().unwrap().model.push('x'),
    ];
    for change in changes {
        let mut other = facts.clone();
        change(&mut other);
        assert_eq!(tried(&runs, &other), []);
    }
    let mut same = facts.clone();
    same.kernel.push('x');
    same.device.as_mut().unwrap().name = "sdz".to_owned();
    assert_eq!(tried(&runs, &same).len(), 1, "found under another name");
}

/// If the place cannot be compared, a recorded loss counts, and a run without a loss does not.
#[test]
fn a_loss_whose_place_cannot_be_compared_counts() {
    let facts = SimOptions::default().facts();
    let runs = [run(1, Method::Dsync, 3), run(2, Method::Fdatasync, 0)];
    let less: [fn(&mut Facts); 7] = [
        // Without /dev/disk: the identity is a number of `statfs`, or one that changes at a restart.
        |f| f.volume.clear(),
        |f| f.volume = "fsid:6501ec3f4a8722b4".to_owned(),
        |f| f.volume = "fsid:0000000000000701".to_owned(),
        // Without /proc: the filesystem's name follows from its magic number.
        |f| f.mount_options.clear(),
        |f| (f.mount_options, f.filesystem) = (String::new(), "ext4".to_owned()),
        // Without /sys.
        |f| f.device = None,
        |f| f.device.as_mut().unwrap().model.clear(),
    ];
    for less in less {
        let mut facts = facts.clone();
        less(&mut facts);
        let known = tried(&runs, &facts);
        assert_eq!(known.len(), 1, "{facts:?}");
        assert!(!known[0].kept && known[0].method == Method::Dsync);
        assert!(known[0].evidence.contains("may be this one"), "{known:?}");
    }
    // One property differs.
    let mut other = facts.clone();
    (other.volume, other.filesystem) = (String::new(), "otherfs".to_owned());
    assert_eq!(tried(&runs, &other), []);
    // If two losses are known, the one that certainly happened here is reported.
    let mut elsewhere = run(3, Method::Dsync, 9);
    (elsewhere.place.model, elsewhere.at) = (String::new(), u64::MAX);
    let known = tried(&[runs[0].clone(), elsewhere], &facts);
    assert!(known[0].evidence.contains("lost 3 of"), "{known:?}");
}

#[test]
fn what_cannot_be_read_is_an_error_and_not_overwritten() {
    let text = String::from_utf8(stored::encode(&[run(1, Method::Dsync, 7)], Vec::new())).unwrap();
    let other = text.replace("\"version\": 1", "\"version\": 2");
    let cut = &text[..text.len() / 2];
    let entry = text.replace("\"lost\": 7", "\"lost\": 7000");
    let long = text.clone() + &" ".repeat(LONGEST as usize);
    for (rubbish, why) in [
        (&b"\xff\xfe"[..], "another kind of file"),
        (b"", "another kind of file"),
        (b"{}", "another kind of file"),
        (b"[1,2", "another kind of file"),
        (b"{\"schema\":\"x\"}", "another kind of file"),
        (cut.as_bytes(), "it is damaged"),
        (long.as_bytes(), "another kind of file"),
        (other.as_bytes(), "it has version 2"),
        (entry.as_bytes(), "its entry 1 is damaged"),
    ] {
        with_directory(|dir, runtime| {
            put(dir, NAME, rubbish).unwrap();
            let refused = record(dir, runtime, &run(1, Method::Dsync, 0)).unwrap_err();
            for e in [read(dir).unwrap_err(), refused] {
                let message = e.to_string();
                let file = dir.path().join(NAME).display().to_string();
                for part in [&*file, why, "move it away"] {
                    assert!(message.contains(part), "{part}: {message}");
                }
            }
            let left = dir.open(NAME, OpenFile::READ).unwrap();
            let longest = long.len() as u64;
            assert_eq!(contents(&*left, longest).unwrap(), rubbish);
        });
    }
}

#[test]
fn what_could_not_have_been_written_here_is_damage() {
    let good = run(1, Method::Dsync, 0);
    let text = stored::encode(std::slice::from_ref(&good), Vec::new());
    let text = String::from_utf8(text).unwrap();
    let decoded = |text: &str| stored::decode(text.as_bytes());
    assert_eq!(decoded(&text).unwrap().runs, [good]);
    for (from, to) in [
        ("\"cuts\": 3", "\"cuts\": 0"),
        ("\"acknowledged\": 1000", "\"acknowledged\": 0"),
        ("\"acknowledged\": 1000", "\"acknowledged\": -1"),
        ("\"control_lost\": 5", "\"control_lost\": 0"),
        ("\"lost\": 0", "\"lost\": 1001"),
        ("\"method\": \"dsync\"", "\"method\": \"buffered\""),
        ("\"volume\": \"sim\"", "\"volume\": \"\""),
        ("\"kernel\": \"6.1\"", "\"kernel\": \"\\u001b[2J\""),
        ("\"tool\": \"0.1.0\"", "\"tool\": 7"),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        assert!(decoded(&changed).unwrap_err().contains("entry 1"), "{to}");
    }
}

#[test]
fn the_entry_of_a_newer_method_is_no_damage_and_stays() {
    with_directory(|dir, runtime| {
        let old = stored::encode(&[run(1, Method::Dsync, 7)], Vec::new());
        let newer = String::from_utf8(old).unwrap();
        let newer = newer.replace("\"dsync\"", "\"wishing\"");
        put(dir, NAME, newer.as_bytes()).unwrap();
        assert_eq!(read(dir).unwrap(), []);
        record(dir, runtime, &run(2, Method::Dsync, 0)).unwrap();
        assert_eq!(read(dir).unwrap().len(), 1);
        let file = dir.open(NAME, OpenFile::READ).unwrap();
        let kept = String::from_utf8(contents(&*file, LONGEST).unwrap()).unwrap();
        assert!(kept.contains("wishing"), "{kept}");
    });
}

#[test]
fn days() {
    for (millis, day) in [
        (1, "1970-01-01"),
        (951_782_400_000, "2000-02-29"),
        (951_868_800_000, "2000-03-01"),
        (1_735_689_599_000, "2024-12-31"),
        (253_402_300_799_999, "9999-12-31"),
    ] {
        assert_eq!(logforce_device::date::day(millis).as_deref(), Some(day));
    }
    assert_eq!(logforce_device::date::day(0), None);
    assert_eq!(logforce_device::date::day(u64::MAX), None);
}

#[test]
fn what_is_known_reaches_the_assessment() {
    let mut facts = SimOptions::default().facts();
    facts.tried = tried(&[run(1, Method::DirectDsync, 0)], &facts);
    let state = logforce_device::FileState::Zeroed;
    let a = facts.assess(Method::DirectDsync, state).unwrap();
    assert_eq!(a.verdict, Verdict::Proven);
}
