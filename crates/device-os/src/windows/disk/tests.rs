use super::*;
use crate::nvme::LEN;
use logforce_device::{Facts, FilesystemKind, Guarantee, Platform, Verdict};
use std::cell::Cell;

/// Disk with answers from the test. It refuses queries without an answer.
#[derive(Debug, Default)]
pub struct MadeUp {
    pub about: Option<Vec<u8>>,
    pub sectors: Option<Vec<u8>>,
    pub seeks: Option<Vec<u8>>,
    pub cache: Option<Vec<u8>>,
    pub identity: Option<Vec<u8>>,
    identified: Cell<u32>,
}

impl Ask for &MadeUp {
    fn name(&self) -> &str {
        "PhysicalDrive9"
    }

    fn ask(&self, question: Question) -> io::Result<Vec<u8>> {
        let answer = match question {
            Question::Device => &self.about,
            Question::Alignment => &self.sectors,
            Question::SeekPenalty => &self.seeks,
            Question::WriteCache => &self.cache,
        };
        answer.clone().ok_or(io::ErrorKind::Unsupported.into())
    }

    fn identify(&self) -> io::Result<Vec<u8>> {
        self.identified.set(self.identified.get() + 1);
        self.identity
            .clone()
            .ok_or(io::ErrorKind::Unsupported.into())
    }
}

/// `WriteCacheType`.
const NONE: u32 = 1;
const BACK: u32 = 2;
const THROUGH: u32 = 3;
/// `WriteCacheEnabled`.
const OFF: u32 = 1;
const ON: u32 = 2;
/// `WriteThrough`.
const SUPPORTED: u32 = 2;
/// `BusType`.
const SATA: u32 = 11;
const NVME: u32 = 17;

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// Makes the `STORAGE_WRITE_CACHE_PROPERTY` of a cache that can be flushed.
fn cache(kind: u32, enabled: u32, through: u32, protected: bool) -> Vec<u8> {
    let mut bytes = numbers(&[1, 28, kind, enabled, 0, through]);
    bytes.extend([1, u8::from(protected), 0, 0]);
    bytes
}

/// `STORAGE_DEVICE_DESCRIPTOR`.
fn about(bus: u32) -> Vec<u8> {
    let mut bytes = numbers(&[40, 48, 0, 0, 40, 0, 0, bus, 0, 0]);
    bytes.extend(b"Disk 9\0");
    bytes
}

/// Makes the `STORAGE_PROTOCOL_DATA_DESCRIPTOR` with a controller's answer about itself.
fn identity(has_volatile_cache: bool) -> Vec<u8> {
    let mut data = vec![0; LEN];
    data[24..64].fill(b' ');
    data[24..28].copy_from_slice(b"ACME");
    (data[512], data[513], data[525]) = (0x66, 0x44, u8::from(has_volatile_cache));
    let mut bytes = numbers(&[48, 48, 3, 1, 1, 0, 40, LEN as u32, 0, 0, 0, 0]);
    bytes.extend(data);
    bytes
}

/// Makes a disk that answers every query. Its cache can be flushed, and is not configured as protected.
fn talkative(through: u32) -> MadeUp {
    MadeUp {
        about: Some(about(SATA)),
        sectors: Some(numbers(&[1, 28, 0, 0, 512, 4096, 0])),
        seeks: Some([numbers(&[1, 12]), vec![1, 0, 0, 0]].concat()),
        cache: Some(cache(BACK, ON, through, false)),
        ..MadeUp::default()
    }
}

/// Makes a disk whose cache is configured in Windows as protected.
pub fn told_protected() -> MadeUp {
    MadeUp {
        cache: Some(cache(BACK, ON, SUPPORTED, true)),
        ..talkative(SUPPORTED)
    }
}

fn asked(disk: &MadeUp) -> (Below, Vec<String>) {
    let mut notes = Vec::new();
    (below(Some(Ok(disk)), &mut notes), notes)
}

/// Makes the facts over such a disk.
fn facts(below: Below) -> Facts {
    let mut facts = Facts::new(Platform::Windows, "NTFS", FilesystemKind::InPlace);
    facts.mount_options = below.options;
    facts.barriers = Some(below.barriers);
    facts.device = below.device;
    facts
}

#[test]
fn all_that_a_disk_says_is_in_the_facts() {
    let (below, notes) = asked(&talkative(SUPPORTED));
    let mut device = BlockDevice::new("PhysicalDrive9");
    (device.write_cache, device.cache_source) = (WriteCache::Back, Source::Device);
    (device.logical_sector, device.physical_sector) = (512, 4096);
    (device.fua, device.rotational) = (Some(true), Some(true));
    device.model = "Disk 9".to_owned();
    let all = Below {
        device: Some(device),
        barriers: true,
        options: String::new(),
    };
    assert_eq!(below, all);
    assert_eq!(notes, [""; 0]);
}

