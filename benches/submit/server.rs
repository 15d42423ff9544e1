//! The other side: answers every request alike and remembers nothing, in a process of its own, so that none of its time is taken for ours.

use crate::Result;
use std::{
    io::Write as _,
    process::{Child, Command, Stdio},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

/// What the child is told to be.
pub(crate) const ROLE: &str = "--serve";

const ANSWER: &[u8] =
    b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 20\r\nconnection: close\r\n\r\n{\"order_id\":\"ord-1\"}";

pub(crate) struct Server {
    pub(crate) url: String,
    child: Child,
}

impl Server {
    pub(crate) async fn start() -> Result<Server> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(ROLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let told = child.stdout.take().ok_or("no word of the server")?;
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(told), &mut line)?;
        Ok(Server {
            url: format!("http://{}", line.trim()),
            child,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The child's life: until whoever started it is gone.
pub(crate) async fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    std::thread::spawn(|| {
        drop(std::io::stdin().lines().last());
        std::process::exit(0);
    });
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move { drop(answer(stream).await) });
    }
}

/// One request, and what it was: its head's lines, and its body.
pub(crate) async fn answer(stream: TcpStream) -> Result<(Vec<String>, Vec<u8>)> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let (mut head, mut len) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(told) = line.strip_prefix("content-length: ") {
            len = told.parse()?;
        }
        head.push(line.to_owned());
    }
    let mut body = vec![0; len];
    stream.read_exact(&mut body).await?;
    stream.write_all(ANSWER).await?;
    Ok((head, body))
}
