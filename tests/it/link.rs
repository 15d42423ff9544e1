//! The link, tested: each break is seen from both ends. A plain client says what it looks like; a server that counts bytes says how much of
//! the request it had.
//!
//! Nothing here waits for time to pass where it could wait for a fact. That a server heard *nothing* is shown by order, not by patience: a
//! harmless request is sent through the same link afterwards, and it is the first the server ever saw.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should stop"
)]

use std::error::Error;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use uketsuke::testkit::{Breaks, Fate, HangUp, Link};

/// Longer than anything here takes on the slowest machine: it ends a test that would hang, and decides nothing else.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a client waits for what will never come.
const SOON: Duration = Duration::from_secs(1);
const BOTH: [HangUp; 2] = [HangUp::Fin, HangUp::Reset];

const ORDER: &str = r#"{"customer":"C-100","items":[{"sku":"SKU-1","qty":2}]}"#;
const HEAD: &str = "HTTP/1.1 201 Created\r\nContent-Length: 20\r\n\r\n";
const BODY: &str = "0123456789abcdefghij";
const CHUNKED: &str = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n";
const CHUNKS: &str = "14\r\n0123456789abcdefghij\r\n0\r\n\r\n";
const POST: &str = "POST /orders HTTP/1.1\r\nHost: desk\r\nContent-Length: 5\r\n\r\nhello";

// ---- passing -------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn without_a_plan_a_conversation_passes_byte_for_byte() {
    let mut server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(format!("http://{}/", server.address)).await;
    assert_eq!(link.url(), format!("http://{}", link.address()));
    let mut client = Raw::to(&link).await;
    for _ in 0..3 {
        client.say(POST).await;
        assert_eq!(server.saw().await, Saw::Whole(POST.as_bytes().to_vec()));
        assert_eq!(client.hear(HEAD.len() + BODY.len()).await, [HEAD, BODY].concat());
    }
    drop(client);
    assert_eq!(
        server.saw().await,
        Saw::Left(Vec::new(), End::Fin),
        "the client's leaving passes too"
    );
    let seen = link.seen().remove(0);
    assert_eq!((link.connections(), seen.number, seen.requests), (1, 1, 3));
    assert_eq!(seen.up, 3 * POST.len() as u64);
    assert_eq!(seen.down, 3 * (HEAD.len() + BODY.len()) as u64);
    link.assert_plan_played();
}

#[tokio::test]
async fn a_path_stays_in_the_url() {
    let mut server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(format!("http://{}/v1/", server.address)).await;
    assert_eq!(link.url(), format!("http://{}/v1", link.address()));
    assert_eq!(text(post(&link).await.unwrap()).await, BODY);
    let Saw::Whole(request) = server.saw().await else {
        panic!("the server had a whole request")
    };
    assert!(request.starts_with(b"POST /v1/orders HTTP/1.1\r\n"));
}

#[tokio::test]
async fn more_than_any_buffer_holds_passes_both_ways_at_once() {
    // An echo: the server says as it hears. A link that did one thing after the other would stop dead here.
    let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let link = Link::to(echo.local_addr().unwrap()).await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = echo.accept().await.unwrap();
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await.unwrap();
        to.shutdown().await.unwrap();
    });
    let much: Vec<u8> = (0..8_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut client = Raw::to(&link).await.0;
    let (mut from, mut to) = client.split();
    let say = async {
        to.write_all(&much).await.unwrap();
        to.shutdown().await.unwrap();
    };
    let mut heard = Vec::new();
    let (_, listened) = soon(async { tokio::join!(say, from.read_to_end(&mut heard)) }).await;
    listened.unwrap();
    assert!(heard == much, "what is no HTTP passes too, byte for byte");
    soon(server).await.unwrap();
}

#[tokio::test]
async fn ends_and_resets_pass_as_they_are() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let link = Link::to(server.local_addr().unwrap()).await;
    for end in [End::Fin, End::Reset] {
        let mut client = Raw::to(&link).await;
        client.say("hello").await;
        let mut stream = soon(server.accept()).await.unwrap().0;
        stream.read_exact(&mut [0; 5]).await.unwrap();
        if end == End::Reset {
            stream.set_zero_linger().unwrap();
        }
        drop(stream);
        assert_eq!(client.hear_all().await, (String::new(), end), "the server's");
    }
    for end in [End::Fin, End::Reset] {
        let mut client = Raw::to(&link).await;
        client.say("hello").await;
        let mut stream = Raw(soon(server.accept()).await.unwrap().0);
        assert_eq!(stream.hear(5).await, "hello");
        if end == End::Reset {
            client.0.set_zero_linger().unwrap();
        }
        drop(client);
        assert_eq!(stream.hear_all().await, (String::new(), end), "the client's");
    }
}

