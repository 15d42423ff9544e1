//! Redis goes away, answers into the void, or holds what nobody wrote: nothing is run on a guess.

use super::server::{self, Server};
use crate::kit::plain_client;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use uketsuke::testkit::{Ask, Claimed, Desk, Ledger, LedgerError, RedisLedger, Reply, RowState};

fn ask() -> Ask {
    Ask::new("key", "contents")
}

async fn post(desk: &Desk, path: &str) -> (u16, String) {
    let post = plain_client()
        .post(format!("{}{path}", desk.url()))
        .header("Idempotency-Key", "key-0123456789abcdef");
    let answer = post.header("Content-Type", "application/json").body("{}").send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

// case 51
#[tokio::test]
async fn a_ledger_that_is_down_at_the_claim_runs_nothing_and_comes_back() {
    let Some(server) = server::shared() else { return };
    let proxy = Proxy::before(server);
    let ledger = Arc::new(proxy.ledger("down:").await);
    let desk = Desk::builder().ledger(ledger.clone()).start().await.unwrap();
    proxy.set(DEAD);
    assert!(matches!(ledger.claim(ask()).await, Err(LedgerError::Unreachable(_))));
    let (status, body) = post(&desk, "/orders").await;
    assert_eq!((status, body.contains("ledger_unavailable")), (503, true), "{body}");
    assert!(desk.orders().is_empty());
    proxy.set(WHOLE);
    assert_eq!(post(&desk, "/orders").await.0, 201);
    assert_eq!(desk.orders().len(), 1);
}

#[tokio::test]
async fn a_ledger_nobody_answers_for_is_not_opened() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let opened = RedisLedger::open(&format!("redis://{closed}")).await;
    assert!(matches!(opened, Err(LedgerError::Unreachable(_))), "{opened:?}");
}

