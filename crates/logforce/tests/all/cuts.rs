//! Recorded results of power cuts: every opening of a log obeys them.

use crate::common::{assert_error, options, record};
use logforce::disk::cuts::{self, CutRun, NAME, Place};
use logforce::{
    ErrorKind, Guarantee, Method, Options, Verdict,
    disk::{FileState, calibration},
};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Tested method: one that forces by itself and is not the default, if there is such a method.
const METHOD: Method = if cfg!(windows) {
    Method::Flush
} else if cfg!(target_os = "macos") {
    Method::FullFsync
} else {
    Method::Dsync
};

/// Returns a directory where [`METHOD`] is declared to survive a loss of power, and its place. Returns
/// `None`, and prints the reason, if it is not.
fn place() -> Option<(TempDir, Place)> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let facts = logforce::disk::facts(dir.path()).unwrap();
    let assessed = facts.assess(METHOD, FileState::Zeroed).unwrap();
    let place = Place::of(&facts);
    match place {
        Some(place) if assessed.guarantee == Guarantee::PowerLoss => Some((dir, place)),
        _ => {
            logforce_testkit::skip!("{assessed:?}, volume {:?}", facts.volume);
            None
        }
    }
}

fn run(place: &Place, method: Method, lost: u64) -> CutRun {
    let mut run = CutRun::new(place.clone(), method, 0xabc);
    (run.cuts, run.acknowledged) = (2, 500);
    (run.lost, run.control_lost) = (lost, 1);
    run
}

fn strict(method: Method) -> Options {
    options().require(Guarantee::PowerLoss).method(method)
}

fn verdict(dir: &Path, options: Options) -> Verdict {
    let log = logforce::open_or_create(dir, options).unwrap();
    let verdict = log.recovered().verdict;
    log.close().unwrap();
    verdict
}

#[test]
fn proven_shows_beside_the_log_and_from_the_cache() {
    let Some((home, place)) = place() else { return };
    let (log, cache) = (home.path().join("log"), home.path().join("deep/cache"));
    let before = verdict(&log, strict(METHOD));
    assert_ne!(before, Verdict::Proven);
    let file = cuts::record(&cache, &run(&place, METHOD, 0)).unwrap();
    assert_eq!(file, cache.join(NAME));
    assert_eq!(
        verdict(&log, strict(METHOD)),
        before,
        "not asked to look there"
    );
    let sharing = || strict(METHOD).calibration_cache(&cache);
    assert_eq!(verdict(&log, sharing()), Verdict::Proven);
    cuts::record(&log, &run(&place, METHOD, 0)).unwrap();
    for _ in 0..2 {
        assert_eq!(verdict(&log, strict(METHOD)), Verdict::Proven);
    }
    let facts = cuts::facts(&log, None).unwrap();
    assert!(
        facts.tried[0]
            .evidence
            .contains("over 2 power cuts all of 500")
    );
    let report = calibration::known(&log, None).unwrap();
    assert_eq!(report.facts.tried, facts.tried);
}

#[test]
fn contradicted_is_refused_again_and_again() {
    let Some((home, place)) = place() else { return };
    let dir = home.path().join("log");
    let log = logforce::create_new(&dir, strict(METHOD)).unwrap();
    let kept = log.commit(&record(1, 100)).unwrap();
    log.close().unwrap();
    cuts::record(&dir, &run(&place, METHOD, 3)).unwrap();
    for _ in 0..2 {
        assert_error(
            logforce::open_existing(&dir, strict(METHOD)),
            ErrorKind::Unavailable,
            &[
                &format!("lost 3 of 500 acknowledged commits by {METHOD}"),
                "verdicts",
            ],
        );
        let less = strict(METHOD).require(Guarantee::OsCrash);
        let log = logforce::open_existing(&dir, less).unwrap();
        assert_eq!(log.recovered().verdict, Verdict::Contradicted);
        assert_eq!(log.read_at(kept.start).unwrap().data, record(1, 100));
        log.close().unwrap();
    }
    let left_out = calibration::known(&dir, None).unwrap().left_out;
    let why = &left_out.iter().find(|l| l.method == METHOD).unwrap().why;
    assert!(why.contains("contradicted: a power cut lost 3"), "{why}");
    // Removing the file withdraws the result.
    fs::remove_file(dir.join(NAME)).unwrap();
    assert_ne!(verdict(&dir, strict(METHOD)), Verdict::Contradicted);
}