#[tokio::test]
async fn without_a_server_the_client_is_reset_and_the_story_says_why() {
    // Bound and not listening, or else the next socket that asks for a port may get this one.
    let nobody = TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let link = Link::to(nobody.local_addr().unwrap()).await;
    let error = post(&link).await.unwrap_err();
    assert!(is_reset(&error) || was_too_early(&error), "{error:?}");
    assert_eq!(link.seen()[0].fate, Fate::NoServer);
    assert!(link.story().contains("no server was there"), "{}", link.story());
}

#[tokio::test]
async fn fifty_connections_at_once_pass_each_with_its_own_break() {
    let server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().pass().times(20).lose_reply(HangUp::Fin).times(10).pass());
    let mut clients = JoinSet::new();
    for _ in 0..50 {
        let url = link.url();
        clients.spawn(async move { client().post(url).body(ORDER).send().await.is_ok() });
    }
    let well = soon(clients.join_all()).await.into_iter().filter(|well| *well).count();
    assert_eq!((well, link.connections()), (40, 50), "{}", link.story());
    link.assert_plan_played();
}

// ---- the server never has the whole request --------------------------------------------------------------------------

#[tokio::test]
async fn a_link_that_is_down_refuses_and_comes_up_on_the_same_port() {
    let mut server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().cut_body(3, HangUp::Fin));
    let url = link.url();
    for _ in 0..3 {
        link.go_down().await;
        link.go_down().await;
        let error = post(&link).await.unwrap_err();
        assert!(error.is_connect(), "{error:?}");
        assert_eq!(kind(&error), Some(ErrorKind::ConnectionRefused));
        link.come_up().await;
        link.come_up().await;
        assert_eq!(link.url(), url);
    }
    assert_eq!(link.connections(), 0, "refused connections are not counted, and use up no break");
    assert!(read_body(post(&link).await.unwrap()).await.1.is_some());
    link.assert_plan_played();
    server.saw_first_of(&link, 1).await;
}

#[tokio::test]
async fn going_down_ends_the_connections_that_are_open() {
    let mut server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().pass().black_hole());
    let (mut passing, mut stuck) = (Raw::to(&link).await, Raw::to(&link).await);
    passing.say(POST).await;
    passing.hear(HEAD.len() + BODY.len()).await;
    stuck.say(POST).await;
    soon(async {
        while link.seen().len() < 2 || link.seen()[1].fate != Fate::Broken {
            tokio::task::yield_now().await;
        }
    })
    .await;
    link.go_down().await;
    assert_eq!(passing.hear_all().await.0, "");
    assert_eq!(stuck.hear_all().await.0, "");
    assert!(matches!(server.saw().await, Saw::Whole(_)));
    assert!(matches!(server.saw().await, Saw::Left(..)));
}

// These two stay on one thread. On several, a connection that dies between being made and being used can leave hyper's client waiting for
// ever, once in some thousand times and with any server: only a timeout ends that.

/// BUG-68: a reset before any reply.
#[tokio::test]
async fn a_reset_at_accept_reaches_the_client_as_a_reset_and_the_server_never_hears() {
    let mut server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().hang_up(HangUp::Reset));
    let error = post(&link).await.unwrap_err();
    // It may hit the client while it connects, before it sends, or while it sends; only the first is `is_connect`.
    assert!(is_reset(&error) || was_too_early(&error), "{error:?}");
    let seen = link.seen().remove(0);
    assert_eq!((seen.requests, seen.up, seen.down, seen.fate), (0, 0, 0, Fate::Broken));
    server.saw_first_of(&link, 2).await;
}

#[tokio::test]
async fn a_fin_at_accept_reads_as_an_incomplete_message_and_the_server_never_hears() {
    let mut server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().hang_up(HangUp::Fin));
    let error = post(&link).await.unwrap_err();
    assert!(is_incomplete(&error) || was_too_early(&error), "{error:?}");
    assert!(!error.is_connect() && !error.is_timeout(), "{error:?}");
    server.saw_first_of(&link, 2).await;
}

#[tokio::test]
async fn a_fin_stays_a_fin_however_much_is_still_sent() {
    let link = Link::to("127.0.0.1:1").await;
    link.plan(Breaks::new().hang_up(HangUp::Fin));
    let mut client = Raw::to(&link).await;
    assert_eq!(client.hear_all().await, (String::new(), End::Fin));
    // A closed socket would answer the first bytes by a reset, and the rest could not be sent.
    client.say(&POST.repeat(100_000)).await;
    assert_eq!(client.hear_all().await, (String::new(), End::Fin));
}

