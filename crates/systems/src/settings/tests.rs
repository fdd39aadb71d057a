use super::*;
use logforce_device::{AtomicWrite, BlockDevice, Facts, FilesystemKind, Source, WriteCache};

const ASKED: [Guarantee; 3] = [
    Guarantee::ProcessCrash,
    Guarantee::OsCrash,
    Guarantee::PowerLoss,
];

fn facts(platform: Platform, kind: FilesystemKind, cache: WriteCache) -> Facts {
    let mut facts = Facts::new(platform, "fs", kind);
    facts.barriers = Some(true);
    facts.journalled = Some(true);
    let mut device = BlockDevice::new("disk");
    device.write_cache = cache;
    device.cache_source = match cache {
        WriteCache::Unknown => Source::Nobody,
        _ => Source::Device,
    };
    facts.device = Some(device);
    facts
}

/// Returns stacks from healthy to hopeless.
fn stacks(platform: Platform) -> Vec<Facts> {
    let mut unforced = facts(platform, FilesystemKind::InPlace, WriteCache::Back);
    unforced.barriers = Some(false);
    vec![
        facts(platform, FilesystemKind::InPlace, WriteCache::Back),
        facts(platform, FilesystemKind::InPlace, WriteCache::Through),
        facts(platform, FilesystemKind::InPlace, WriteCache::Unknown),
        facts(platform, FilesystemKind::Relocating, WriteCache::Back),
        facts(platform, FilesystemKind::Remote, WriteCache::Unknown),
        facts(platform, FilesystemKind::Volatile, WriteCache::Unknown),
        unforced,
    ]
}

/// Returns the facts with a device that completes writes of up to `unit_max` bytes whole.
fn writing_whole(mut facts: Facts, unit_max: Option<u32>) -> Facts {
    facts.atomic_write = unit_max.map(|unit_max| AtomicWrite {
        unit_min: 512,
        unit_max,
    });
    facts
}

fn none(_: Method) -> Option<[f64; 3]> {
    None
}

fn unset(_: &str) -> Option<String> {
    None
}

