use super::*;
use logforce_device::{
    DirectAlignment, Facts, FileState, FilesystemKind, Guarantee, Method, Platform, Verdict,
};

/// Makes the answer of a controller.
fn identity(cache: u8) -> Vec<u8> {
    let mut data = vec![0; LEN];
    data[4..24].fill(b' ');
    data[24..64].fill(b' ');
    data[24..34].copy_from_slice(b"ACME NVMe9");
    data[64..72].copy_from_slice(b"1.02\0\x07  ");
    data[512] = 0x66;
    data[513] = 0x44;
    data[525] = cache;
    data
}

#[test]
fn what_a_controller_says_of_itself() {
    // The bits above the lowest one describe its flush command.
    for (cache, has) in [(0, false), (1, true), (6, false), (7, true)] {
        let found = controller(&identity(cache)).unwrap();
        assert_eq!(found.has_volatile_cache, has, "{cache}");
        assert_eq!((&*found.model, &*found.firmware), ("ACME NVMe9", "1.02"));
    }
}

#[test]
fn what_cannot_be_an_answer_is_none() {
    let whole = identity(1);
    for len in 0..526 {
        assert_eq!(controller(&whole[..len]), None, "{len}");
    }
    assert!(controller(&whole[..526]).is_some());
    // An empty answer of a driver that reports success says nothing about a cache.
    assert_eq!(controller(&[0; LEN]), None);
    assert_eq!(controller(&[0xff; LEN]), None);
    for at in [512, 513] {
        let mut other = identity(0);
        other[at] = 0;
        assert_eq!(controller(&other), None);
    }
    let mut nameless = identity(0);
    nameless[24..64].fill(b' ');
    assert_eq!(controller(&nameless), None);
}

fn facts(platform: Platform, write_cache: WriteCache) -> Facts {
    let mut device = BlockDevice::new("nvme9n1");
    (device.write_cache, device.cache_source) = (write_cache, Source::Device);
    (device.fua, device.rotational) = (Some(true), Some(false));
    device.physical_sector = 512;
    let mut facts = Facts::new(platform, "afs", FilesystemKind::InPlace);
    (facts.barriers, facts.device) = (Some(true), Some(device));
    facts.direct = Some(DirectAlignment {
        memory: 512,
        offset: 512,
    });
    facts
}

/// Makes the facts with the controller's answer in them.
fn weighed(platform: Platform, system: WriteCache, has: bool, is_off: bool) -> Facts {
    let mut facts = facts(platform, system);
    let found = controller(&identity(u8::from(has))).unwrap();
    let device = facts.device.as_mut().unwrap();
    weigh(&found, device, is_off, &mut facts.notes);
    facts
}

const SYSTEMS: [WriteCache; 3] = [WriteCache::Through, WriteCache::Back, WriteCache::Unknown];

/// Returns the strength of a verdict.
fn strength(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Proven => 3,
        Verdict::Declared => 2,
        Verdict::Unknown => 1,
        _ => 0,
    }
}

#[test]
fn no_answer_makes_a_guarantee_or_a_verdict_stronger() {
    for platform in Platform::ALL {
        for system in SYSTEMS {
            for (has, is_off) in [(false, false), (false, true), (true, false), (true, true)] {
                let (before, after) = (
                    facts(platform, system),
                    weighed(platform, system, has, is_off),
                );
                for &method in platform.methods() {
                    for state in FileState::ALL {
                        let was = before.assess(method, state).unwrap();
                        let is = after.assess(method, state).unwrap();
                        let case = format!("{method}, {system:?}, {has}, {is_off}");
                        assert!(is.guarantee <= was.guarantee, "{case}");
                        assert!(
                            is.guarantee < was.guarantee
                                || strength(is.verdict) <= strength(was.verdict),
                            "{case}"
                        );
                    }
                }
                assert_eq!(after.notes.len(), 1);
            }
        }
    }
}

#[test]
fn a_cache_that_the_system_does_not_flush_leaves_nothing_declared() {
    let after = weighed(Platform::Linux, WriteCache::Through, true, false);
    let forced = after.assess(Method::Fdatasync, FileState::Zeroed).unwrap();
    assert_eq!(forced.verdict, Verdict::Unknown, "{forced:?}");
    let bare = after.assess(Method::Direct, FileState::Zeroed).unwrap();
    assert_eq!(bare.guarantee, Guarantee::OsCrash, "{bare:?}");
    assert!(after.notes[0].contains("flushes nothing"));
}

#[test]
fn else_the_system_s_word_stands() {
    for (system, has, is_off) in [
        (WriteCache::Through, true, true),
        (WriteCache::Through, false, false),
        (WriteCache::Back, true, false),
        (WriteCache::Back, false, false),
        (WriteCache::Unknown, true, false),
        (WriteCache::Unknown, false, false),
    ] {
        let after = weighed(Platform::Windows, system, has, is_off);
        assert_eq!(after.device.as_ref().unwrap().write_cache, system);
        let note = &after.notes[0];
        assert!(note.contains("ACME NVMe9, firmware 1.02"), "{note}");
        assert_eq!(note.contains("no volatile"), !has, "{note}");
    }
}
