//! Speed of the archive, as ratios within one run: the machine may have other work.
//!
//! `nice -n 10 cargo bench -p logforce-archive --features s3 --bench speed [synchronous|bulk|beside]`

use bytes::Bytes;
use logforce::{Guarantee, Log, Options, Policy};
use logforce_archive::key::Key;
use logforce_archive::store::{Answer, Store, StoreOptions};
use logforce_archive::{Archive, ArchiveOptions, AttachOptions, RestoreOptions};
use logforce_archive_testserver::{BUCKET, Server};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Measurement, in a directory that is empty.
type Part = fn(&Path) -> Result<()>;

/// Puts and gets in flight.
const WINDOW: usize = 8;

fn options() -> Options {
    Options::new()
        .require(Guarantee::ProcessCrash)
        .calibrate(false)
}

fn store_options(server: &Server) -> StoreOptions {
    let mut options = StoreOptions::default();
    for (name, value) in server.environment() {
        options = options.setting(name, value);
    }
    options
}

fn archive(server: &Server, prefix: &str) -> Result<Archive> {
    let store = store_options(server);
    let options = ArchiveOptions {
        store,
        ..ArchiveOptions::default()
    };
    Ok(Archive::open(&format!("s3://{BUCKET}/{prefix}"), options)?)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns the value below which `share` of the times lie.
fn quantile(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    let n = (times.len() as f64 * share) as usize;
    times.get(n).map_or(f64::NAN, |time| milliseconds(*time))
}

fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}

fn main() -> Result<()> {
    let chosen = std::env::args()
        .nth(1)
        .filter(|name| !name.starts_with('-'));
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let parts: [(&str, Part); 3] = [
        ("synchronous", synchronous),
        ("bulk", bulk),
        ("beside", beside),
    ];
    for (name, part) in parts {
        if chosen.as_deref().is_none_or(|chosen| chosen == name) {
            println!("\n{name}, load {}", load());
            part(home.path())?;
        }
    }
    Ok(())
}

/// Commits with `policy` by `committers` threads for some time. Returns the times.
fn commit(log: &Log, policy: Policy, committers: usize, run: Duration) -> Result<Vec<Duration>> {
    let begin = Arc::new(Barrier::new(committers));
    let is_over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..committers)
        .map(|_| {
            let (log, begin, is_over) = (log.clone(), begin.clone(), is_over.clone());
            std::thread::spawn(move || {
                begin.wait();
                let mut times = Vec::new();
                while !is_over.load(Relaxed) {
                    let begun = Instant::now();
                    log.commit_with([7_u8; 128], policy)?;
                    times.push(begun.elapsed());
                }
                Ok::<_, logforce::Error>(times)
            })
        })
        .collect();
    std::thread::sleep(run);
    is_over.store(true, Relaxed);
    let mut times = Vec::new();
    for thread in threads {
        times.extend(thread.join().map_err(|_| "a committer panicked")??);
    }
    Ok(times)
}

