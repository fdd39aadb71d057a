#![allow(missing_docs)]
use hdrhistogram::Histogram;
use logforce_device::*;
use logforce_measure::group::baseline::Baseline;
use std::sync::{Arc, atomic::*};
use std::time::*;
fn slice(
    threads: usize,
    secs: f64,
    rec: usize,
    f: &(dyn Fn(usize, &[u8]) + Sync),
) -> (f64, f64, f64) {
    let stop = AtomicBool::new(false);
    let total = AtomicU64::new(0);
    let hist =
        std::sync::Mutex::new(Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).unwrap());
    let t0 = Instant::now();
    std::thread::scope(|s| {
        for t in 0..threads {
            let (stop, total, hist) = (&stop, &total, &hist);
            s.spawn(move || {
                let mut r = vec![7u8; rec];
                let mut h = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).unwrap();
                let mut n = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    r[..8].copy_from_slice(&n.to_le_bytes());
                    let a = Instant::now();
                    f(t, &r);
                    h.record(a.elapsed().as_nanos() as u64).unwrap();
                    n += 1;
                }
                total.fetch_add(n, Ordering::Relaxed);
                hist.lock().unwrap().add(&h).unwrap();
            });
        }
        std::thread::sleep(Duration::from_secs_f64(secs));
        stop.store(true, Ordering::Relaxed);
    });
    let h = hist.lock().unwrap();
    (
        total.load(Ordering::Relaxed) as f64 / t0.elapsed().as_secs_f64(),
        h.value_at_quantile(0.5) as f64 / 1e3,
        h.value_at_quantile(0.99) as f64 / 1e3,
    )
}
fn main() {
    let mut a = std::env::args().skip(1);
    let dir = std::path::PathBuf::from(a.next().unwrap());
    let pairs: usize = a.next().unwrap().parse().unwrap();
    let cases: Vec<(usize, usize)> = a
        .map(|s| {
            let (t, r) = s.split_once('x').unwrap();
            (t.parse().unwrap(), r.parse().unwrap())
        })
        .collect();
    let _ = std::fs::remove_dir_all(dir.join("g"));
    std::fs::create_dir(dir.join("g")).unwrap();
    let sys = logforce_device_os::OsSystem::new();
    let d = sys.directory(&dir.join("g")).unwrap();
    let f = d.open("base", OpenFile::CREATE).unwrap();
    let len = 256u64 << 20;
    f.reserve(len).unwrap();
    let mut buf = AlignedBuf::zeroed(1 << 20, 4096);
    for i in 0..256 {
        let c = f.complete(f.submit(Write {
            offset: i << 20,
            buf,
            range: 0..1 << 20,
            through: false,
        }));
        c.result.unwrap();
        buf = c.buf;
    }
    f.barrier(Barrier::Full).unwrap();
    let base = Baseline::new(&d, "base", Method::DirectDsync, 4096, len).unwrap();
    let mut o = logforce::Options::new();
    if let Ok(n) = std::env::var("FL") {
        o = o.writes_in_flight(n.parse().unwrap());
    }
    let log = logforce::create_new(dir.join("g/log"), o.segment_len(256 << 20)).unwrap();
    for (t, r) in cases {
        let (mut l, mut b, mut rw, mut ratio) = (vec![], vec![], vec![], vec![]);
        let mut lat = vec![];
        let raw: Vec<_> = (0..t)
            .map(|_| {
                std::sync::Mutex::new((
                    d.open(
                        "base",
                        OpenFile {
                            direct: true,
                            ..OpenFile::WRITE
                        },
                    )
                    .unwrap(),
                    Some(AlignedBuf::zeroed(r.next_multiple_of(4096), 4096)),
                    0u64,
                ))
            })
            .collect();
        for _ in 0..pairs {
            let x = slice(t, 0.3, r, &|_, rec| {
                log.commit(rec).unwrap();
            });
            log.truncate_front(log.durable_lsn()).unwrap();
            let y = slice(t, 0.3, r, &|_, rec| base.commit(rec).unwrap());
            let z = slice(t, 0.15, r, &|i, _| {
                let mut g = raw[i].lock().unwrap();
                let n = r.next_multiple_of(4096);
                let off = (i as u64 * (len / t as u64)) / 4096 * 4096
                    + g.2 % (len / t as u64 - n as u64 - 4096) / 4096 * 4096;
                g.2 += n as u64;
                let b = g.1.take().unwrap();
                let c = g.0.complete(g.0.submit(Write {
                    offset: off,
                    buf: b,
                    range: 0..n,
                    through: true,
                }));
                c.result.unwrap();
                g.1 = Some(c.buf);
            });
            l.push(x.0);
            b.push(y.0);
            rw.push(z.0);
            ratio.push(x.0 / y.0);
            lat.push((x.1, x.2, y.1, y.2));
        }
        let med = |v: &mut Vec<f64>| {
            v.sort_by(f64::total_cmp);
            v[v.len() / 2]
        };
        let m = |i: usize| {
            let mut v: Vec<f64> = lat.iter().map(|q| [q.0, q.1, q.2, q.3][i]).collect();
            v.sort_by(f64::total_cmp);
            v[v.len() / 2]
        };
        println!(
            "{t:3} x {r:6}: log {:8.0} base {:8.0} raw {:8.0} ratio {:.2}  log p50/p99 {:.0}/{:.0} base {:.0}/{:.0}",
            med(&mut l),
            med(&mut b),
            med(&mut rw),
            med(&mut ratio),
            m(0),
            m(1),
            m(2),
            m(3)
        );
    }
    log.close().unwrap();
    std::fs::remove_dir_all(dir.join("g")).unwrap();
}