#[tokio::test]
async fn a_lost_request_looks_like_a_lost_reply_and_the_server_never_hears() {
    for how in BOTH {
        let mut server = Server::start(&[HEAD, BODY].concat()).await;
        let link = Link::to(server.address).await;
        link.plan(Breaks::new().lose_request(how));
        assert_lost_as(how, &post(&link).await.unwrap_err());
        let seen = link.seen().remove(0);
        assert_eq!((seen.requests, seen.up, seen.down, seen.fate), (0, 0, 0, Fate::Broken));
        server.saw_first_of(&link, 2).await;
    }
}

#[tokio::test]
async fn a_request_is_lost_whole_however_it_is_framed_and_cut_into_pieces() {
    let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for request in [POST, chunked, "GET / HTTP/1.1\r\n\r\n"] {
        let mut server = Server::start(&[HEAD, BODY].concat()).await;
        let link = Link::to(server.address).await;
        link.plan(Breaks::new().lose_request(HangUp::Reset));
        let mut client = Raw::to(&link).await;
        client.0.set_nodelay(true).unwrap();
        let (last, first) = request.as_bytes().split_last().unwrap();
        for byte in first {
            client.0.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(
            link.seen().first().map_or(Fate::Open, |seen| seen.fate),
            Fate::Open,
            "a byte is missing"
        );
        client.0.write_all(&[*last]).await.unwrap();
        assert_eq!(client.hear_all().await, (String::new(), End::Reset));
        server.saw_first_of(&link, 2).await;
    }
}

#[tokio::test]
async fn a_black_hole_is_a_timeout_and_the_server_never_hears() {
    let mut server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().black_hole());
    let error = client().post(link.url()).timeout(SOON).body(ORDER).send().await.unwrap_err();
    assert!(error.is_timeout() && !error.is_connect(), "{error:?}");
    link.assert_plan_played();
    server.saw_first_of(&link, 2).await;
}

#[tokio::test]
async fn a_cut_request_leaves_the_server_with_its_first_bytes_and_the_client_without_a_reply() {
    for how in BOTH {
        for n in [0, 1, 40] {
            let mut server = Server::start(&[HEAD, BODY].concat()).await;
            let link = Link::to(server.address).await;
            link.plan(Breaks::new().cut_request(n, how));
            assert_lost_as(how, &post(&link).await.unwrap_err());
            let Saw::Left(half, end) = server.saw().await else {
                panic!("the server had a whole request")
            };
            // A reset may overtake the bytes before it.
            assert!(
                half.len() as u64 == n || (end == End::Reset && half.len() as u64 <= n),
                "{n}: {half:?}"
            );
            assert_eq!(end == End::Reset, how == HangUp::Reset);
            let seen = link.seen().remove(0);
            assert_eq!((seen.requests, seen.up, seen.down), (0, n, 0));
            link.assert_plan_played();
        }
    }
}

#[tokio::test]
async fn a_request_is_cut_at_every_byte_where_the_plan_says() {
    let mut server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    for n in 0..POST.len() {
        link.plan(Breaks::new().cut_request(n as u64, HangUp::Fin));
        let mut client = Raw::to(&link).await;
        client.say(POST).await;
        assert_eq!(client.hear_all().await, (String::new(), End::Fin));
        assert_eq!(server.saw().await, Saw::Left(POST.as_bytes()[..n].to_vec(), End::Fin));
    }
}

#[tokio::test]
async fn a_request_that_is_shorter_than_its_cut_passes_and_the_plan_counts_as_not_played() {
    let server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().cut_request(POST.len() as u64, HangUp::Fin));
    let mut client = Raw::to(&link).await;
    client.say(POST).await;
    assert_eq!(client.hear(HEAD.len()).await, HEAD);
    let complaint = panic_of(move || link.assert_plan_played());
    assert!(complaint.contains("connection #1 went without its break"), "{complaint}");
}

// ---- the server has answered -----------------------------------------------------------------------------------------

/// BUG-68: closed after the server has acted.
#[tokio::test]
async fn a_lost_reply_leaves_the_server_with_the_whole_request_and_the_client_without_a_byte() {
    for how in BOTH {
        for reply in [[HEAD, BODY].concat(), [CHUNKED, CHUNKS].concat()] {
            let mut server = Server::start(&reply).await;
            let link = Link::to(server.address).await;
            link.plan(Breaks::new().lose_reply(how));
            assert_lost_as(how, &post(&link).await.unwrap_err());
            server.saw_an_order().await;
            let seen = link.seen().remove(0);
            assert_eq!((seen.requests, seen.down, seen.fate), (1, 0, Fate::Broken));
        }
    }
}