#[test]
fn write_through_is_what_the_disk_says_and_no_more() {
    let of = |disk: &MadeUp| {
        let (below, _) = asked(disk);
        let fua = below.device.as_ref().unwrap().fua;
        (fua, facts(below).write_through().verdict)
    };
    assert_eq!(of(&talkative(0)), (None, Verdict::Unknown));
    assert_eq!(of(&talkative(1)), (Some(false), Verdict::Contradicted));
    assert_eq!(of(&talkative(SUPPORTED)), (Some(true), Verdict::Declared));
    assert_eq!(of(&talkative(77)), (None, Verdict::Unknown));
    let silent = MadeUp {
        cache: None,
        ..talkative(SUPPORTED)
    };
    assert_eq!(of(&silent), (None, Verdict::Unknown));
    let short = MadeUp {
        cache: Some(cache(NONE, OFF, SUPPORTED, false)[..20].to_vec()),
        ..talkative(SUPPORTED)
    };
    assert_eq!(of(&short), (None, Verdict::Unknown));
}

#[test]
fn a_cache_that_windows_was_told_is_protected_gets_no_flushes() {
    let (below, notes) = asked(&told_protected());
    assert!(!below.barriers);
    assert_eq!(below.options, "write-cache buffer flushing turned off");
    assert!(notes.iter().any(|n| n.contains("no proof")), "{notes:?}");
    let through = facts(below).write_through();
    let dropped = (Guarantee::OsCrash, Verdict::Contradicted);
    assert_eq!((through.guarantee, through.verdict), dropped);
}

#[test]
fn an_nvme_controller_weighs_against_a_cache_that_is_said_not_to_be() {
    let cache_of = |bus, kind, enabled, volatile| {
        let disk = MadeUp {
            about: Some(about(bus)),
            cache: Some(cache(kind, enabled, SUPPORTED, false)),
            identity: Some(identity(volatile)),
            ..talkative(SUPPORTED)
        };
        let (below, notes) = asked(&disk);
        let noted = notes.iter().any(|n| n.contains("NVMe controller (ACME"));
        assert_eq!(noted, bus == NVME, "{notes:?}");
        assert_eq!(disk.identified.get(), u32::from(bus == NVME));
        below.device.unwrap().write_cache
    };
    for kind in [NONE, THROUGH] {
        assert_eq!(cache_of(NVME, kind, ON, true), WriteCache::Unknown);
        assert_eq!(cache_of(NVME, kind, ON, false), WriteCache::Through);
        assert_eq!(cache_of(SATA, kind, ON, true), WriteCache::Through);
    }
    // A cache that exists and is off does not contradict, and no answer makes a verdict stronger.
    assert_eq!(cache_of(NVME, BACK, OFF, true), WriteCache::Through);
    assert_eq!(cache_of(NVME, BACK, ON, false), WriteCache::Back);
    assert_eq!(cache_of(NVME, 0, 0, false), WriteCache::Unknown);
}

#[test]
fn what_is_refused_is_noted_and_nothing_is_made_of_it() {
    let (below, notes) = asked(&MadeUp::default());
    let device = below.device.as_ref().unwrap();
    assert_eq!(
        (device.write_cache, device.fua),
        (WriteCache::Unknown, None)
    );
    assert_eq!((device.logical_sector, device.rotational), (512, None));
    assert_eq!((&*device.model, below.barriers), ("", true));
    let said = [
        "its sector sizes",
        "whether it is rotational",
        "its model",
        "its cache",
    ];
    assert_eq!(notes.len(), said.len());
    for (note, what) in notes.iter().zip(said) {
        assert!(
            note.starts_with(&format!("The disk does not report {what}: ")),
            "{note}"
        );
    }
    for (identity, what) in [
        (None, "reports no identity"),
        (Some(vec![0; 48]), "makes no sense"),
        (Some(vec![0; 48 + LEN]), "makes no sense"),
    ] {
        let disk = MadeUp {
            about: Some(about(NVME)),
            cache: Some(cache(NONE, OFF, 0, false)),
            identity,
            ..talkative(0)
        };
        let (below, notes) = asked(&disk);
        assert!(notes.len() == 1 && notes[0].contains(what), "{notes:?}");
        assert_eq!(below.device.unwrap().write_cache, WriteCache::Through);
    }
}

#[test]
fn where_there_is_no_disk_to_ask_nothing_is_said_of_one() {
    let mut notes = Vec::new();
    let nothing = Below {
        device: None,
        barriers: true,
        options: String::new(),
    };
    assert_eq!(below::<&MadeUp>(None, &mut notes), nothing);
    assert_eq!(notes, [""; 0]);
    let refused = io::Error::other("type 2, which is not a disk");
    assert_eq!(below::<&MadeUp>(Some(Err(refused)), &mut notes), nothing);
    assert!(notes.len() == 1 && notes[0].contains("type 2"), "{notes:?}");
}
