use super::*;
use logforce_device::{BlockDevice, FilesystemKind, Source, WriteCache};
use logforce_systems::System;

fn disk(kind: FilesystemKind) -> Facts {
    let mut facts = Facts::new(Platform::Linux, "fs", kind);
    facts.barriers = Some(true);
    facts.journalled = Some(true);
    let mut device = BlockDevice::new("disk");
    device.write_cache = WriteCache::Back;
    device.cache_source = Source::Device;
    facts.device = Some(device);
    facts
}

fn court<'a>(system: System, asked: Guarantee, disks: &[&'a Facts]) -> Court<'a> {
    Court {
        settings: SystemSettings::of(system),
        asked,
        platform: Platform::Linux,
        disks: disks.iter().map(|d| Some(*d)).collect(),
    }
}

fn configuration(settings: &[(&'static str, String)]) -> Configuration {
    let found = settings.iter().map(|(name, value)| Found {
        name,
        value: value.clone(),
        place: "x:1".to_owned(),
    });
    Configuration {
        found: found.collect(),
        unread: Vec::new(),
    }
}

/// Judges these settings.
fn judged(court: &Court<'_>, settings: &[(&'static str, String)]) -> Vec<InForce> {
    let choices = court.choose(&Costs::missing("not in this test"));
    court.in_force(&configuration(settings), &[], &choices)
}

/// Applies the changes that the lines advise.
fn changed(
    court: &Court<'_>,
    settings: &[(&'static str, String)],
    lines: &[InForce],
) -> Vec<(&'static str, String)> {
    let removed = |name: &str| lines.iter().any(|l| l.remove && l.name == name);
    let mut settings = settings.to_vec();
    settings.retain(|(name, _)| !removed(name));
    for change in lines.iter().filter_map(|l| l.change.as_ref()) {
        for setting in court.settings.on(court.platform) {
            let all = setting.values.iter().filter(|v| !v.text.is_empty());
            let set = all.filter(|v| change.contains(&line(setting, v).unwrap()));
            // `1` stands in `100` too: the longest text counts.
            if let Some(value) = set.max_by_key(|v| v.text.len()) {
                settings.push((setting.name, value.text.to_owned()));
            }
        }
    }
    settings
}

/// Returns all combinations of the values of a system.
fn combinations(court: &Court<'_>) -> Vec<Vec<(&'static str, String)>> {
    let mut all = vec![Vec::new()];
    for setting in court.settings.on(court.platform) {
        let texts = setting.values.iter().map(|v| v.text);
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        all = all
            .iter()
            .flat_map(|some| {
                let with = |text: &&str| {
                    let mut more = some.clone();
                    more.push((setting.name, (*text).to_owned()));
                    more
                };
                std::iter::once(some.clone()).chain(texts.iter().map(with))
            })
            .collect();
    }
    all
}

/// Whatever was set: after all advised changes nothing is below the guarantee, and no further change is advised.
#[test]
fn the_advised_changes_suffice_from_every_combination_of_values() {
    let disk = disk(FilesystemKind::InPlace);
    let mut seen = 0;
    for system in System::ALL {
        for asked in [Guarantee::ProcessCrash, Guarantee::PowerLoss] {
            let court = court(system, asked, &[&disk]);
            for settings in combinations(&court) {
                let before = judged(&court, &settings);
                let after = judged(&court, &changed(&court, &settings, &before));
                for l in &after {
                    let context =
                        format!("{system} {asked} {settings:?}: {} {:?}", l.name, l.change);
                    assert_ne!(l.answer, name(Answer::Below), "{context}");
                    assert!(l.change.is_none() && !l.remove, "{context}");
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 2000, "{seen}");
}

#[test]
fn a_setting_that_takes_effect_by_an_advised_change_is_listed_with_its_own() {
    let disk = disk(FilesystemKind::InPlace);
    for (system, settings, changes) in [
        (
            System::Postgresql,
            &[("fsync", "off"), ("synchronous_commit", "off")][..],
            &["fsync = on", "synchronous_commit = on"][..],
        ),
        (
            System::Redis,
            &[("appendonly", "no"), ("appendfsync", "everysec")],
            &["appendonly yes", "appendfsync always"],
        ),
        (
            System::Redis,
            &[],
            &["appendonly yes", "appendfsync always"],
        ),
        (
            System::Sqlite,
            &[("journal_mode", "DELETE"), ("synchronous", "NORMAL")],
            &["PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"],
        ),
        // The binary log is off, and stays so.
        (System::Mariadb, &[("sync_binlog", "0")], &[]),
    ] {
        let settings: Vec<_> = settings
            .iter()
            .map(|(n, v)| (*n, (*v).to_owned()))
            .collect();
        for asked in [Guarantee::PowerLoss, Guarantee::ProcessCrash] {
            let lines = judged(&court(system, asked, &[&disk]), &settings);
            let found: Vec<&str> = lines.iter().filter_map(|l| l.change.as_deref()).collect();
            if asked == Guarantee::PowerLoss {
                assert_eq!(found, changes, "{system}");
            } else if system != System::Sqlite {
                // These lose commits by a crash of the process alone.
                assert_eq!(found, changes, "{system}");
            }
            let below = lines.iter().filter(|l| l.answer == name(Answer::Below));
            assert_eq!(below.count(), found.len(), "{system} {asked}");
        }
    }
}

#[test]
fn the_weakest_of_several_disks_decides() {
    let (good, volatile) = (
        disk(FilesystemKind::InPlace),
        disk(FilesystemKind::Volatile),
    );
    let asked = Guarantee::PowerLoss;
    let settings = [("fsync", "on".to_owned())];
    for (disks, answer) in [
        (&[&good][..], Answer::Enough),
        (&[&good, &good], Answer::Enough),
        (&[&good, &volatile], Answer::Below),
        (&[&volatile, &good], Answer::Below),
    ] {
        let mut court = court(System::Postgresql, asked, disks);
        let worst = |court: &Court<'_>| {
            let lines = judged(court, &settings);
            lines.iter().map(|l| self::answer(l.answer)).min().unwrap()
        };
        assert_eq!(worst(&court), answer);
        court.disks.push(None);
        assert_eq!(worst(&court), answer.min(Answer::Doubtful));
    }
}

/// The repair after a crash may overwrite what was forced.
#[test]
fn an_ext4_without_a_journal_is_never_called_safe() {
    let mut facts = disk(FilesystemKind::InPlace);
    facts.journalled = Some(false);
    for system in System::ALL {
        for (asked, answer) in [
            (Guarantee::PowerLoss, Answer::Doubtful),
            (Guarantee::OsCrash, Answer::Doubtful),
            (Guarantee::ProcessCrash, Answer::Enough),
        ] {
            let court = court(system, asked, &[&facts]);
            let choices = court.choose(&Costs::missing("not in this test"));
            assert_eq!(
                settings::weakest(&choices, asked),
                answer,
                "{system} {asked}"
            );
            let forces = choices.iter().filter_map(|c| c.judged.force.as_ref());
            for force in forces {
                assert!(force.evidence.contains("e2fsck"), "{}", force.evidence);
            }
        }
    }
}