#[tokio::test]
async fn a_reply_without_a_length_is_lost_when_the_server_hangs_up() {
    let mut server = Server::start_and_hang_up("HTTP/1.1 201 Created\r\n\r\nto the end").await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().lose_reply(HangUp::Reset));
    assert_lost_as(HangUp::Reset, &post(&link).await.unwrap_err());
    server.saw_an_order().await;
}

#[tokio::test]
async fn a_client_that_leaves_without_a_request_has_lost_no_reply() {
    let mut server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().lose_reply(HangUp::Fin));
    drop(Raw::to(&link).await);
    assert_eq!(server.saw().await, Saw::Left(Vec::new(), End::Fin));
    ended(&link, 0, Fate::Passed).await;
}

/// BUG-68: a body cut short.
#[tokio::test]
async fn a_cut_body_shows_the_status_and_then_an_error() {
    for how in BOTH {
        for (head, body) in [(HEAD, BODY), (CHUNKED, CHUNKS)] {
            for n in [0, 1, 14] {
                let mut server = Server::start(&[head, body].concat()).await;
                let link = Link::to(server.address).await;
                link.plan(Breaks::new().cut_body(n, how));
                let response = post(&link).await.unwrap();
                assert_eq!(response.status(), 201);
                let (read, error) = read_body(response).await;
                let error = error.expect("a cut body is an error");
                assert!(error.is_decode() && !error.is_timeout(), "{error:?}");
                assert_eq!(is_reset(&error), how == HangUp::Reset, "{error:?}");
                assert!(BODY.starts_with(&read) && read.len() as u64 <= n, "{read:?}");
                assert_eq!(link.seen()[0].down, head.len() as u64 + n);
                server.saw_an_order().await;
            }
        }
    }
}

#[tokio::test]
async fn a_fin_after_n_bytes_of_the_body_lets_exactly_those_through() {
    let server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().cut_body(14, HangUp::Fin));
    let (read, error) = read_body(post(&link).await.unwrap()).await;
    assert_eq!((read.as_str(), error.is_some()), (&BODY[..14], true));
}

#[tokio::test]
async fn half_a_status_line_is_no_status() {
    for how in BOTH {
        for n in [0, 4, HEAD.len() as u64 - 1] {
            let mut server = Server::start(&[HEAD, BODY].concat()).await;
            let link = Link::to(server.address).await;
            link.plan(Breaks::new().cut_reply(n, how));
            assert_lost_as(how, &post(&link).await.unwrap_err());
            assert_eq!(link.seen()[0].down, n);
            server.saw_an_order().await;
        }
    }
}

#[tokio::test]
async fn a_reply_is_cut_at_every_byte_where_the_plan_says() {
    let reply = [HEAD, BODY].concat();
    let server = Server::start(&reply).await;
    let link = Link::to(server.address).await;
    for n in 0..reply.len() {
        link.plan(Breaks::new().cut_reply(n as u64, HangUp::Fin));
        let mut client = Raw::to(&link).await;
        client.say(POST).await;
        assert_eq!(client.hear_all().await, (reply[..n].to_owned(), End::Fin));
        drop(client);
        link.plan(Breaks::new());
    }
}

#[tokio::test]
async fn a_reply_that_is_no_longer_than_its_cut_passes_and_the_plan_counts_as_not_played() {
    let server = Server::start(&[HEAD, BODY].concat()).await;
    for plan in [
        Breaks::new().cut_body(BODY.len() as u64, HangUp::Reset),
        Breaks::new().stall_reply((HEAD.len() + BODY.len()) as u64),
    ] {
        let link = Link::to(server.address).await;
        link.plan(plan);
        assert_eq!(text(post(&link).await.unwrap()).await, BODY);
        let complaint = panic_of(move || link.assert_plan_played());
        assert!(complaint.contains("connection #1 went without its break"), "{complaint}");
    }
}

#[tokio::test]
async fn a_body_without_a_length_looks_whole_when_cut_by_fin_and_shows_a_reset() {
    for how in BOTH {
        let server = Server::start_and_hang_up("HTTP/1.1 201 Created\r\n\r\n0123456789").await;
        let link = Link::to(server.address).await;
        link.plan(Breaks::new().cut_body(4, how));
        let (read, error) = read_body(post(&link).await.unwrap()).await;
        assert_eq!(error.as_ref().is_some_and(is_reset), how == HangUp::Reset);
        assert!(error.is_some() || read == "0123", "{read}");
        link.assert_plan_played();
    }
}

