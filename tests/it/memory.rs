//! Answers of any size, and what they cost: memory, measured in a process that does nothing else. Linux says how much one ever held.

use crate::{
    kit::{Folder, brisk, child},
    transport::{client_of, seen, success},
};
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use uketsuke::testkit::Desk;

const MIB: u64 = 1 << 20;

/// A server that answers each request with this head and then with `piece` again and again, `times` in all or until the client has had enough,
/// and `end`; with the bytes of the body that left it.
async fn pours(head: &'static str, start: Vec<u8>, piece: Vec<u8>, times: u64, end: Vec<u8>) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let poured = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&poured);
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            let pour = async {
                // What is left of the request is read at the end.
                assert!(caller.read(&mut [0; 4096]).await? > 0);
                caller.write_all(head.as_bytes()).await?;
                caller.write_all(&start).await?;
                for _ in 0..times {
                    caller.write_all(&piece).await?;
                    count.fetch_add(piece.len() as u64, SeqCst);
                }
                caller.write_all(&end).await?;
                caller.shutdown().await?;
                tokio::io::copy(&mut caller, &mut tokio::io::sink()).await
            };
            // A client that has had enough hangs up.
            drop(pour.await);
        }
    });
    (url, poured)
}

/// What a child that submitted there says: the error's kind, its effect, the attempts, and by how many KiB its memory's peak grew meanwhile.
async fn measured(url: &str, folder: &Folder) -> (String, u64) {
    let output = child("submit_and_measure", url, &folder.path()).wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find_map(|line| line.split_once("child: ")).expect(&said).1;
    let (told, grew) = line.split_once(", grew by ").expect(line);
    (told.to_owned(), grew.trim_end_matches(" KiB").parse().expect(grew))
}

/// The order that the child left open, at a desk under the same name.
async fn resumes_at_a_desk(folder: &Folder) {
    let desk = Desk::start().await;
    assert!(folder.events("settled").is_empty());
    let client = client_of(folder, brisk(&desk.url()).name("shop")).await;
    let resumed = client.resume_pending().await.unwrap().resumed;
    assert_eq!(resumed.len(), 1, "it is open");
    let receipt = success(resumed[0].result.clone());
    assert_eq!(folder.events("claimed")[0]["key"], receipt.key.to_string());
    assert_eq!(desk.keys(), [receipt.key.to_string()]);
    desk.assert_one_order_per_key();
}

/// Measured, in a process of its own: 256 MiB, without a length or with a false one.
#[tokio::test]
async fn an_answer_without_end_is_given_up_and_not_kept() {
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 268435456\r\n\r\n",
    ] {
        let ((url, poured), folder) = (pours(head, Vec::new(), vec![b' '; 64 << 10], 4096, Vec::new()).await, Folder::new());
        let (told, grew) = measured(&url, &folder).await;
        assert!(grew < 16 * 1024, "{grew} KiB");
        assert_eq!(told, "ResponseTooLarge Possible 1");
        assert_eq!(seen(&folder), [json!({"half_answer": {"status": 200, "half": "too_large"}})]);
        assert!(poured.load(SeqCst) < 128 * MIB, "the client hung up: {poured:?}");
        resumes_at_a_desk(&folder).await;
    }
}

/// Measured likewise: a body without end in chunks of two bytes each. What is kept is bytes, and not the pieces they came in.
#[tokio::test]
async fn an_answer_in_crumbs_is_given_up_and_not_kept() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let ((url, poured), folder) = (
        pours(head, Vec::new(), b"2\r\n  \r\n".repeat(512), 1 << 16, Vec::new()).await,
        Folder::new(),
    );
    let (told, grew) = measured(&url, &folder).await;
    assert!(grew < 16 * 1024, "{grew} KiB");
    assert_eq!(told, "ResponseTooLarge Possible 1");
    assert_eq!(seen(&folder), [json!({"half_answer": {"status": 200, "half": "too_large"}})]);
    assert!(poured.load(SeqCst) < 128 * MIB, "the client hung up: {poured:?}");
    resumes_at_a_desk(&folder).await;
}

/// BUG-39: a small answer that unpacks huge was unpacked without a limit. Ours is not unpacked at all, so that it is as small as it came: not
/// too large, but one that we can't read, four times.
#[tokio::test]
async fn a_zipped_answer_is_as_small_as_it_came() {
    let (start, piece, times, end) = zipped_spaces(64 * MIB);
    assert!(piece.len() as u64 * times < MIB, "it is within the cap");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\r\n";
    let ((url, _), folder) = (pours(head, start, piece, times, end).await, Folder::new());
    let (told, grew) = measured(&url, &folder).await;
    assert!(grew < 16 * 1024, "{grew} KiB");
    assert_eq!(told, "InDoubt Possible 4");
    assert_eq!(
        seen(&folder),
        vec![json!({"half_answer": {"status": 200, "half": "undecodable"}}); 4]
    );
    resumes_at_a_desk(&folder).await;
}

/// So many spaces as a gzip file: a beginning, a piece that stands so many times, an end. One block of fixed codes: a space, then "258 of what
/// was one before" in 13 bits, again and again, eight of which are a piece.
fn zipped_spaces(wanted: u64) -> (Vec<u8>, Vec<u8>, u64, Vec<u8>) {
    const COPY: &str = "1100010100000";
    // The header of the file.
    let mut start = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    // "Last block", "fixed codes", the code of a space; as many copies as end with a byte.
    let mut bits = ["1", "10", "01010000"].concat();
    let mut copies = 0;
    while bits.len() % 8 > 0 {
        bits.push_str(COPY);
        copies += 1;
    }
    start.extend(packed(&bits));
    let times = wanted / (8 * 258);
    copies += 8 * times;
    let spaces = 1 + 258 * copies;
    let mut end = packed("00000000");
    let mut crc = crc32fast::Hasher::new();
    for _ in 0..copies {
        crc.update(&[b' '; 258]);
    }
    crc.update(b" ");
    end.extend(crc.finalize().to_le_bytes());
    end.extend(u32::try_from(spaces).unwrap().to_le_bytes());
    (start, packed(&COPY.repeat(8)), times, end)
}

/// Bits as the bytes of a zipped stream: the first is the lowest.
fn packed(bits: &str) -> Vec<u8> {
    let byte = |eight: &[u8]| eight.iter().rev().fold(0, |byte, bit| byte << 1 | (bit - b'0'));
    bits.as_bytes().chunks(8).map(byte).collect()
}
