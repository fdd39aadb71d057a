//! What an NVMe controller says of itself (Identify Controller), taken apart by hand, and what it
//! adds to what the system says.
//!
//! It can take away from a verdict and never adds to one. That a controller has no volatile cache
//! says nothing of what lies between it and us, and a system that takes the cache for volatile sends
//! flushes, which cost nothing where there is none. That it has one does say something, where the
//! system takes it for absent and flushes nothing.

use logforce_device::{BlockDevice, Source, WriteCache};

/// Bytes of the structure.
pub const LEN: usize = 4096;

/// CNS of the structure in the Identify command.
pub const CNS_CONTROLLER: u32 = 1;

/// What a controller says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    pub model: String,
    pub firmware: String,
    /// It has a volatile write cache, be it on or off.
    pub has_volatile_cache: bool,
}

/// Takes the structure apart. `None` for what is too short, or cannot be the answer of a controller
/// of disks: drivers are known to succeed and leave the buffer as it was, and "no volatile cache"
/// is a zero.
pub fn controller(data: &[u8]) -> Option<Controller> {
    // The sizes of queue entries, as powers of two: 64 and 16 bytes, required of each controller.
    let (submission, completion) = (data.get(512)?, data.get(513)?);
    if (submission & 0xf, completion & 0xf) != (6, 4) {
        return None;
    }
    let model = text(data.get(24..64)?);
    if model.is_empty() {
        return None;
    }
    Some(Controller {
        model,
        firmware: text(data.get(64..72)?),
        has_volatile_cache: data.get(525)? & 1 != 0,
    })
}

/// ASCII, filled up with spaces.
fn text(bytes: &[u8]) -> String {
    let chars = bytes.iter().map(|b| char::from(*b));
    let text: String = chars
        .filter(|c| c.is_ascii_graphic() || *c == ' ')
        .collect();
    text.trim().to_owned()
}

/// Takes the controller's word into what is known of the device: a note always, and where it says
/// that it has a volatile cache and the system says that there is none, nobody knows. `is_off`: the
/// system says that the cache is there and switched off, which does not contradict it.
pub fn weigh(
    controller: &Controller,
    device: &mut BlockDevice,
    is_off: bool,
    notes: &mut Vec<String>,
) {
    let Controller {
        model,
        firmware,
        has_volatile_cache,
    } = controller;
    let who = format!("The NVMe controller ({model}, firmware {firmware}) says that it has");
    notes.push(match (has_volatile_cache, device.write_cache) {
        (true, WriteCache::Through) if is_off => {
            format!("{who} a volatile write cache; the system says that it is switched off.")
        }
        (true, WriteCache::Through) => {
            (device.write_cache, device.cache_source) = (WriteCache::Unknown, Source::Nobody);
            format!(
                "{who} a volatile write cache, and the system takes it for one without and flushes nothing. Unless the cache was switched off in the device, what was forced can be lost with the power: have the system take the cache for volatile, or switch it off."
            )
        }
        (true, _) => format!("{who} a volatile write cache."),
        (false, WriteCache::Back) => format!(
            "{who} no volatile write cache. The system says otherwise, and is believed: the flushes that it sends cost little on such a device."
        ),
        (false, _) => format!("{who} no volatile write cache."),
    });
}

#[cfg(test)]
mod tests;