#[tokio::test]
async fn an_interim_reply_is_not_yet_the_body() {
    let continued = "HTTP/1.1 100 Continue\r\n\r\n";
    let server = Server::start(&[continued, HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().cut_body(5, HangUp::Fin));
    let mut client = Raw::to(&link).await;
    client.say(POST).await;
    assert_eq!(client.hear_all().await, ([continued, HEAD, "01234"].concat(), End::Fin));
}

#[tokio::test]
async fn the_reply_to_a_head_has_no_body_to_break() {
    let server = Server::start(HEAD).await;
    let link = Link::to(server.address).await;
    // If the head's length were believed, the second reply would be the body of the first, and cut.
    link.plan(Breaks::new().cut_body(3, HangUp::Fin));
    let mut client = Raw::to(&link).await;
    for _ in 0..2 {
        client.say("HEAD /orders/1 HTTP/1.1\r\nHost: desk\r\n\r\n").await;
        assert_eq!(client.hear(HEAD.len()).await, HEAD);
    }
    assert_eq!(link.seen()[0].fate, Fate::Open);
}

#[tokio::test]
async fn a_stall_before_the_status_is_a_timeout_and_the_server_has_the_request() {
    for n in [0, 4] {
        let mut server = Server::start(&[HEAD, BODY].concat()).await;
        let link = Link::to(server.address).await;
        link.plan(Breaks::new().stall_reply(n));
        let request = client().post(link.url()).timeout(SOON).body(ORDER);
        let error = request.send().await.unwrap_err();
        assert!(error.is_timeout() && !error.is_connect(), "{error:?}");
        server.saw_an_order().await;
        assert_eq!(link.seen()[0].down, n);
        link.assert_plan_played();
    }
}

/// BUG-68: a stall.
#[tokio::test]
async fn a_stalled_body_shows_the_status_and_then_a_timeout() {
    let mut server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().stall_body(7));
    let impatient = client_with(|client| client.read_timeout(SOON));
    let response = impatient.post(link.url()).body(ORDER).send().await.unwrap();
    assert_eq!(response.status(), 201);
    let (read, error) = read_body(response).await;
    let error = error.expect("a stalled body is an error");
    assert!(error.is_timeout() && error.is_decode(), "{error:?}");
    assert_eq!(read, BODY[..7]);
    server.saw_an_order().await;
}

#[tokio::test]
async fn a_stall_keeps_the_connection_open_until_the_client_leaves() {
    let mut server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().stall_reply(9));
    let mut client = Raw::to(&link).await;
    client.say(POST).await;
    assert_eq!(client.hear(9).await, HEAD[..9]);
    assert!(matches!(server.saw().await, Saw::Whole(_)));
    let silence = timeout(Duration::from_millis(100), client.0.read_u8()).await;
    assert!(silence.is_err(), "neither a byte nor an end");
    drop(client);
    assert_eq!(server.saw().await, Saw::Left(Vec::new(), End::Fin));
}

#[tokio::test]
async fn a_dripped_reply_arrives_whole() {
    for plan in [
        Breaks::new().drip_reply(Duration::from_millis(1)),
        Breaks::new().drip_body(Duration::from_millis(1)),
    ] {
        let mut server = Server::start(&[HEAD, BODY].concat()).await;
        let link = Link::to(server.address).await;
        link.plan(plan);
        assert_eq!(text(post(&link).await.unwrap()).await, BODY);
        server.saw_an_order().await;
        link.assert_plan_played();
    }
}

#[tokio::test]
async fn a_dripped_body_shows_the_status_and_outlives_a_read_timeout_but_no_total_one() {
    let server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    let read = SOON / 2;
    // Five bytes in each read timeout, so that none fires; all twenty take twice as long as the total timeout allows.
    link.plan(Breaks::new().drip_body(SOON / 10).times(2));
    let patient = client_with(|client| client.read_timeout(read));
    let impatient = client_with(|client| client.timeout(SOON));
    let patient = async { text(patient.post(link.url()).body(ORDER).send().await.unwrap()).await };
    let impatient = async { read_body(impatient.post(link.url()).body(ORDER).send().await.unwrap()).await };
    let (whole, (_, error)) = soon(async { tokio::join!(patient, impatient) }).await;
    assert_eq!(whole, BODY);
    assert!(error.expect("it takes too long").is_timeout());
}