#[test]
fn no_value_below_the_guarantee_is_advised() {
    let mut advised = 0;
    for system in System::ALL {
        let settings = SystemSettings::of(system);
        for platform in Platform::ALL {
            for facts in stacks(platform) {
                for whole_write in [None, Some(4096), Some(65536)] {
                    let facts = writing_whole(facts.clone(), whole_write);
                    for asked in ASKED {
                        let chosen = choose(settings, asked, platform, &[Some(&facts)], &none);
                        // Each setting that the platform has gets a value, unless none is advised.
                        let advised_by = |s: &&Setting| s.values.iter().any(|v| v.is_advised);
                        let most = settings.on(platform).filter(advised_by).count();
                        assert_eq!(chosen.len(), most, "{system:?}");
                        for c in &chosen {
                            let w = &c.judged;
                            assert!(w.promise.survives >= asked, "{system:?} {c:?}");
                            assert!(!w.promise.damages() && w.doubt.is_empty(), "{c:?}");
                            advised += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(advised > 3000, "{advised}");
}

#[test]
fn a_healthy_disk_gives_what_was_asked_for_and_memory_gives_nothing() {
    for system in System::ALL {
        let settings = SystemSettings::of(system);
        let linux = Platform::Linux;
        let [healthy, unknown, memory] = [
            facts(linux, FilesystemKind::InPlace, WriteCache::Back),
            facts(linux, FilesystemKind::InPlace, WriteCache::Unknown),
            facts(linux, FilesystemKind::Volatile, WriteCache::Unknown),
        ];
        for (facts, asked, answer) in [
            (&healthy, Guarantee::PowerLoss, Answer::Enough),
            (&healthy, Guarantee::ProcessCrash, Answer::Enough),
            (&unknown, Guarantee::PowerLoss, Answer::Doubtful),
            (&unknown, Guarantee::ProcessCrash, Answer::Enough),
            (&memory, Guarantee::PowerLoss, Answer::Below),
            (&memory, Guarantee::OsCrash, Answer::Below),
            (&memory, Guarantee::ProcessCrash, Answer::Enough),
        ] {
            let chosen = choose(settings, asked, linux, &[Some(facts)], &none);
            assert_eq!(weakest(&chosen, asked), answer, "{system:?} {asked}");
        }
    }
}

/// The values in force by default, as the manuals document them.
#[test]
fn defaults_are_known_values_and_their_promises_are_those_of_the_manuals() {
    for system in System::ALL {
        let settings = SystemSettings::of(system);
        for platform in Platform::ALL {
            for setting in settings.on(platform) {
                let default = setting.value(None, platform);
                assert!(default.is_some(), "{system:?} {}", setting.name);
            }
        }
    }
    let healthy = facts(Platform::Linux, FilesystemKind::InPlace, WriteCache::Back);
    for (system, name, survives) in [
        (System::Etcd, "unsafe-no-fsync", Guarantee::PowerLoss),
        (
            System::Postgresql,
            "synchronous_commit",
            Guarantee::PowerLoss,
        ),
        (System::Mysql, "sync_binlog", Guarantee::PowerLoss),
        (System::Mariadb, "sync_binlog", Guarantee::ProcessCrash),
        // Without WAL, the last commit may be rolled back.
        (System::Sqlite, "synchronous", Guarantee::ProcessCrash),
        (
            System::Kafka,
            "log.flush.interval.messages",
            Guarantee::ProcessCrash,
        ),
        (System::Redis, "appendonly", Guarantee::Nothing),
        (
            System::Nats,
            "jetstream.sync_interval",
            Guarantee::ProcessCrash,
        ),
        (System::Zookeeper, "forceSync", Guarantee::PowerLoss),
        (
            System::Rocksdb,
            "WriteOptions.sync",
            Guarantee::ProcessCrash,
        ),
        (System::Cassandra, "commitlog_sync", Guarantee::Nothing),
        (System::Mongodb, "defaultWriteConcern", Guarantee::PowerLoss),
    ] {
        let settings = SystemSettings::of(system);
        let setting = settings.settings.iter().find(|s| s.name == name).unwrap();
        let value = setting.value(None, Platform::Linux).unwrap();
        let judged = judge(settings, value, &unset, Some(&healthy));
        assert_eq!(judged.survives, survives, "{name}");
    }
}

/// Judges a text under the texts of other settings.
fn of(
    system: System,
    name: &str,
    text: &str,
    others: &[(&str, &str)],
    facts: Option<&Facts>,
) -> Judgement {
    let settings = SystemSettings::of(system);
    let setting = settings.settings.iter().find(|s| s.name == name).unwrap();
    let value = setting.value(Some(text), Platform::Linux).unwrap();
    let read = |name: &str| {
        let found = others.iter().find(|(n, _)| *n == name);
        found.map(|(_, text)| (*text).to_owned())
    };
    judge(settings, value, &read, facts)
}

#[test]
fn unsafe_values_are_below_whatever_is_asked_for() {
    let facts = facts(Platform::Linux, FilesystemKind::InPlace, WriteCache::Back);
    for (system, name, text) in [
        (System::Postgresql, "fsync", "off"),
        (System::Postgresql, "full_page_writes", "False"),
        (System::Postgresql, "data_sync_retry", "on"),
        (System::Redis, "appendfsync", "everysec"),
        (System::Mysql, "innodb_doublewrite", "0"),
        (System::Mysql, "innodb_doublewrite", "DETECT_ONLY"),
        (System::Mysql, "innodb_flush_method", "nosync"),
        // The device has a volatile cache.
        (System::Mysql, "innodb_flush_method", "O_DIRECT_NO_FSYNC"),
        (System::Mariadb, "debug_no_sync", "1"),
        (System::Sqlite, "synchronous", "OFF"),
        (System::Sqlite, "journal_mode", "off"),
        (System::Etcd, "unsafe-no-fsync", "true"),
        (System::Zookeeper, "forceSync", "no"),
    ] {
        let judged = of(system, name, text, &[], Some(&facts));
        for asked in ASKED {
            assert_eq!(judged.answer(asked), Answer::Below, "{name} {text} {asked}");
        }
    }
}

#[test]
fn a_value_counts_together_with_the_others() {
    let facts = facts(Platform::Linux, FilesystemKind::InPlace, WriteCache::Back);
    let wal = &[("journal_mode", "wal")][..];
    let three = &[("innodb_flush_log_at_trx_commit", "3")][..];
    for (system, name, text, others, survives) in [
        (
            System::Sqlite,
            "synchronous",
            "FULL",
            wal,
            Guarantee::PowerLoss,
        ),
        (
            System::Sqlite,
            "synchronous",
            "NORMAL",
            wal,
            Guarantee::ProcessCrash,
        ),
        (
            System::Sqlite,
            "synchronous",
            "FULL",
            &[],
            Guarantee::ProcessCrash,
        ),
        (
            System::Sqlite,
            "synchronous",
            "3",
            &[],
            Guarantee::PowerLoss,
        ),
        (
            System::Mariadb,
            "sync_binlog",
            "0",
            three,
            Guarantee::PowerLoss,
        ),
        (
            System::Mariadb,
            "sync_binlog",
            "0",
            &[],
            Guarantee::ProcessCrash,
        ),
        (
            System::Mysql,
            "sync_binlog",
            "0",
            three,
            Guarantee::ProcessCrash,
        ),
    ] {
        let judged = of(system, name, text, others, Some(&facts));
        assert_eq!(judged.survives, survives, "{name} {text} {others:?}");
    }
}

#[test]
fn a_page_that_the_device_writes_whole_makes_a_single_write_possible_but_not_certain() {
    let facts = facts(
        Platform::Linux,
        FilesystemKind::InPlace,
        WriteCache::Through,
    );
    let small = &[("innodb_page_size", "4k")][..];
    for (whole_write, others, answer) in [
        (None, &[][..], Answer::Below),
        (Some(8192), &[], Answer::Below),
        (Some(16384), &[], Answer::Doubtful),
        (Some(65536), &[], Answer::Doubtful),
        (Some(4096), small, Answer::Doubtful),
        (None, small, Answer::Below),
    ] {
        let facts = &writing_whole(facts.clone(), whole_write);
        for system in [System::Mysql, System::Mariadb] {
            let judged = of(system, "innodb_doublewrite", "off", others, Some(facts));
            assert_eq!(
                judged.answer(Guarantee::PowerLoss),
                answer,
                "{whole_write:?}"
            );
        }
        // PostgreSQL asks for no atomic writes.
        let judged = of(
            System::Postgresql,
            "full_page_writes",
            "off",
            &[],
            Some(facts),
        );
        assert_eq!(judged.answer(Guarantee::PowerLoss), Answer::Below);
    }
    // A device without a volatile cache keeps a direct write that nothing forces.
    let mut direct = facts.clone();
    direct.direct = Some(logforce_device::DirectAlignment {
        memory: 512,
        offset: 512,
    });
    let judged = of(
        System::Mysql,
        "innodb_flush_method",
        "O_DIRECT_NO_FSYNC",
        &[],
        Some(&direct),
    );
    assert_eq!(judged.answer(Guarantee::PowerLoss), Answer::Enough);
}

#[test]
fn another_call_is_advised_only_if_it_is_faster_beyond_the_noise() {
    let facts = facts(Platform::Linux, FilesystemKind::InPlace, WriteCache::Back);
    let settings = SystemSettings::of(System::Postgresql);
    let asked = Guarantee::PowerLoss;
    for (through, advised) in [
        ([0.2, 0.3, 0.4], "open_datasync"),
        ([0.2, 0.3, 1.1], "fdatasync"),
        ([0.9, 0.95, 0.99], "fdatasync"),
    ] {
        let times = |method: Method| match method {
            Method::Fdatasync => Some([1.0, 1.2, 1.5]),
            Method::Dsync => Some(through),
            _ => None,
        };
        let chosen = choose(settings, asked, Platform::Linux, &[Some(&facts)], &times);
        let method = chosen.iter().find(|c| c.setting.name == "wal_sync_method");
        let method = method.unwrap();
        assert_eq!(method.value.text, advised, "{through:?}");
        assert_eq!(method.why.is_empty(), advised == "fdatasync");
    }
}

/// On macOS fsync stops in the device's cache.
#[test]
fn macos_needs_the_full_fsync() {
    let facts = facts(Platform::Macos, FilesystemKind::InPlace, WriteCache::Back);
    for (system, name, text) in [
        (System::Postgresql, "wal_sync_method", "fsync_writethrough"),
        (System::Sqlite, "fullfsync", "ON"),
    ] {
        let settings = SystemSettings::of(system);
        let asked = Guarantee::PowerLoss;
        let chosen = choose(settings, asked, Platform::Macos, &[Some(&facts)], &none);
        let choice = chosen.iter().find(|c| c.setting.name == name).unwrap();
        assert_eq!(choice.value.text, text);
        assert_eq!(choice.judged.answer(asked), Answer::Enough);
    }
}

#[test]
fn a_disk_that_was_not_seen_leaves_a_doubt() {
    let on = of(System::Postgresql, "fsync", "on", &[], None);
    assert_eq!(on.answer(Guarantee::PowerLoss), Answer::Doubtful);
    let off = of(System::Postgresql, "fsync", "off", &[], None);
    assert_eq!(off.answer(Guarantee::PowerLoss), Answer::Below);
}

#[test]
fn the_data_is_well_formed() {
    for system in System::ALL {
        let settings = SystemSettings::of(system);
        let mut earlier: Vec<&str> = settings.also_read.iter().map(|(name, _)| *name).collect();
        for setting in settings.settings {
            assert!(setting.line.contains("{}"), "{}", setting.name);
            assert!(setting.manual.starts_with("https://"), "{}", setting.name);
            let conditions = setting.values.iter().filter_map(|v| v.unless);
            let conditions = conditions.map(|(c, _)| c).chain(setting.applies);
            for condition in conditions {
                assert!(earlier.contains(&condition.setting), "{}", setting.name);
            }
            for value in setting.values {
                // A value can be read back from the line that sets it.
                let text = Some(value.text).filter(|t| !t.is_empty());
                let found = setting.values.iter().find(|v| v.matches.fits(text));
                assert_eq!(found.map(|v| v.text), Some(value.text), "{}", setting.name);
            }
            earlier.push(setting.name);
        }
    }
}

#[test]
fn texts_are_understood_as_the_systems_do() {
    for (matches, text, fits) in [
        (Matches::On, Some("ON"), true),
        (Matches::On, Some("yes"), true),
        (Matches::Off, Some("0"), true),
        (Matches::On, Some("maybe"), false),
        (Matches::Number(2, 9), Some("9"), true),
        (Matches::Number(2, 9), Some("10"), false),
        (
            Matches::Number(2, 9),
            Some("99999999999999999999999"),
            false,
        ),
        (Matches::Duration, Some("2m"), true),
        (Matches::Duration, Some("10"), true),
        (Matches::Duration, Some("always"), false),
        (Matches::Duration, Some(""), false),
        (Matches::Duration, None, false),
        // ZooKeeper turns forces off for "no" alone.
        (Matches::Exactly("no"), Some("no"), true),
        (Matches::Exactly("no"), Some("No"), false),
        (Matches::Exactly("no"), Some("false"), false),
        (Matches::Except("no"), Some("NO"), true),
        (Matches::Except("no"), Some("0"), true),
        (Matches::Except("no"), Some("no"), false),
        (Matches::Except("no"), None, false),
        (Matches::Unset, None, true),
        (Matches::Unset, Some(""), false),
    ] {
        assert_eq!(matches.fits(text), fits, "{matches:?} {text:?}");
    }
}
