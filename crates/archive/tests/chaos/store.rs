//! Stores under attack: the test server, whose requests have faults, or a real server, which is killed.

use logforce_archive_testserver::{BUCKET, Fault, Faults, Options, Server};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub enum Target {
    Faulty(Server),
    Real(Box<Real>),
}

/// Real servers of the S3 protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Versitygw,
    Minio,
}

/// Running real server. It ends with this value.
pub struct Real {
    kind: Kind,
    program: PathBuf,
    directory: TempDir,
    port: u16,
    child: Option<Child>,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Versitygw => "versitygw",
            Kind::Minio => "minio",
        }
    }

    /// Returns the program, from a variable such as `VERSITYGW` or the search path.
    fn program(self) -> Option<PathBuf> {
        let named = std::env::var_os(self.name().to_uppercase()).map(PathBuf::from);
        named.filter(|path| path.exists()).or_else(|| {
            let paths = std::env::var_os("PATH")?;
            std::env::split_paths(&paths)
                .map(|folder| folder.join(self.name()))
                .find(|path| path.exists())
        })
    }
}

impl Target {
    pub fn faulty() -> Target {
        Target::Faulty(Server::start(Options::default()).unwrap())
    }

    /// Starts a real server; `None` if its program is not here.
    pub fn real(kind: Kind) -> Option<Target> {
        let program = kind.program()?;
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::create_dir(directory.path().join(BUCKET)).unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut real = Real {
            kind,
            program,
            directory,
            port: free.local_addr().unwrap().port(),
            child: None,
        };
        drop(free);
        real.start();
        Some(Target::Real(Box::new(real)))
    }

    pub fn url(&self) -> String {
        format!("s3://{BUCKET}/archive")
    }

    pub fn environment(&self) -> Vec<(String, String)> {
        let of = |name: &str, value: String| (name.to_owned(), value);
        match self {
            Target::Faulty(server) => server
                .environment()
                .map(|(name, value)| of(name, value))
                .into(),
            Target::Real(real) => vec![
                of("AWS_ENDPOINT", format!("http://127.0.0.1:{}", real.port)),
                of("AWS_ALLOW_HTTP", "true".to_owned()),
                of("AWS_ACCESS_KEY_ID", "test".to_owned()),
                of("AWS_SECRET_ACCESS_KEY", "testsecret".to_owned()),
                of("AWS_REGION", "us-east-1".to_owned()),
            ],
        }
    }

    /// Sets the probability of each kind of fault. A real server has none.
    pub fn set_faults(&self, probability: f64, seed: u64) {
        if let Target::Faulty(server) = self {
            let mut faults = Faults::each(probability, seed);
            // A stalled request takes longer than a client waits, so that few suffice.
            faults.stall = Duration::from_millis(1200);
            faults.probability.insert(Fault::Stall, probability / 8.0);
            server.set_faults(faults);
        }
    }

    /// Lets the next request be done late, when its client has given up. A real server does it at once.
    pub fn stall_next(&self) {
        if let Target::Faulty(server) = self {
            server.fault_next(Fault::Stall);
        }
    }

    /// Copies the objects after some further deletions.
    pub fn keep_after(&self, deletions: u32) {
        if let Target::Faulty(server) = self {
            server.keep_after(deletions);
        }
    }

    /// Returns a store with that copy, if it was made.
    pub fn kept(&self) -> Option<Target> {
        let Target::Faulty(server) = self else {
            return None;
        };
        let objects = server.kept()?;
        let copy = Target::faulty();
        if let Target::Faulty(server) = &copy {
            server.with_objects(|all| *all = objects);
        }
        Some(copy)
    }

    /// Stops the store: a real server by a kill.
    pub fn stop(&mut self) {
        match self {
            Target::Faulty(server) => server.stop(),
            Target::Real(real) => real.stop(),
        }
    }

    pub fn start_again(&mut self) {
        match self {
            Target::Faulty(server) => {
                for _ in 0..100 {
                    if server.start_again().is_ok() {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                panic!("the test server cannot listen again");
            }
            Target::Real(real) => real.start(),
        }
    }

    /// Returns the number of faults that took effect.
    pub fn faults(&self) -> usize {
        match self {
            Target::Faulty(server) => {
                let methods = ["GET", "PUT", "HEAD", "DELETE"];
                let counts = server.counts().into_iter();
                let faults = counts.filter(|(name, _)| !methods.contains(&name.as_str()));
                faults.map(|(_, count)| count).sum()
            }
            Target::Real(_) => 0,
        }
    }
}

impl Real {
    fn start(&mut self) {
        let address = format!("127.0.0.1:{}", self.port);
        let mut command = Command::new(&self.program);
        match self.kind {
            Kind::Versitygw => command
                .args(["--access", "test", "--secret", "testsecret", "--port"])
                .args([&address, "posix"]),
            Kind::Minio => command
                .env("MINIO_ROOT_USER", "test")
                .env("MINIO_ROOT_PASSWORD", "testsecret")
                // Otherwise it asks the network for a newer version.
                .env("MINIO_UPDATE", "off")
                .args(["server", "--quiet", "--address", &address]),
        };
        let child = command
            .arg(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.unwrap());
        for _ in 0..500 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{} does not listen", self.kind.name());
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.stop();
    }
}