#[tokio::test]
async fn a_delayed_reply_is_late_and_whole() {
    let mut server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().delay_reply(SOON));
    let answered = post(&link);
    let too_early = async {
        server.saw_an_order().await;
        sleep(SOON / 2).await;
        server
    };
    tokio::pin!(answered);
    tokio::select! {
        biased;
        _ = too_early => {}
        answer = &mut answered => panic!("the reply was not delayed: {answer:?}"),
    }
    assert_eq!(text(soon(answered).await.unwrap()).await, BODY);
    link.assert_plan_played();
}

#[tokio::test]
async fn what_is_left_of_a_broken_reply_is_taken_from_the_server() {
    // More than the sockets hold: the server could not finish writing if nobody read on.
    let body = "x".repeat(16_000_000);
    let reply = format!("HTTP/1.1 201 Created\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    for plan in [
        Breaks::new().cut_body(10, HangUp::Reset),
        Breaks::new().cut_body(10, HangUp::Fin),
        Breaks::new().stall_body(10),
        Breaks::new().lose_reply(HangUp::Fin),
    ] {
        let mut server = Server::start(&reply).await;
        let link = Link::to(server.address).await;
        link.plan(plan);
        let mut client = Raw::to(&link).await;
        client.say(POST).await;
        assert!(matches!(server.saw().await, Saw::Whole(_)));
        assert_eq!(server.saw().await, Saw::Answered);
    }
}

// ---- later requests of a connection ----------------------------------------------------------------------------------

#[tokio::test]
async fn a_kept_alive_connection_can_die_under_its_second_request() {
    for how in BOTH {
        let mut server = Server::start(&[HEAD, BODY].concat()).await;
        let link = Link::to(server.address).await;
        link.plan(Breaks::new().lose_request(how).after_requests(1));
        let mut client = Raw::to(&link).await;
        client.say(POST).await;
        assert_eq!(client.hear(HEAD.len() + BODY.len()).await, [HEAD, BODY].concat());
        assert!(matches!(server.saw().await, Saw::Whole(_)));
        client.say(POST).await;
        assert_eq!(client.hear_all().await, (String::new(), End::from(how)));
        assert_eq!(server.saw().await, Saw::Left(Vec::new(), End::Fin), "the second request never came");
        let seen = link.seen().remove(0);
        assert_eq!((seen.requests, seen.fate), (1, Fate::Broken));
    }
}

#[tokio::test]
async fn the_reply_to_the_second_request_can_be_cut_alone() {
    let mut server = Server::start(&[CHUNKED, CHUNKS].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().cut_body(8, HangUp::Fin).after_requests(1));
    let mut client = Raw::to(&link).await;
    client.say(POST).await;
    assert_eq!(client.hear(CHUNKED.len() + CHUNKS.len()).await, [CHUNKED, CHUNKS].concat());
    client.say(POST).await;
    assert_eq!(client.hear_all().await, ([CHUNKED, &CHUNKS[..8]].concat(), End::Fin));
    assert!(matches!(server.saw().await, Saw::Whole(_)));
    assert!(matches!(server.saw().await, Saw::Whole(_)));
}

#[tokio::test]
async fn an_idle_connection_can_be_hung_up_on_behind_its_reply() {
    for how in BOTH {
        let server = Server::start(&[HEAD, BODY].concat()).await;
        let link = Link::to(server.address).await;
        link.plan(Breaks::new().hang_up(how).after_requests(1));
        let mut client = Raw::to(&link).await;
        client.say(POST).await;
        assert_eq!(client.hear_all().await, ([HEAD, BODY].concat(), End::from(how)));
        link.assert_plan_played();
    }
}

#[tokio::test]
async fn a_connection_that_survives_its_break_passes_from_then_on() {
    let server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().drip_body(Duration::from_millis(1)).lose_reply(HangUp::Fin));
    let mut client = Raw::to(&link).await;
    for _ in 0..3 {
        client.say(POST).await;
        assert_eq!(client.hear(HEAD.len() + BODY.len()).await, [HEAD, BODY].concat());
    }
    assert_eq!((link.connections(), link.plan_left()), (1, 1));
}

// ---- the plan --------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn breaks_are_used_up_in_the_order_connections_arrive() {
    let server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().times(3));
    assert_eq!(link.plan_left(), 0, "there was nothing to repeat");
    let plan = Breaks::new().lose_reply(HangUp::Fin).times(2).black_hole().times(0).pass();
    link.plan(plan.cut_body(3, HangUp::Reset));
    assert_eq!(link.plan_left(), 4);
    let mut well = Vec::new();
    for _ in 0..6 {
        well.push(match post(&link).await {
            Ok(response) => read_body(response).await.1.is_none(),
            Err(_) => false,
        });
    }
    assert_eq!(well, [false, false, true, false, true, true]);
    let numbers: Vec<usize> = link.seen().iter().map(|passage| passage.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    link.assert_plan_played();
}

