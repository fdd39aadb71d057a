use logforce_device::{Facts, Platform};

/// Version of the measuring procedure: samples, candidates and rules. Evidence of another version is not
/// used.
const PROCEDURE: u32 = 1;

/// Maximum length of a text in the evidence, in bytes. Longer texts are cut, and a checksum of the whole text
/// is appended.
pub(crate) const LONGEST: usize = 400;

/// Conditions under which evidence is valid: the directory's filesystem and device as the system describes
/// them. All fields must be equal. An unknown field is empty, and must be unknown again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ValidFor {
    /// Identity of the filesystem: [`Facts::volume`].
    pub volume: String,
    /// Name of the filesystem.
    pub filesystem: String,
    /// Mount options.
    pub mount_options: String,
    /// Kernel name of the block device.
    pub device: String,
    /// Model of the block device.
    pub model: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Unit of the log's writes, in bytes.
    pub write_unit: u32,
    /// True if methods past the system's cache were compared too. Files with writes of any length cannot use
    /// them, so their result is another one.
    pub direct: bool,
    /// Version of the measuring procedure.
    pub procedure: u32,
}

impl ValidFor {
    /// Returns the conditions of a measurement that is made now, with these facts.
    pub fn now(facts: &Facts, write_unit: u32) -> Self {
        let device = |of: fn(&logforce_device::BlockDevice) -> &str| {
            facts.device.as_ref().map(of).unwrap_or_default()
        };
        ValidFor {
            volume: bounded(&facts.volume),
            filesystem: bounded(&facts.filesystem),
            mount_options: bounded(&facts.mount_options),
            device: bounded(device(|d| &d.name)),
            model: bounded(device(|d| &d.model)),
            // Names the platform, because another system uses other calls, perhaps on the same disk.
            kernel: match facts.platform {
                Platform::Linux => bounded(&facts.kernel),
                other => bounded(&format!("{other} {}", facts.kernel)),
            },
            write_unit,
            direct: facts.direct.is_some(),
            procedure: PROCEDURE,
        }
    }

    /// Returns true if all texts are as short as those of [`now`](Self::now).
    pub(crate) fn is_bounded(&self) -> bool {
        [
            &self.volume,
            &self.filesystem,
            &self.mount_options,
            &self.device,
            &self.model,
            &self.kernel,
        ]
        .into_iter()
        .all(|t| t.len() <= LONGEST)
    }
}

/// Returns the text, or its beginning with a checksum (FNV-1a) of the whole text. The mount options of an
/// overlay can be pages long.
pub(crate) fn bounded(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    });
    let mut cut = LONGEST - 20;
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}…{sum:016x}", &text[..cut])
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_testkit::SimOptions;

    #[test]
    fn every_part_counts() {
        let facts = SimOptions::default().facts();
        let key = ValidFor::now(&facts, 4096);
        assert_eq!(key, ValidFor::now(&facts, 4096));
        assert_ne!(key, ValidFor::now(&facts, 8192));
        let changes: [fn(&mut Facts); 8] = [
            |f| f.platform = Platform::Windows,
            |f| f.volume.push('x'),
            |f| f.filesystem.push('x'),
            |f| f.mount_options.push_str(",noatime"),
            |f| f.kernel.push('x'),
            |f| f.device = None,
            |f| f.direct = None,
            |f| {
                if let Some(d) = &mut f.device {
                    d.model.push('x');
                }
            },
        ];
        for change in changes {
            let mut other = facts.clone();
            change(&mut other);
            assert_ne!(key, ValidFor::now(&other, 4096));
        }
    }

    #[test]
    fn long_options_are_cut_and_still_told_apart() {
        let mut facts = SimOptions::default().facts();
        facts.mount_options = format!("lowerdir={}", "ä:/x".repeat(5000));
        let key = ValidFor::now(&facts, 4096);
        assert!(key.is_bounded(), "{}", key.mount_options.len());
        facts.mount_options.push('y');
        assert_ne!(key, ValidFor::now(&facts, 4096));
    }
}
