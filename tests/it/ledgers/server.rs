//! A Redis of our own: on a free port of 127.0.0.1, in a folder that goes away, without persistence.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use uketsuke::testkit::RedisLedger;

pub(super) struct Server {
    port: u16,
    /// A shell that ends the server and its folder when our end of its standard input closes: however this process ends.
    keeper: Child,
}

const KEEP: &str = r#"redis-server --bind 127.0.0.1 --port "$1" --dir "$2" --save "" --appendonly no --maxmemory 300mb </dev/null >/dev/null 2>&1 &
cat >/dev/null; kill -9 $!; wait $! 2>/dev/null; rm -rf "$2""#;

/// One server for this whole process. `None`, and a word about it, where Redis is not installed.
pub(super) fn shared() -> Option<&'static Server> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    SHARED.get_or_init(Server::start).as_ref()
}

impl Server {
    pub(super) fn start() -> Option<Self> {
        if Command::new("redis-server").arg("--version").output().is_err() {
            let test = std::thread::current();
            eprintln!(
                "SKIPPED: no redis-server is installed, so this was not tested: {}",
                test.name().unwrap_or_default()
            );
            return None;
        }
        // A port that is free now may be another's in a moment.
        let started = (0..5).find_map(|_| Self::try_start());
        Some(started.expect("redis-server starts on one of five free ports"))
    }

    fn try_start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap().keep();
        let keeper = Command::new("sh")
            .args(["-c", KEEP, "sh", &port.to_string()])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let server = Server {
            port,
            keeper: keeper.unwrap(),
        };
        let is_ours = || {
            std::thread::sleep(Duration::from_millis(20));
            let mut line = TcpStream::connect(("127.0.0.1", port)).ok()?;
            line.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            line.write_all(b"CONFIG GET dir\r\nQUIT\r\n").ok()?;
            let mut said = String::new();
            line.read_to_string(&mut said).ok()?;
            said.contains(folder.to_str().unwrap()).then_some(())
        };
        (0..250).find_map(|_| is_ours()).map(|()| server)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) async fn ledger(&self, prefix: &str) -> RedisLedger {
        RedisLedger::open(&self.url()).await.unwrap().under(prefix)
    }

    pub(super) fn plain(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().unwrap();
    }
}