#[tokio::test]
async fn a_plan_whose_connections_never_came_fails_the_test() {
    let link = Link::to("127.0.0.1:1").await;
    link.plan(Breaks::new().black_hole().times(2));
    let complaint = panic_of(move || link.assert_plan_played());
    assert!(complaint.contains("2 of its connections never came"), "{complaint}");
    assert!(complaint.contains("no connection came"), "{complaint}");
}

#[tokio::test]
async fn the_story_says_what_was_planned_and_what_was_done() {
    let server = Server::start(&[HEAD, BODY].concat()).await;
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().cut_body(3, HangUp::Reset));
    let mut client = Raw::to(&link).await;
    client.say(POST).await;
    client.hear_all().await;
    let (up, down) = (POST.len(), HEAD.len() + 3);
    let planned = "to cut the reply after 3 bytes of its body by RST";
    let story = format!("  #1 {planned} | done | 1 whole requests, {up} bytes up, {down} bytes down");
    assert_eq!(link.story(), story);
}

// ---- the end ---------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_dropped_link_closes_its_port_and_its_connections_and_leaves_no_task() {
    let server = Server::start(&[HEAD, BODY].concat()).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let link = Link::to(server.address).await;
    link.plan(Breaks::new().black_hole().stall_reply(0).delay_reply(PATIENCE * 100).pass());
    let address = link.address();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = Raw::to(&link).await;
        client.say(POST).await;
        clients.push(client);
    }
    clients[3].hear(HEAD.len() + BODY.len()).await;
    drop(link);
    for client in &mut clients {
        assert_eq!(client.hear_all().await.0, "");
    }
    soon(async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        // One is the server's own; those of its connections end when they notice.
        while tasks() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_link_that_is_dropped_while_it_is_down_gives_its_port_free() {
    let link = Link::to("127.0.0.1:1").await;
    let address = link.address();
    link.go_down().await;
    drop(link);
    TcpListener::bind(address).await.unwrap();
}

// ---- a server that counts --------------------------------------------------------------------------------------------

/// What the server saw of one request, in the order it saw it.
#[derive(Debug, PartialEq, Eq)]
enum Saw {
    /// A whole request, and these are its bytes.
    Whole(Vec<u8>),
    /// The whole reply could be written.
    Answered,
    /// The other side left; these bytes were no whole request.
    Left(Vec<u8>, End),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Fin,
    Reset,
}

impl From<HangUp> for End {
    fn from(how: HangUp) -> Self {
        match how {
            HangUp::Fin => Self::Fin,
            HangUp::Reset => Self::Reset,
        }
    }
}

/// Answers every request with the same bytes, and tells what it saw. It reads HTTP in its own crude way.
struct Server {
    address: SocketAddr,
    saw: UnboundedReceiver<Saw>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(reply: &str) -> Self {
        Self::open(reply, false).await
    }

    async fn start_and_hang_up(reply: &str) -> Self {
        Self::open(reply, true).await
    }

    async fn open(reply: &str, hangs_up: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, saw) = unbounded_channel();
        let reply = reply.to_owned();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, reply.clone(), hangs_up, tell.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            address,
            saw,
            _tasks: tasks,
        }
    }

    /// The next thing it saw. That a reply could be written is told only where it was not easy.
    async fn saw(&mut self) -> Saw {
        soon(self.saw.recv()).await.expect("the server lives")
    }

    /// The next thing it saw was the whole order.
    async fn saw_an_order(&mut self) {
        match self.saw().await {
            Saw::Whole(request) => assert!(request.ends_with(ORDER.as_bytes())),
            other => panic!("not the whole order: {other:?}"),
        }
    }

    /// Sends a harmless request through the link, as its `number`th connection, and asserts that it is the first thing the server saw.
    async fn saw_first_of(&mut self, link: &Link, number: usize) {
        if number > 1 {
            assert_eq!(self.saw.try_recv().ok(), None);
        }
        let marked = format!("connection {number}");
        let response = client().post(link.url()).body(marked.clone()).send().await;
        if number > 1 {
            assert_eq!(text(response.unwrap()).await, BODY);
            assert_eq!(link.connections(), number);
            match self.saw().await {
                Saw::Whole(request) => assert!(request.ends_with(marked.as_bytes())),
                other => panic!("the server heard something before: {other:?}"),
            }
        } else {
            self.saw_an_order().await;
        }
    }
}

