//! Stores under attack: the test server, whose requests have faults, or versitygw, which is killed.

use logforce_archive_testserver::{BUCKET, Fault, Faults, Options, Server};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub enum Target {
    Faulty(Server),
    Versity(Box<Versity>),
}

/// Running versitygw. It ends with this value.
pub struct Versity {
    program: PathBuf,
    directory: TempDir,
    port: u16,
    child: Option<Child>,
}

/// Returns the program, from `VERSITYGW` or the search path.
pub fn versitygw() -> Option<PathBuf> {
    let named = std::env::var_os("VERSITYGW").map(PathBuf::from);
    named.filter(|path| path.exists()).or_else(|| {
        let paths = std::env::var_os("PATH")?;
        std::env::split_paths(&paths)
            .map(|folder| folder.join("versitygw"))
            .find(|path| path.exists())
    })
}

impl Target {
    pub fn faulty() -> Target {
        Target::Faulty(Server::start(Options::default()).unwrap())
    }

    pub fn versity(program: &Path) -> Target {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::create_dir(directory.path().join(BUCKET)).unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut versity = Versity {
            program: program.to_owned(),
            directory,
            port: free.local_addr().unwrap().port(),
            child: None,
        };
        drop(free);
        versity.start();
        Target::Versity(Box::new(versity))
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
            Target::Versity(versity) => vec![
                of("AWS_ENDPOINT", format!("http://127.0.0.1:{}", versity.port)),
                of("AWS_ALLOW_HTTP", "true".to_owned()),
                of("AWS_ACCESS_KEY_ID", "test".to_owned()),
                of("AWS_SECRET_ACCESS_KEY", "testsecret".to_owned()),
                of("AWS_REGION", "us-east-1".to_owned()),
            ],
        }
    }

    /// Sets the probability of each kind of fault. Versitygw has none.
    pub fn set_faults(&self, probability: f64, seed: u64) {
        if let Target::Faulty(server) = self {
            let mut faults = Faults::each(probability, seed);
            // A stalled request takes longer than a client waits, so that few suffice.
            faults.stall = Duration::from_millis(1200);
            faults.probability.insert(Fault::Stall, probability / 8.0);
            server.set_faults(faults);
        }
    }

    /// Stops the store: versitygw by a kill.
    pub fn stop(&mut self) {
        match self {
            Target::Faulty(server) => server.stop(),
            Target::Versity(versity) => versity.stop(),
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
            Target::Versity(versity) => versity.start(),
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
            Target::Versity(_) => 0,
        }
    }
}

impl Versity {
    fn start(&mut self) {
        let child = Command::new(&self.program)
            .args(["--access", "test", "--secret", "testsecret", "--port"])
            .arg(format!("127.0.0.1:{}", self.port))
            .arg("posix")
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
        panic!("versitygw does not listen");
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Versity {
    fn drop(&mut self) {
        self.stop();
    }
}
