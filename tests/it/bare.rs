//! What an HTTP server can't be made to do: a port at which nobody listens yet, and a desk of raw sockets.

use std::sync::{Arc, Mutex};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpSocket, TcpStream},
};
use uketsuke::testkit::Desk;

/// A port that is taken, so that no other test is given it, and at which nobody listens: connections are refused.
pub(crate) struct Door(TcpSocket);

impl Door {
    pub(crate) fn closed() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Door(socket)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    /// From here on whoever knocks is led to the desk.
    pub(crate) fn open_to(self, desk: &Desk) {
        let listener = self.0.listen(64).unwrap();
        let desk = desk.url().trim_start_matches("http://").to_owned();
        tokio::spawn(async move {
            while let Ok((mut caller, _)) = listener.accept().await {
                let mut desk = TcpStream::connect(&desk).await.unwrap();
                tokio::spawn(async move { drop(copy_bidirectional(&mut caller, &mut desk).await) });
            }
        });
    }
}

/// Reads each request whole, says what its turn says, byte for byte, and closes. The last turn repeats.
pub(crate) struct RawDesk {
    url: String,
    keys: Arc<Mutex<Vec<String>>>,
}

impl RawDesk {
    pub(crate) async fn start(turns: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let keys = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&keys);
        tokio::spawn(async move {
            for number in 0.. {
                let Ok((mut caller, _)) = listener.accept().await else { return };
                let request = read_whole(&mut caller).await;
                let lines = request.lines().filter_map(|line| line.split_once(": "));
                let key = lines.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("idempotency-key"));
                seen.lock().unwrap().push(key.map_or("none", |(_, key)| key).to_owned());
                let turn = turns[number.min(turns.len() - 1)];
                drop(caller.write_all(turn.as_bytes()).await);
                drop(caller.shutdown().await);
            }
        });
        RawDesk { url, keys }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The key of each request, in the order they came.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }
}

/// Head and body of one request.
async fn read_whole(caller: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            let length = lines.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            if body.len() >= length.map_or(0, |(_, length)| length.parse().unwrap()) {
                return text;
            }
        }
        match caller.read(&mut chunk).await.unwrap() {
            0 => return text,
            n => request.extend_from_slice(&chunk[..n]),
        }
    }
}