async fn serve(mut stream: TcpStream, reply: String, hangs_up: bool, tell: UnboundedSender<Saw>) {
    stream.set_nodelay(true).unwrap();
    let mut request = Vec::new();
    let mut buffer = vec![0; 4096];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => return drop(tell.send(Saw::Left(request, End::Fin))),
            Ok(n) => request.extend(&buffer[..n]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                return drop(tell.send(Saw::Left(request, End::Reset)));
            }
        }
        if is_whole(&request) {
            drop(tell.send(Saw::Whole(std::mem::take(&mut request))));
            let written = stream.write_all(reply.as_bytes()).await;
            if written.is_ok() && reply.len() > 1_000_000 {
                drop(tell.send(Saw::Answered));
            }
            if hangs_up {
                return;
            }
        }
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    match length {
        Some(length) => body.len() >= length.parse::<usize>().unwrap(),
        None => !head.contains("chunked") || body.ends_with("0\r\n\r\n"),
    }
}

// ---- clients ---------------------------------------------------------------------------------------------------------

fn client() -> Client {
    client_with(|client| client)
}

#[expect(clippy::disallowed_methods, reason = "a plain client, to see with its eyes what the link does")]
fn client_with(tune: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
    tune(Client::builder().no_proxy()).build().unwrap()
}

async fn post(link: &Link) -> reqwest::Result<Response> {
    soon(client().post(format!("{}/orders", link.url())).body(ORDER).send()).await
}

async fn text(response: Response) -> String {
    soon(response.text()).await.unwrap()
}

/// What could be read of a body, and the error that ended it.
async fn read_body(mut response: Response) -> (String, Option<reqwest::Error>) {
    let mut read = Vec::new();
    loop {
        match soon(response.chunk()).await {
            Ok(Some(chunk)) => read.extend(chunk),
            Ok(None) => return (String::from_utf8(read).unwrap(), None),
            Err(error) => return (String::from_utf8(read).unwrap(), Some(error)),
        }
    }
}

/// A connection without any HTTP on it.
struct Raw(TcpStream);

impl Raw {
    async fn to(link: &Link) -> Self {
        Self(TcpStream::connect(link.address()).await.unwrap())
    }

    async fn say(&mut self, text: &str) {
        soon(self.0.write_all(text.as_bytes())).await.unwrap();
    }

    async fn hear(&mut self, n: usize) -> String {
        let mut heard = vec![0; n];
        soon(self.0.read_exact(&mut heard)).await.unwrap();
        String::from_utf8(heard).unwrap()
    }

    /// Everything to the end, and which end it was.
    async fn hear_all(&mut self) -> (String, End) {
        let mut heard = Vec::new();
        let mut buffer = vec![0; 4096];
        let end = loop {
            match soon(self.0.read(&mut buffer)).await {
                Ok(0) => break End::Fin,
                Ok(n) => heard.extend(&buffer[..n]),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                    break End::Reset;
                }
            }
        };
        (String::from_utf8(heard).unwrap(), end)
    }
}

/// The request is gone, and the client cannot tell whether it was placed: not a word of connecting, and no timeout.
#[track_caller]
fn assert_lost_as(how: HangUp, error: &reqwest::Error) {
    assert!(!error.is_connect() && !error.is_timeout() && error.is_request(), "{error:?}");
    match how {
        HangUp::Fin => assert!(is_incomplete(error), "{error:?}"),
        HangUp::Reset => assert!(is_reset(error), "{error:?}"),
    }
}

/// A reset shows as a broken pipe to a client that was writing.
fn is_reset(error: &reqwest::Error) -> bool {
    matches!(kind(error), Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe))
}

fn is_incomplete(error: &reqwest::Error) -> bool {
    says(error, "connection closed before message completed")
}

/// The connection was gone between being made and being used; the cause is not told.
fn was_too_early(error: &reqwest::Error) -> bool {
    says(error, "connection was not ready")
}

fn says(error: &reqwest::Error, text: &str) -> bool {
    causes(error).any(|cause| cause.to_string() == text)
}

fn kind(error: &reqwest::Error) -> Option<ErrorKind> {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .map(io::Error::kind)
        .last()
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

/// Waits until the link has noted what became of a connection.
async fn ended(link: &Link, at: usize, fate: Fate) {
    soon(async {
        while link.seen()[at].fate == Fate::Open {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(link.seen()[at].fate, fate);
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("this takes too long")
}

/// What a failed assertion said.
fn panic_of(assertion: impl FnOnce()) -> String {
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(assertion)).expect_err("the assertion must fail");
    *panicked.downcast::<String>().unwrap()
}