#[tokio::test]
async fn a_server_that_was_killed_is_unreachable() {
    let Some(server) = Server::start() else { return };
    let ledger = server.ledger("").await;
    assert!(matches!(ledger.claim(ask()).await, Ok(Claimed::New(_))));
    drop(server);
    assert!(matches!(ledger.claim(ask()).await, Err(LedgerError::Unreachable(_))));
    assert!(matches!(ledger.rows().await, Err(LedgerError::Unreachable(_))));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_in_time() {
    let Some(server) = server::shared() else { return };
    let proxy = Proxy::before(server);
    let ledger = proxy.ledger("mute:").await;
    proxy.set(MUTE);
    let limit = tokio::time::timeout(std::time::Duration::from_secs(8), ledger.claim(ask()));
    assert!(matches!(limit.await, Ok(Err(LedgerError::Unreachable(_)))));
    proxy.set(WHOLE);
    assert!(
        ledger.claim(Ask::new("next", "contents")).await.is_ok(),
        "the mute connection is left behind"
    );
}

// case 52
#[tokio::test]
async fn what_could_not_be_stored_stays_processing_and_never_runs_again() {
    let Some(server) = server::shared() else { return };
    let proxy = Proxy::before(server);
    let ledger = Arc::new(proxy.ledger("unstored:").await);
    let desk = Desk::builder().ledger(ledger.clone()).start().await.unwrap();
    let wire = proxy.clone();
    desk.serve("POST", "/book", move |_| {
        wire.set(DEAD);
        Reply::status(201)
    });
    assert_eq!(post(&desk, "/book").await.0, 503);
    proxy.set(WHOLE);
    let row = ledger.read("key-0123456789abcdef").await.unwrap().unwrap();
    assert_eq!((row.state, row.begun), (RowState::Processing, true));
    assert_eq!(post(&desk, "/book").await.0, 409);
}

// case 54
#[tokio::test]
async fn a_release_that_fails_changes_no_answer() {
    let Some(server) = server::shared() else { return };
    let proxy = Proxy::before(server);
    let desk = Desk::builder()
        .ledger(Arc::new(proxy.ledger("unlock:").await))
        .start()
        .await
        .unwrap();
    let wire = proxy.clone();
    desk.serve("POST", "/book", move |_| {
        wire.set(DEAD);
        panic!("as planned")
    });
    let (status, body) = post(&desk, "/book").await;
    assert_eq!((status, body.contains("handler_panicked")), (500, true), "{body}");
    proxy.set(WHOLE);
    assert_eq!(post(&desk, "/book").await.0, 409, "nobody knows whether it ran");
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_its_own() {
    let Some(server) = server::shared() else { return };
    let proxy = Proxy::before(server);
    let ledger = proxy.ledger("lost:").await;
    // The script is known to the server after this one, so that the next answer is the claim's own.
    assert!(matches!(ledger.claim(Ask::new("first", "")).await, Ok(Claimed::New(_))));
    proxy.set(CUT_NEXT_ANSWER);
    let Claimed::New(claim) = ledger.claim(ask()).await.unwrap() else {
        panic!("not recognised")
    };
    assert_eq!(proxy.now(), WHOLE, "an answer was cut");
    assert_eq!(claim.fence(), 1, "the same claim, not a second one");
    for verb in ["begin", "complete", "release of another", "overrule", "tombstone"] {
        proxy.set(CUT_NEXT_ANSWER);
        match verb {
            "begin" => ledger.begin(&claim).await.unwrap(),
            "complete" => ledger.complete(&claim, &Reply::status(201)).await.unwrap(),
            "overrule" => assert!(ledger.overrule("first", &Reply::status(410)).await.unwrap()),
            "tombstone" => assert_eq!(
                ledger.tombstone("closed", &Reply::status(410), Default::default()).await.unwrap(),
                None
            ),
            _ => {
                proxy.set(WHOLE);
                let Claimed::New(other) = ledger.claim(Ask::new("other", "")).await.unwrap() else {
                    panic!("taken")
                };
                proxy.set(CUT_NEXT_ANSWER);
                ledger.release(&other).await.unwrap();
            }
        }
        assert_eq!(proxy.now(), WHOLE, "{verb}: an answer was cut");
    }
    assert_eq!(ledger.claim(ask()).await.unwrap(), Claimed::Known(Reply::status(201)));
}

// case 5
#[tokio::test]
async fn a_row_that_vanished_is_claimed_anew_with_a_higher_fence() {
    let Some(server) = server::shared() else { return };
    let ledger = server.ledger("vanished:").await;
    let Claimed::New(first) = ledger.claim(ask()).await.unwrap() else {
        panic!("taken")
    };
    let gone: bool = redis::cmd("DEL").arg("vanished:idem:key").query(&mut server.plain()).unwrap();
    assert!(gone);
    let Claimed::New(second) = ledger.claim(ask()).await.unwrap() else {
        panic!("taken")
    };
    assert!(second.fence() > first.fence());
    assert!(matches!(
        ledger.complete(&first, &Reply::status(201)).await,
        Err(LedgerError::Fenced { .. })
    ));
    ledger.complete(&second, &Reply::status(201)).await.unwrap();
}

// case 53
#[tokio::test]
async fn a_row_that_cant_be_read_is_neither_run_nor_overwritten() {
    let Some(server) = server::shared() else { return };
    let ledger = server.ledger("corrupt:").await;
    let whole = "HSET corrupt:idem:key seq 1 state SUCCEEDED contents contents owner o fence 1 begun 1 created 1 updated 1 status 201 headers [] body x";
    let damage = [
        "SET corrupt:idem:key text",
        "HSET corrupt:idem:key state PROCESSING",
        &whole.replace("SUCCEEDED", "DREAMING"),
        &whole.replace(" fence 1", ""),
        &whole.replace(" owner o", "").replace("SUCCEEDED", "PROCESSING"),
        &whole.replace("created 1", "created soon"),
        &whole.replace("status 201", "status fine"),
        &whole.replace("headers []", "headers {"),
        &whole.replace(" headers []", ""),
    ];
    let mut plain = server.plain();
    let mut run = |command: &str| {
        let mut words = command.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        for word in words {
            command.arg(word);
        }
        command.query::<redis::Value>(&mut plain).unwrap()
    };
    for damage in damage {
        run("DEL corrupt:idem:key");
        run(damage);
        let before = run("DUMP corrupt:idem:key");
        let claimed = ledger.claim(ask()).await;
        assert!(matches!(claimed, Err(LedgerError::Corrupt { .. })), "{damage}: {claimed:?}");
        assert!(matches!(ledger.read("key").await, Err(LedgerError::Corrupt { .. })), "{damage}");
        assert!(matches!(ledger.rows().await, Err(LedgerError::Corrupt { .. })), "{damage}");
        assert_eq!(run("DUMP corrupt:idem:key"), before, "{damage}");
    }
    run("DEL corrupt:idem:key");
    run(whole);
    assert!(
        matches!(ledger.claim(ask()).await, Ok(Claimed::Known(_))),
        "undamaged, it is an answer"
    );
}

#[tokio::test]
async fn redis_drops_what_is_forgotten_and_never_what_is_processing() {
    let Some(server) = server::shared() else { return };
    let ledger = server.ledger("drop:").await;
    let mut terms = uketsuke::testkit::Terms::default();
    terms.forget_after = Some(std::time::Duration::from_secs(60));
    let Claimed::New(claim) = ledger.claim(ask().on(terms)).await.unwrap() else {
        panic!("taken")
    };
    let left = || redis::cmd("PTTL").arg("drop:idem:key").query::<i64>(&mut server.plain()).unwrap();
    assert_eq!(left(), -1);
    ledger.complete(&claim, &Reply::status(201)).await.unwrap();
    assert!(left() > 60_000, "well after the ledger has forgotten it");
    ledger.turn_clock(60_000);
    let again = ledger.claim(ask().on(terms)).await.unwrap();
    let Claimed::New(again) = again else { panic!("{again:?}") };
    assert_eq!(left(), -1);
    ledger.complete(&again, &Reply::status(201)).await.unwrap();
    assert_eq!(left(), -1, "Redis does not know a clock that was turned");
}

const WHOLE: u8 = 0;
const CUT_NEXT_ANSWER: u8 = 1;
const DEAD: u8 = 2;
const MUTE: u8 = 3;

/// A wire in front of Redis that loses an answer, or everything.
#[derive(Clone)]
struct Proxy {
    port: u16,
    state: Arc<AtomicU8>,
}

impl Proxy {
    fn before(server: &Server) -> Self {
        let (listener, behind) = (TcpListener::bind("127.0.0.1:0").unwrap(), server.port());
        let port = listener.local_addr().unwrap().port();
        let proxy = Proxy {
            port,
            state: Arc::default(),
        };
        let state = Arc::clone(&proxy.state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(("127.0.0.1", behind)).unwrap());
                let ways = [
                    (client.try_clone().unwrap(), server.try_clone().unwrap(), false),
                    (server, client, true),
                ];
                for (from, to, answers) in ways {
                    let state = Arc::clone(&state);
                    thread::spawn(move || carry(from, to, answers, &state));
                }
            }
        });
        proxy
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::SeqCst);
    }

    fn now(&self) -> u8 {
        self.state.load(Ordering::SeqCst)
    }

    async fn ledger(&self, prefix: &str) -> RedisLedger {
        RedisLedger::open(&format!("redis://127.0.0.1:{}", self.port))
            .await
            .unwrap()
            .under(prefix)
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, answers: bool, state: &AtomicU8) {
    let mut bytes = [0; 65536];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        let cut = answers
            && state
                .compare_exchange(CUT_NEXT_ANSWER, WHOLE, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok();
        match state.load(Ordering::SeqCst) {
            MUTE if answers => {}
            _ if cut => break,
            DEAD => break,
            _ if to.write_all(&bytes[..read]).is_err() => break,
            _ => {}
        }
    }
    // Both ways end with either; that one has ended already is no news.
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
}