fn synchronous(home: &Path) -> Result<()> {
    println!(
        "| put, ms | put p50 | committers | commits/s | p50 | p99 | (p50 - 3) / put | puts/s |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let run = Duration::from_secs(5);
    for (latency, committers) in [(20, 16), (20, 64), (20, 256), (100, 16), (100, 64)] {
        let server = Server::start(logforce_archive_testserver::Options {
            put_latency: Duration::from_millis(latency),
            ..Default::default()
        })?;
        let log = logforce::create_new(home.join(format!("{latency}-{committers}")), options())?;
        let attach = AttachOptions::new().synchronous().window(WINDOW);
        let attached = archive(&server, "archive")?.attach(&log, attach)?;
        commit(&log, Policy::Replicated, committers, run / 5)?;
        let store = Store::open(&format!("s3://{BUCKET}/puts"), &store_options(&server))?;
        // Beside the commits, so that both have the same machine.
        let puts = std::thread::spawn(move || put_times(&store).map_err(|error| error.to_string()));
        let before = attached.status().chunks;
        let mut times = commit(&log, Policy::Replicated, committers, run)?;
        let chunks = attached.status().chunks - before;
        let mut puts = puts.join().map_err(|_| "the puts panicked")??;
        let put = quantile(&mut puts, 0.5);
        let p50 = quantile(&mut times, 0.5);
        println!(
            "| {latency} | {put:.1} | {committers} | {:.0} | {p50:.1} | {:.1} | {:.2} | {:.0} |",
            times.len() as f64 / run.as_secs_f64(),
            quantile(&mut times, 0.99),
            (p50 - 3.0) / put,
            chunks as f64 / run.as_secs_f64()
        );
        log.close()?;
        attached.close()?;
    }
    Ok(())
}

fn place(epoch: u64, place: u64) -> Key {
    let epoch = logforce_archive::key::Epoch(epoch);
    Key::Place { epoch, place }
}

/// Returns the times of puts, one after the other.
fn put_times(store: &Store) -> Result<Vec<Duration>> {
    runtime()?.block_on(async {
        let mut times = Vec::new();
        for n in 0..30 {
            let begun = Instant::now();
            done(
                store
                    .create(&place(1, n), Bytes::from_static(&[7; 600]))
                    .await,
            )?;
            times.push(begun.elapsed());
        }
        Ok(times)
    })
}

fn done<T: std::fmt::Debug>(answer: Answer<T>) -> Result<T> {
    match answer {
        Answer::Done(value) => Ok(value),
        other => Err(format!("the store answered {other:?}").into()),
    }
}

/// Log of the bulk runs, bytes.
const BULK: u64 = 256 << 20;
/// Records of the bulk runs, bytes.
const RECORD: usize = 64 << 10;
/// Objects of the client alone, bytes: as large as the archive's chunks.
const OBJECT: usize = 8 << 20;

/// Uploads and restores a log, and moves as many bytes with the same client alone, in turns.
fn bulk(home: &Path) -> Result<()> {
    println!("| content | part | log, MB/s | the client alone, MB/s | ratio of the medians |");
    println!("|---|---|---|---|---|");
    for (content, random_bytes) in [("half random", RECORD / 2), ("random", RECORD)] {
        let server = Server::start(Default::default())?;
        let log = logforce::create_new(home.join(content), options())?;
        let mut random = fastrand::Rng::with_seed(7);
        let mut record = vec![0; RECORD];
        let mut end = log.tail_lsn();
        while end.0 < BULK {
            random.fill(&mut record[..random_bytes]);
            end = log.append(&record)?.end;
        }
        log.force(end)?;
        let store = Store::open(&format!("s3://{BUCKET}/alone"), &store_options(&server))?;
        let objects = vec![Bytes::from(record.repeat(OBJECT / RECORD)); (BULK as usize) / OBJECT];
        let mut times: [Vec<Duration>; 4] = Default::default();
        for turn in 0..5 {
            let archive = archive(&server, &format!("bulk-{turn}"))?;
            times[0].push(timed(|| {
                Ok(archive.attach(&log, AttachOptions::new())?.close()?)
            })?);
            times[1].push(timed(|| move_objects(&store, &objects, None))?);
            let copy = home.join("bulk-copy");
            times[2].push(timed(|| {
                let to = RestoreOptions::new().require(Guarantee::ProcessCrash);
                archive.restore(&copy, &to, &mut |_| {})?;
                Ok(())
            })?);
            std::fs::remove_dir_all(&copy)?;
            std::fs::create_dir(&copy)?;
            times[3].push(timed(|| move_objects(&store, &objects, Some(&copy)))?);
            std::fs::remove_dir_all(&copy)?;
            server.with_objects(std::collections::BTreeMap::clear);
        }
        log.close()?;
        let speed = |times: &mut [Duration]| end.0 as f64 / 1e3 / quantile(times, 0.5);
        let [up, sent, down, received] = &mut times;
        for (part, ours, alone) in [("upload", up, sent), ("restore", down, received)] {
            let (ours, alone) = (speed(ours), speed(alone));
            println!(
                "| {content} | {part} | {ours:.0} | {alone:.0} | {:.2} |",
                ours / alone
            );
        }
    }
    Ok(())
}

fn timed(run: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begun = Instant::now();
    run()?;
    Ok(begun.elapsed())
}

/// Puts the objects, or gets them into durable files in `to`; several at once.
fn move_objects(store: &Store, objects: &[Bytes], to: Option<&Path>) -> Result<()> {
    runtime()?.block_on(async {
        let mut open = tokio::task::JoinSet::new();
        for (n, bytes) in objects.iter().enumerate() {
            let (store, bytes) = (store.clone(), bytes.clone());
            let to = to.map(|to| to.join(n.to_string()));
            open.spawn(async move {
                let key = place(1, n as u64);
                let text = |error: &dyn std::fmt::Display| error.to_string();
                let Some(to) = to else {
                    return done(store.create(&key, bytes).await).map_err(|e| text(&e));
                };
                let bytes = done(store.get(&key).await).map_err(|e| text(&e))?;
                let write = move || -> std::io::Result<()> {
                    let mut file = std::fs::File::create(to)?;
                    file.write_all(&bytes)?;
                    file.sync_data()
                };
                let written = tokio::task::spawn_blocking(write).await;
                written.map_err(|e| text(&e))?.map_err(|e| text(&e))
            });
            if open.len() == WINDOW
                && let Some(moved) = open.join_next().await
            {
                moved??;
            }
        }
        while let Some(moved) = open.join_next().await {
            moved??;
        }
        Ok(())
    })
}

/// Commits without an archive and beside an asynchronous one, in turns.
fn beside(home: &Path) -> Result<()> {
    let run = Duration::from_secs(1);
    println!(
        "| committers | alone, commits/s | beside an archive | slower by, median of 9 pairs |"
    );
    println!("|---|---|---|---|");
    for committers in [1, 16] {
        let server = Server::start(Default::default())?;
        let archive = archive(&server, "beside")?;
        let log = logforce::create_new(home.join(format!("beside-{committers}")), options())?;
        let mut pairs = Vec::new();
        for turn in 0..10 {
            let measure = || commit(&log, Policy::Force, committers, run).map(|times| times.len());
            let with = || -> Result<usize> {
                let attached = archive.attach(&log, AttachOptions::new())?;
                let count = measure();
                attached.close()?;
                count
            };
            let (alone, with) = match turn % 2 {
                0 => {
                    let alone = measure()?;
                    (alone, with()?)
                }
                _ => {
                    let with = with()?;
                    (measure()?, with)
                }
            };
            // The first pair prepares segments and connections.
            if turn > 0 {
                pairs.push((1.0 - with as f64 / alone as f64, alone, with));
            }
        }
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (slower, alone, with) = pairs[pairs.len() / 2];
        println!(
            "| {committers} | {alone} | {with} | {:.1} % |",
            slower * 100.0
        );
        log.close()?;
    }
    Ok(())
}
