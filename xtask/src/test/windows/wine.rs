//! Separate Wine installation for the stage: its files are below the target folder, and its server is
//! ended afterwards.

use crate::test::{Setting, child};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const WINE: &str = "/usr/lib/wine/wine64";
const SERVER: &str = "/usr/lib/wine/wineserver64";
const COMPILER: &str = "/usr/bin/x86_64-w64-mingw32-gcc";

/// Source of a DLL that Wine 8 lacks.
const PRNG: &str = include_str!("prng.c");

/// Time limit of the small steps.
const STEP: Duration = Duration::from_secs(180);

/// Time that the server keeps running without a program: longer than the compilation of the next one.
const LINGERS: Duration = Duration::from_secs(20 * 60);

/// A Wine prefix whose server runs until this is dropped.
pub struct Wine<'s> {
    setting: &'s Setting,
    prefix: PathBuf,
    /// Directory of the server's socket; not `/tmp`, where it would be a leaked file.
    temp: PathBuf,
}

impl<'s> Wine<'s> {
    /// Creates the prefix, or uses the one of an earlier run.
    pub fn start(setting: &'s Setting) -> Result<Wine<'s>> {
        let prefix = setting.workspace.target.join("wine");
        let temp = setting.workspace.target.join("wine-tmp");
        for folder in [&prefix, &temp] {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let wine = Wine {
            setting,
            prefix,
            temp,
        };
        // Ends the server of an earlier run that was killed.
        wine.end();
        let system = wine.prefix.join("drive_c/windows/system32");
        if !wine.prefix.join("system.reg").exists() || !system.is_dir() {
            wine.step(Command::new(WINE).args(["wineboot", "-i"]))?;
            wine.step(Command::new(SERVER).arg("-w"))?;
        }
        let dll = system.join("bcryptprimitives.dll");
        if !dll.exists() {
            wine.make(&dll)?;
        }
        // The server keeps running between the test programs, and while they are compiled. Starting it
        // for each takes longer than most programs, and a program that meets an ending server fails
        // without a message.
        wine.step(Command::new(SERVER).arg(format!("-p{}", LINGERS.as_secs())))?;
        Ok(wine)
    }

    fn make(&self, dll: &Path) -> Result<()> {
        let source = self.prefix.join("prng.c");
        std::fs::write(&source, PRNG).with_context(|| source.display().to_string())?;
        let mut compiler = Command::new(COMPILER);
        compiler.args(["-O2", "-shared", "-s", "-o"]).arg(dll);
        self.step(compiler.arg(&source).arg("-ladvapi32"))
    }

    /// Makes cargo run the programs that it builds with this Wine.
    pub fn lend(&self, command: &mut Command) {
        self.environment(command);
        command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", WINE);
    }

    fn environment(&self, command: &mut Command) {
        command
            .env("WINEPREFIX", &self.prefix)
            .env("TMPDIR", &self.temp)
            .env("WINEDEBUG", "-all")
            // No menus, and no questions about components that a prefix can lack.
            .env("WINEDLLOVERRIDES", "mscoree,mshtml=;winemenubuilder.exe=d")
            .env_remove("DISPLAY");
    }

    fn step(&self, command: &mut Command) -> Result<()> {
        self.environment(command);
        let log = self.setting.logs.join("wine.log");
        let ended = child::run(command, &log, STEP.min(self.setting.clock.limit()))?;
        if !ended.ok {
            bail!("{}\n{}", ended.how, ended.text());
        }
        Ok(())
    }

    /// Ends everything that runs in this prefix, and nothing else.
    fn end(&self) {
        let mut kill = Command::new(SERVER);
        self.environment(kill.arg("-k"));
        // Fails if no server runs.
        let log = self.setting.logs.join("wineserver.log");
        let _ = child::run(&mut kill, &log, STEP);
        let mut wait = Command::new(SERVER);
        self.environment(wait.arg("-w"));
        let _ = child::run(&mut wait, &log, STEP);
    }
}

impl Drop for Wine<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
