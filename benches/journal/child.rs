//! The bench started again as a process of its own: several writers at once, or one that opens a folder with nothing else in its memory.
//!
//! It says `ready` when it is, waits for a line, works, and answers with one line of figures.

use crate::{Result, compact, open, ours::Ours, processes, sqlite};
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

const FLAG: &str = "--as-child";

/// What `main` does where it finds itself started as one.
pub(crate) fn role() -> Option<Result<()>> {
    let mut args = std::env::args().skip_while(|arg| arg != FLAG);
    args.next()?;
    let (role, folder) = (args.next()?, args.next()?);
    let given = args.next().unwrap_or_default();
    Some(play(&role, Path::new(&folder), &given))
}

fn play(role: &str, folder: &Path, given: &str) -> Result<()> {
    match role {
        "ours" => {
            let mut ours = Ours::open(folder)?;
            processes::write_for_a_while(given, &mut || ours.claim().map(drop))
        }
        "sqlite" => {
            let connection = sqlite::connect(folder)?;
            sqlite::inserting(&connection, |one| processes::write_for_a_while(given, one))
        }
        "open" => open::open_and_say(folder, given),
        "compact" => compact::write_until_told(folder),
        other => Err(format!("no such role: {other}").into()),
    }
}

/// In the child: says that it is ready, and waits for the word.
pub(crate) fn ready() -> Result<()> {
    say("ready")?;
    hear()?;
    Ok(())
}

/// In the child: one line to the parent.
pub(crate) fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

/// In the child: one line from the parent.
pub(crate) fn hear() -> Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

/// A child, seen by its parent. Ended where it is dropped before it ended by itself.
pub(crate) struct Running {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Running {
    /// Starts one. With `settled`, its memory holds what is in use and no more: malloc gives back at once what was freed.
    pub(crate) fn start(role: &str, folder: &Path, given: &str, settled: bool) -> Result<Running> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(FLAG).arg(role).arg(folder).arg(given);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if settled {
            command
                .env("MALLOC_TRIM_THRESHOLD_", "65536")
                .env("MALLOC_MMAP_THRESHOLD_", "65536");
        }
        let mut child = command.spawn()?;
        let to = child.stdin.take().ok_or("a child without an ear")?;
        let from = BufReader::new(child.stdout.take().ok_or("a child without a voice")?);
        Ok(Running { child, to, from })
    }

    /// Its next line.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.from.read_line(&mut line)? {
            0 => Err("a child ended without a word".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// Waits until it is ready.
    pub(crate) fn await_ready(&mut self) -> Result<()> {
        match self.line()?.as_str() {
            "ready" => Ok(()),
            other => Err(format!("a child said {other:?} instead of being ready").into()),
        }
    }

    pub(crate) fn tell(&mut self, line: &str) -> Result<()> {
        writeln!(self.to, "{line}")?;
        self.to.flush()?;
        Ok(())
    }

    /// Its figures; then it has ended.
    pub(crate) fn figures(mut self) -> Result<Vec<f64>> {
        let line = self.line()?;
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("a child ended with {status}").into());
        }
        line.split(' ').map(|figure| Ok(figure.parse()?)).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail where it has ended already, and that is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
