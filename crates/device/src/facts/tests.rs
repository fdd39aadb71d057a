use super::*;

fn facts(platform: Platform, write_cache: WriteCache, fua: Option<bool>) -> Facts {
    let alignment = DirectAlignment {
        memory: 4096,
        offset: 4096,
    };
    Facts {
        barriers: Some(true),
        device: Some(BlockDevice {
            write_cache,
            cache_source: Source::Device,
            fua,
            ..BlockDevice::new("disk")
        }),
        direct: Some(alignment),
        ..Facts::new(platform, "fs", FilesystemKind::InPlace)
    }
}

fn of(facts: &Facts, method: Method) -> (Guarantee, Verdict) {
    let a = facts.assess(method, FileState::Zeroed).unwrap();
    assert!(!a.evidence.is_empty());
    (a.guarantee, a.verdict)
}

#[test]
fn facts_with_nothing_known_promise_no_durability() {
    use FilesystemKind::*;
    for platform in Platform::ALL {
        for kind in [InPlace, Relocating, Volatile, Remote, Other] {
            let mut facts = Facts::new(platform, "fs", kind);
            for device in [None, Some(BlockDevice::new("disk"))] {
                facts.device = device;
                let methods = platform.methods().iter();
                let assessed = methods.filter_map(|m| facts.assess(*m, FileState::Zeroed));
                for a in assessed.chain([facts.write_through()]) {
                    let is_met = a.meets(Guarantee::PowerLoss, Verdict::Declared);
                    assert!(!is_met, "{platform} {kind:?} {a:?}");
                }
            }
        }
    }
}

const THROUGH: [Method; 2] = [Method::WriteThrough, Method::NoBufferingWriteThrough];

/// A segment is zero-filled where a force may not record that a block holds data now, or where that is
/// unknown.
#[test]
fn first_writes_are_forced_on_linux_by_a_journal() {
    let on = |platform, kind, journalled| {
        let known = facts(platform, WriteCache::Back, None);
        let known = Facts {
            kind,
            journalled,
            ..known
        };
        known.forces_first_writes()
    };
    use FilesystemKind::*;
    assert!(on(Platform::Linux, InPlace, Some(true)));
    for journalled in [Some(false), None] {
        assert!(!on(Platform::Linux, InPlace, journalled));
    }
    for kind in [Relocating, Volatile, Remote, Other] {
        assert!(!on(Platform::Linux, kind, Some(true)));
    }
    for platform in [Platform::Windows, Platform::Macos] {
        assert!(!on(platform, InPlace, Some(true)));
    }
}

#[test]
fn methods_of_another_system_are_not_offered() {
    for platform in Platform::ALL {
        let facts = facts(platform, WriteCache::Back, None);
        for method in Method::ALL {
            let offered = facts.assess(method, FileState::Zeroed).is_some();
            assert_eq!(offered, method.is_of(platform), "{platform} {method}");
            if !offered {
                let why = facts.why_not_offered(method);
                assert!(why.contains(platform.name()), "{why}");
            }
        }
        assert!(facts.default_method().is_of(platform));
    }
}

#[test]
fn write_through_is_worth_what_the_device_says() {
    let known = [
        (
            WriteCache::Back,
            None,
            Guarantee::PowerLoss,
            Verdict::Unknown,
        ),
        (
            WriteCache::Unknown,
            None,
            Guarantee::PowerLoss,
            Verdict::Unknown,
        ),
        (
            WriteCache::Back,
            Some(true),
            Guarantee::PowerLoss,
            Verdict::Declared,
        ),
        (
            WriteCache::Back,
            Some(false),
            Guarantee::OsCrash,
            Verdict::Contradicted,
        ),
        (
            WriteCache::Through,
            Some(false),
            Guarantee::PowerLoss,
            Verdict::Declared,
        ),
    ];
    for (cache, fua, guarantee, verdict) in known {
        let windows = facts(Platform::Windows, cache, fua);
        for method in THROUGH {
            assert_eq!(of(&windows, method), (guarantee, verdict), "{cache:?}");
        }
        assert_eq!(windows.write_through().verdict, verdict);
        // Linux completes such a write by a flush where there is no FUA.
        let linux = facts(Platform::Linux, WriteCache::Back, fua);
        let durable = (Guarantee::PowerLoss, Verdict::Declared);
        assert_eq!(of(&linux, Method::DirectDsync), durable);
    }
}

