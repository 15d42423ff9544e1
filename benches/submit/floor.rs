//! The floor: what nobody can do without who writes an order down before sending it. The request's bytes and the record's are those of a real
//! submit, looked at once; the client is a plain one, with a connection of its own for each request, as ours has.

use crate::{Result, client, server, submit};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
};
use tokio::net::TcpListener;
use uketsuke::Journal;

pub(crate) struct Floor {
    client: reqwest::Client,
    url: String,
    headers: HeaderMap,
    body: Vec<u8>,
    log: File,
    /// The claim's line, as it stands in a log.
    record: Vec<u8>,
}

impl Floor {
    pub(crate) async fn of_a_submit(url: &str, folder: &Path) -> Result<Floor> {
        // A port that nobody else has; the name of the api has one length all the same.
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let looked_at = format!("http://{}", listener.local_addr()?);
        let journal = Journal::open(folder.join("looked-at")).await?;
        let ours = client(journal, &looked_at)?;
        let (request, told) = tokio::join!(one_request(&listener), submit(&ours, 0));
        told?;
        let (head, body) = request?;
        let log = std::fs::read_to_string(folder.join("looked-at/log.jsonl"))?;
        let claim = log.lines().find(|line| line.contains("\"ev\":\"claimed\"")).ok_or("no claim")?;
        let mut floor = Floor {
            client: plain()?,
            url: format!("{looked_at}/orders"),
            headers: headers(&head)?,
            body,
            log: OpenOptions::new().create(true).append(true).open(folder.join("floor"))?,
            record: format!("{claim}\n").into_bytes(),
        };
        let (request, sent) = tokio::join!(one_request(&listener), floor.post());
        sent?;
        let sizes = |head: &[String], body: &[u8]| (head.iter().map(String::len).sum::<usize>(), head.len(), body.len());
        let (plain_head, plain_body) = request?;
        if sizes(&head, &floor.body) != sizes(&plain_head, &plain_body) {
            return Err(format!("the floor sends something else: {plain_head:?} for {head:?}").into());
        }
        println!(
            "each sends {} bytes in {} lines and a body of {}; a claim takes {} bytes",
            head.iter().map(|line| line.len() + 2).sum::<usize>(),
            head.len(),
            floor.body.len(),
            floor.record.len()
        );
        floor.url = format!("{url}/orders");
        Ok(floor)
    }

    pub(crate) async fn once(&mut self) -> Result<()> {
        self.append()?;
        self.sync()?;
        self.post().await
    }

    pub(crate) fn append(&mut self) -> Result<()> {
        Ok(self.log.write_all(&self.record)?)
    }

    pub(crate) fn sync(&mut self) -> Result<()> {
        Ok(self.log.sync_data()?)
    }

    pub(crate) async fn post(&mut self) -> Result<()> {
        let request = self.client.post(&self.url).headers(self.headers.clone()).body(self.body.clone());
        request.send().await?.bytes().await?;
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "the plain client is what we compare ourselves with")]
fn plain() -> Result<reqwest::Client> {
    Ok(reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build()?)
}

async fn one_request(listener: &TcpListener) -> Result<(Vec<String>, Vec<u8>)> {
    let (stream, _) = listener.accept().await?;
    server::answer(stream).await
}

/// All of a request's headers that a client does not write by itself.
fn headers(head: &[String]) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in head.iter().skip(1) {
        let (name, value) = line.split_once(": ").ok_or("not a header")?;
        if !["host", "content-length"].contains(&name) {
            headers.insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
    }
    Ok(headers)
}
