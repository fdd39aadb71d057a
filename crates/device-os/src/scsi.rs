//! Answers of SCSI and ATA disks about their cache: the caching mode page and IDENTIFY DEVICE. This module
//! makes no system calls.

/// Page code of the caching mode page (SBC-4, 6.5.6).
const CACHING: u8 = 0x08;

/// Properties of a disk's cache, by its own report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caching {
    /// True if the write cache is on (WCE).
    pub is_on: bool,
    /// True if the disk supports FUA (DPOFUA), if the answer includes that.
    pub fua: Option<bool>,
}

/// Parses the answer to MODE SENSE (6) for the caching page. `None` if the page is not in it. Bridges are known
/// to return another page, or all zeroes, so every length and the page's code are checked.
pub fn caching_page(answer: &[u8]) -> Option<Caching> {
    let (len, device_specific, descriptors) = (answer.first()?, answer.get(2)?, answer.get(3)?);
    let answer = answer.get(..usize::from(*len) + 1).unwrap_or(answer);
    let page = answer.get(4 + usize::from(*descriptors)..)?;
    let (code, page_len, flags) = (page.first()?, page.get(1)?, page.get(2)?);
    // The format with subpages has another layout.
    if code & 0x7f != CACHING || usize::from(*page_len) < 10 {
        return None;
    }
    Some(Caching {
        is_on: flags & 0x04 != 0,
        fua: Some(device_specific & 0x10 != 0),
    })
}

/// Properties of an ATA disk, by its own report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub model: String,
    pub firmware: String,
    /// State of the write cache; `None` if the disk has none.
    pub is_on: Option<bool>,
    /// True if the disk supports FUA writes.
    pub fua: bool,
}

/// Parses IDENTIFY DEVICE (ACS-4, 7.13): 256 words, little endian. `None` if it cannot be the answer of a disk.
pub fn identity(answer: &[u8]) -> Option<Identity> {
    if answer.len() < 512 {
        return None;
    }
    let word = |n: usize| u16::from_le_bytes([answer[2 * n], answer[2 * n + 1]]);
    // Words 82 to 87 are valid if bit 14 of word 83 is set and bit 15 is not. A device that is not an
    // ATA disk sets bit 15 of word 0.
    if word(0) & 0x8000 != 0 || word(83) & 0xc000 != 0x4000 {
        return None;
    }
    // Two characters a word, the first in the high byte.
    let text = |words: std::ops::Range<usize>| {
        let chars = words.flat_map(|n| word(n).to_be_bytes()).map(char::from);
        let text: String = chars
            .filter(|c| c.is_ascii_graphic() || *c == ' ')
            .collect();
        text.trim().to_owned()
    };
    let model = text(27..47);
    if model.is_empty() {
        return None;
    }
    let has_cache = word(82) & 0x20 != 0;
    Some(Identity {
        model,
        firmware: text(23..27),
        is_on: has_cache.then_some(word(85) & 0x20 != 0),
        fua: word(84) & 0xc040 == 0x4040,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answer of a disk with its cache on and DPOFUA: MODE SENSE (6) of an SAS disk. The header is that of
    /// `MODE SENSE: 9f 00 10 08` in a kernel's log.
    fn sas() -> Vec<u8> {
        let mut answer = vec![0x1f, 0x00, 0x10, 0x08];
        answer.extend([0, 0, 0, 0, 0, 0, 2, 0]);
        answer.extend([0x88, 0x12, 0x04, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
        answer.extend([0xff, 0xff, 0x80, 0x20, 0, 0, 0, 0, 0, 0]);
        answer
    }

    #[test]
    fn the_caching_page_says_whether_the_cache_is_on() {
        let on = Caching {
            is_on: true,
            fua: Some(true),
        };
        assert_eq!(caching_page(&sas()), Some(on));
        let mut off = sas();
        (off[2], off[14]) = (0, 0x10);
        let expected = Caching {
            is_on: false,
            fua: Some(false),
        };
        assert_eq!(caching_page(&off), Some(expected));
    }

    #[test]
    fn what_is_no_caching_page_is_no_answer() {
        // A bridge that answers with nothing but a header, with zeroes, with another page, or cut short.
        let mut other = sas();
        other[12] = 0x8a;
        let mut subpage = sas();
        subpage[12] |= 0x40;
        let mut cut = sas();
        cut[0] = 0x0d;
        for answer in [&[0x03, 0, 0, 0][..], &[0; 64], &other, &subpage, &cut, &[]] {
            assert_eq!(caching_page(answer), None, "{answer:x?}");
        }
        for len in 0..sas().len() {
            let _ = caching_page(&sas()[..len]);
        }
    }

    fn disk() -> Vec<u8> {
        let mut words = [0u16; 256];
        let mut put = |at: usize, text: &str| {
            for (n, pair) in text.as_bytes().chunks(2).enumerate() {
                words[at + n] = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&b' ')]);
            }
        };
        put(23, "LT2i    ");
        put(27, "INTEL SSDSCKJF360A5L                    ");
        words[0] = 0x0040;
        (words[82], words[83], words[84]) = (0x746b, 0x7d09, 0x6123);
        (words[85], words[86], words[87]) = (0x7469, 0xbc01, 0x6123);
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    #[test]
    fn identify_says_whether_there_is_a_cache_and_whether_it_is_on() {
        let found = identity(&disk()).unwrap();
        assert_eq!(
            (&*found.model, &*found.firmware),
            ("INTEL SSDSCKJF360A5L", "LT2i")
        );
        assert_eq!((found.is_on, found.fua), (Some(true), false));
        let mut off = disk();
        off[2 * 85] &= !0x20;
        off[2 * 84] |= 0x40;
        let off = identity(&off).unwrap();
        assert_eq!((off.is_on, off.fua), (Some(false), true));
        let mut none = disk();
        none[2 * 82] &= !0x20;
        assert_eq!(identity(&none).unwrap().is_on, None);
    }

    #[test]
    fn what_is_no_disk_is_no_answer() {
        assert_eq!(identity(&[0; 512]), None);
        assert_eq!(identity(&[0xff; 512]), None);
        assert_eq!(identity(&disk()[..511]), None);
        let mut nameless = disk();
        nameless[54..94].fill(b' ');
        assert_eq!(identity(&nameless), None);
        let mut packet = disk();
        packet[1] |= 0x80;
        assert_eq!(identity(&packet), None);
    }
}