#[test]
fn a_layer_below_does_not_answer_for_the_filesystem_above() {
    let declared = |source| {
        let synced = Assessment::new(Guarantee::PowerLoss, Verdict::Declared, source, "it says");
        let mut layer = Layer::new("disk", synced);
        layer.written = Guarantee::PowerLoss;
        layer
    };
    let mut linux = facts(Platform::Linux, WriteCache::Back, None);
    linux.layers = vec![Layer::passing("above", ""), declared(Source::Hypervisor)];
    let a = linux.assess(Method::Fsync, FileState::Zeroed).unwrap();
    assert_eq!(a.source, Source::Hypervisor, "the least reliable party");
    // The disk says that a flush is durable, but it is unknown whether one is sent.
    linux.layers = vec![declared(Source::Device)];
    assert_eq!(of(&linux, Method::Fsync).1, Verdict::Declared);
    linux.barriers = None;
    assert_eq!(of(&linux, Method::Fsync).1, Verdict::Unknown);
    linux.barriers = Some(false);
    let dropped = (Guarantee::OsCrash, Verdict::Contradicted);
    assert_eq!(of(&linux, Method::Fsync), dropped);
    assert_eq!(linux.write_through().verdict, Verdict::Contradicted);
}

/// A filesystem that moves a file's blocks has to record the move too.
#[test]
fn a_write_through_of_windows_is_not_taken_at_the_devices_word_where_data_moves() {
    for kind in [FilesystemKind::Relocating, FilesystemKind::Other] {
        let mut moving = facts(Platform::Windows, WriteCache::Back, Some(true));
        moving.kind = kind;
        let a = moving.write_through();
        assert_eq!(a.verdict, Verdict::Unknown, "{kind:?}");
        assert!(a.evidence.contains(&moving.filesystem), "{}", a.evidence);
        moving.device.as_mut().unwrap().fua = Some(false);
        assert_eq!(moving.write_through().verdict, Verdict::Contradicted);
        // On Linux the filesystem completes what the descriptor asks for.
        moving.platform = Platform::Linux;
        moving.device.as_mut().unwrap().fua = Some(true);
        assert_eq!(moving.write_through().verdict, Verdict::Declared);
    }
}

#[test]
fn the_default_of_windows_is_a_flush_whatever_the_device_says_of_write_through() {
    for fua in [None, Some(false), Some(true)] {
        for cache in [WriteCache::Back, WriteCache::Through, WriteCache::Unknown] {
            let facts = facts(Platform::Windows, cache, fua);
            assert_eq!(facts.default_method(), Method::Flush);
        }
    }
    let back = facts(Platform::Windows, WriteCache::Back, None);
    let durable = (Guarantee::PowerLoss, Verdict::Declared);
    assert_eq!(of(&back, Method::Flush), durable);
    assert_eq!(of(&back, Method::FlushData), durable);
    let process = (Guarantee::ProcessCrash, Verdict::Declared);
    assert_eq!(of(&back, Method::Buffered), process);
    let os = (Guarantee::OsCrash, Verdict::Declared);
    assert_eq!(of(&back, Method::NoBuffering), os);
    // The user configured Windows to send no flushes, which proves nothing about the cache.
    let mut configured = back;
    configured.barriers = Some(false);
    let dropped = (Guarantee::OsCrash, Verdict::Contradicted);
    for method in [Method::Flush, Method::FlushData, Method::WriteThrough] {
        assert_eq!(of(&configured, method), dropped);
    }
    // A device without a cache needs no flush.
    let mut none = facts(Platform::Windows, WriteCache::Through, None);
    none.barriers = Some(false);
    for method in [Method::Flush, Method::FlushData, Method::WriteThrough] {
        assert_eq!(of(&none, method), durable);
    }
    // Each platform has its own wording.
    for mut facts in [configured, none] {
        let evidence = |facts: &Facts| {
            let flush = facts.default_method();
            facts.assess(flush, FileState::Zeroed).unwrap().evidence
        };
        let said = evidence(&facts);
        assert!(said.contains("is configured not to flush") && !said.contains("mounted"));
        facts.platform = Platform::Linux;
        assert!(evidence(&facts).contains("mounted without barriers"));
    }
}

