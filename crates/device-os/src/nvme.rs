//! Answer of an NVMe controller about itself (Identify Controller), and its effect on the facts from the
//! system.
//!
//! The answer can weaken a verdict and never strengthens one. A controller without a volatile cache proves
//! nothing about the layers above it. If the system nevertheless takes the cache for volatile, it sends
//! flushes, which cost nothing there. A controller with a volatile cache matters if the system takes the
//! cache for absent and sends no flushes.

use logforce_device::{BlockDevice, Source, WriteCache};

/// Length of the structure in bytes.
pub const LEN: usize = 4096;

/// CNS of the structure in the Identify command.
pub const CNS_CONTROLLER: u32 = 1;

/// Properties of a controller, by its own report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    pub model: String,
    pub firmware: String,
    /// True if it has a volatile write cache, whether that is on or off.
    pub has_volatile_cache: bool,
}

/// Parses the structure. `None` if it is too short, or cannot be the answer of a disk controller. Drivers are
/// known to succeed and leave the buffer unchanged, and "no volatile cache" is a zero.
pub fn controller(data: &[u8]) -> Option<Controller> {
    // The sizes of queue entries, as powers of two: every controller must have 64 and 16 bytes.
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

/// Returns the text of an ASCII field that is padded with spaces.
fn text(bytes: &[u8]) -> String {
    let chars = bytes.iter().map(|b| char::from(*b));
    let text: String = chars
        .filter(|c| c.is_ascii_graphic() || *c == ' ')
        .collect();
    text.trim().to_owned()
}

/// Adds the controller's answer to the facts of the device, always as a note. If it reports a volatile cache
/// and the system reports none, the cache becomes unknown. `is_off`: the system reports a cache that is
/// switched off, which does not contradict the controller.
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
                "{who} a volatile write cache, and the system takes it for one without and flushes nothing. Unless the cache was switched off in the device, a power cut can lose forced data: set the system to treat the cache as volatile, or switch it off."
            )
        }
        (true, _) => format!("{who} a volatile write cache."),
        (false, WriteCache::Back) => format!(
            "{who} no volatile write cache. The system says otherwise and is believed, because its flushes cost little on such a device."
        ),
        (false, _) => format!("{who} no volatile write cache."),
    });
}

#[cfg(test)]
mod tests;
