//! Lines for people.

use super::record::{Start, utc};
use logforce_measure::watch::{Event, InProgress, Minute, Summary};
use logforce_terminal::layout::{WIDTH, wrap};
use logforce_terminal::numbers::{bytes, count, short};
use std::time::Duration;

/// Returns the lines above all others.
pub fn start(start: &Start) -> String {
    let machine = &start.machine;
    let device = machine.device.as_ref();
    let device = device.map_or_else(String::new, |name| format!(" on {name}"));
    let survives = format!(
        "a commit survives {} ({}: {})",
        start.guarantee, start.verdict, start.evidence
    );
    machine.under_caveat(format!(
        "watching {} ({}{device}): {} every {} s by {}; stalls from {} s; times are UTC; Ctrl-C ends\n\
         {}",
        start.dir,
        machine.filesystem,
        bytes(start.bytes),
        start.interval_seconds,
        start.method,
        start.stall_seconds,
        wrap(&survives, WIDTH, 2),
    ))
}

/// Returns the line of an event.
pub fn event(event: &Event) -> String {
    match event {
        Event::Minute(minute) => format!("{}  {}", utc(minute.at), self::minute(minute)),
        Event::Stall(stall) => format!(
            "{}  STALL: a commit took {}{}",
            utc(stall.at),
            seconds(stall.lasted.as_secs_f64()),
            written(stall.device_bytes, " meanwhile")
        ),
        Event::Clock(change) => {
            let by = seconds(change.by_seconds.abs());
            let what = match change.by_seconds > 0.0 {
                true => "the clock was set forward or the machine was suspended, by",
                false => "the clock was set back, by",
            };
            format!("{}  {what} {by}", utc(change.at))
        }
        Event::Late(late) => format!(
            "{}  no commit began for {}: the processors were busy, or the program or the machine was \
             stopped; not the disk",
            utc(late.at),
            seconds(late.lasted.as_secs_f64())
        ),
    }
}

fn minute(minute: &Minute) -> String {
    let ms = |us: f64| short(us / 1e3, 3);
    let stalls = match minute.stalls {
        0 => String::new(),
        n => format!("  {}", count(n, "stall")),
    };
    format!(
        "{:>3}  p50 {}  p90 {}  p99 {}  max {} ms{stalls}{}",
        count(minute.commits, "commit"),
        ms(minute.p50_us),
        ms(minute.p90_us),
        ms(minute.p99_us),
        ms(minute.max_us),
        written(minute.device_bytes, ""),
    )
}

/// Returns the line of a commit that has not ended.
pub fn hang(commit: InProgress, lasting: Duration) -> String {
    format!(
        "{}  STALL: a commit has not ended for {}",
        utc(commit.at),
        seconds(lasting.as_secs_f64())
    )
}

/// Returns the lines at the end.
pub fn end(lasted: Duration, summary: Option<&Summary>, lost_events: u64) -> String {
    let whole = humantime::format_duration(Duration::from_secs(lasted.as_secs()));
    let Some(s) = summary else {
        return format!("watched for {whole}: no commit\n");
    };
    let ms = |us: f64| short(us / 1e3, 3);
    let stalls = match s.stalls {
        0 => "no stalls".to_owned(),
        n => format!(
            "{}, {} in all",
            count(n, "stall"),
            seconds(s.stalled.as_secs_f64())
        ),
    };
    let lost = match lost_events {
        0 => String::new(),
        n => format!(
            "{} not written, because an output was blocked\n",
            count(n, "line")
        ),
    };
    format!(
        "watched for {whole}: {}, p50 {}  p90 {}  p99 {}  p99.9 {} ms; the longest took {} at {}; {stalls}\n{lost}",
        count(s.commits, "commit"),
        ms(s.p50_us),
        ms(s.p90_us),
        ms(s.p99_us),
        ms(s.p999_us),
        seconds(s.max_us / 1e6),
        utc(s.longest_at),
    )
}

fn written(device_bytes: Option<u64>, when: &str) -> String {
    device_bytes.map_or_else(String::new, |n| {
        format!("  the device wrote {}{when}", bytes(n))
    })
}

/// Returns a duration with a unit that suits it.
fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{} ms", short(s * 1e3, 2)),
        s if s < 120.0 => format!("{} s", short(s, 2)),
        s => humantime::format_duration(Duration::from_secs_f64(s.round())).to_string(),
    }
}