/// Windows and macOS promise that a flush reaches the medium. Linux promises only the flush that the device
/// reports. A promise that the device contradicts does not count.
#[test]
fn a_flush_that_the_system_promises_needs_no_word_of_the_device() {
    for (platform, source, verdict) in [
        (Platform::Windows, Source::System, Verdict::Declared),
        (Platform::Macos, Source::System, Verdict::Declared),
        (Platform::Windows, Source::Nobody, Verdict::Unknown),
        (Platform::Linux, Source::Nobody, Verdict::Unknown),
    ] {
        let mut facts = facts(platform, WriteCache::Unknown, None);
        facts.device.as_mut().unwrap().cache_source = source;
        let method = facts.default_method();
        let method = if platform == Platform::Linux {
            Method::Fsync
        } else {
            method
        };
        let a = facts.assess(method, FileState::Zeroed).unwrap();
        assert_eq!((a.verdict, a.source), (verdict, source), "{a:?}");
        let is_met = a.meets(Guarantee::PowerLoss, Verdict::Declared);
        assert_eq!(is_met, verdict == Verdict::Declared);
        if source == Source::System {
            facts.device = None;
            let a = facts.assess(method, FileState::Zeroed).unwrap();
            assert_eq!(a.verdict, Verdict::Declared, "{a:?}");
        }
    }
}

#[test]
fn on_macos_only_a_full_fsync_reaches_the_medium() {
    let mac = facts(Platform::Macos, WriteCache::Back, None);
    let os = (Guarantee::OsCrash, Verdict::Declared);
    assert_eq!(of(&mac, Method::Fsync), os);
    assert_eq!(of(&mac, Method::OrderBarrier), os);
    let durable = (Guarantee::PowerLoss, Verdict::Declared);
    for method in [Method::FullFsync, Method::NocacheFullFsync] {
        assert_eq!(of(&mac, method), durable);
    }
    assert_eq!(mac.default_method(), Method::FullFsync);
    assert!(!mac.reads_medium());
    let linux = facts(Platform::Linux, WriteCache::Back, None);
    assert_eq!(of(&linux, Method::Fsync), durable);
    assert!(linux.reads_medium());
    // Core asks for this barrier whatever the method.
    let barrier = Plan {
        direct: false,
        force: ForceBy::Barrier(Barrier::Data),
    };
    let asked = mac.assess_plan(barrier, FileState::Zeroed).unwrap();
    assert_eq!(asked.guarantee, Guarantee::PowerLoss);
}

/// The repair of an ext4 without a journal may overwrite forced blocks. It makes no other verdict better or worse.
#[test]
fn a_repair_makes_a_declared_guarantee_unknown() {
    let mut facts = Facts::new(Platform::Linux, "ext4", FilesystemKind::InPlace);
    let after = |facts: &Facts, guarantee, verdict| {
        let a = Assessment::new(guarantee, verdict, Source::Device, "as before");
        let a = facts.after_repair(a);
        (a.verdict, a.evidence != "as before")
    };
    for journalled in [None, Some(true), Some(false)] {
        facts.journalled = journalled;
        for verdict in [
            Verdict::Contradicted,
            Verdict::Implausible,
            Verdict::Unknown,
            Verdict::Declared,
            Verdict::Proven,
        ] {
            for guarantee in Guarantee::ALL {
                let is_doubted = journalled == Some(false)
                    && verdict == Verdict::Declared
                    && guarantee > Guarantee::ProcessCrash;
                let expected = if is_doubted {
                    Verdict::Unknown
                } else {
                    verdict
                };
                assert_eq!(
                    after(&facts, guarantee, verdict),
                    (expected, is_doubted),
                    "{journalled:?} {guarantee} {verdict}"
                );
            }
        }
    }
}