#[test]
fn without_a_named_method_a_log_goes_by_another_or_refuses() {
    let Some((home, place)) = place() else { return };
    let dir = home.path().join("log");
    fs::create_dir(&dir).unwrap();
    let facts = logforce::disk::facts(&dir).unwrap();
    let default = facts.default_method();
    cuts::record(&dir, &run(&place, default, 3)).unwrap();
    let auto = options().require(Guarantee::PowerLoss);
    let expected = cuts::facts(&dir, None).unwrap().default_method();
    match logforce::create_new(&dir, auto) {
        Ok(log) => {
            assert_ne!(log.recovered().method, default);
            assert_eq!(log.recovered().method, expected);
        }
        Err(e) => {
            assert_eq!(expected, default, "no method is left: {e}");
            assert_eq!(e.kind(), ErrorKind::Unavailable);
            assert!(e.to_string().contains("lost 3 of 500"), "{e}");
        }
    }
}

#[test]
fn another_place_is_another_matter() {
    let Some((home, place)) = place() else { return };
    let dir = home.path().join("log");
    let before = verdict(&dir, strict(METHOD));
    let mut elsewhere = place;
    elsewhere.volume.push_str("-of-another-disk");
    cuts::record(&dir, &run(&elsewhere, METHOD, 3)).unwrap();
    assert_eq!(verdict(&dir, strict(METHOD)), before);
}

/// An unreadable file of results may record a loss: the log reports it and guarantees less.
#[test]
fn what_cannot_be_read_is_said_and_nothing_is_promised() {
    let Some((home, place)) = place() else { return };
    let (dir, cache) = (home.path().join("log"), home.path().join("cache"));
    let before = verdict(&dir, strict(METHOD));
    let damaged: [&dyn Fn(&Path); 4] = [
        &|at| fs::write(at, b"{\"schema\":\"logforce-verdicts\"").unwrap(),
        &|at| fs::write(at, [0xff; 999]).unwrap(),
        &|at| fs::write(at, vec![b'['; 2 << 20]).unwrap(),
        &|at| {
            fs::remove_file(at).unwrap();
            fs::create_dir(at).unwrap();
        },
    ];
    for damage in damaged {
        for (at, options) in [
            (&dir, strict(METHOD)),
            (&cache, strict(METHOD).calibration_cache(&cache)),
        ] {
            let file = cuts::record(at, &run(&place, METHOD, 3)).unwrap();
            damage(&file);
            let words = [file.to_str().unwrap(), "move it away"];
            let refused = logforce::open_existing(&dir, options.clone());
            assert_error(refused, ErrorKind::Unavailable, &words);
            let log = logforce::open_existing(&dir, options.require(Guarantee::OsCrash)).unwrap();
            let known = (log.guarantee().guarantee, log.recovered().verdict);
            assert_eq!(known, (Guarantee::OsCrash, Verdict::Unknown));
            assert!(
                log.recovered().evidence.contains(words[0]),
                "{}",
                log.recovered().evidence
            );
            log.close().unwrap();
            let report = calibration::known(&dir, Some(&cache)).unwrap();
            assert_eq!(report.facts.unread.len(), 1, "{:?}", report.facts.unread);
            assert_error(cuts::recorded(at), ErrorKind::Io, &words);
            let refused = cuts::record(at, &run(&place, METHOD, 0));
            assert_error(refused, ErrorKind::Io, &words);
            // Removing the file withdraws the result.
            fs::remove_file(&file)
                .or_else(|_| fs::remove_dir(&file))
                .unwrap();
            assert_eq!(cuts::recorded(at).unwrap(), []);
            assert_eq!(verdict(&dir, strict(METHOD)), before);
        }
    }
    assert_eq!(cuts::recorded(home.path().join("nosuch")).unwrap(), []);
    assert_eq!(cuts::recorded(dir.join("lock/below")).unwrap(), []);
}
