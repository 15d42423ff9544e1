//! The public suite on the crate's own stores; and on stores that are broken on purpose, so that it can be seen to fail.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use uketsuke::{
    BoxFuture, IdempotencyKey, OwnerId,
    journal::{
        conformance::{self, Keeps, RULES},
        core,
        store::{Compaction, Decide, Mark, Record, Store, StoreError},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_store_keeps_every_rule() {
    let books = tempfile::tempdir().unwrap();
    let open = async |name: &str| -> Arc<dyn Store> { core::store(&books.path().join(name)).await.unwrap() };
    conformance::check(open, Keeps::ForGood).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_store_keeps_every_rule() {
    conformance::check(async |_: &str| core::memory().unwrap(), Keeps::WhileOpen)
        .await
        .unwrap();
}

/// How a store is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    ForgetsRecords,
    RunsTurnsWhenAsked,
    ListsNothing,
    MarksStandStill,
    IsDeaf,
    ListsTheNewestFirst,
    KeepsNothing,
    NeverCloses,
}

/// A good store behind somebody who spoils one thing.
#[derive(Debug)]
struct Spoilt(Arc<dyn Store>, Flaw);

impl Store for Spoilt {
    fn id(&self) -> OwnerId {
        self.0.id()
    }
    fn owner(&self) -> OwnerId {
        self.0.owner()
    }
    fn turn(&self, decide: Decide) -> BoxFuture<'static, Result<Mark, StoreError>> {
        let (store, flaw) = (Arc::clone(&self.0), self.1);
        match flaw {
            Flaw::RunsTurnsWhenAsked => Box::pin(async move { store.turn(decide).await }),
            Flaw::MarksStandStill => {
                let turn = store.turn(decide);
                Box::pin(async move { turn.await.map(|_| Mark(7)) })
            }
            _ => store.turn(decide),
        }
    }
    fn durable(&self, upto: Mark) -> BoxFuture<'static, Result<(), StoreError>> {
        self.0.durable(upto)
    }
    fn story(&self, key: IdempotencyKey) -> BoxFuture<'static, Result<Vec<Record>, StoreError>> {
        let (story, flaw) = (self.0.story(key), self.1);
        Box::pin(async move {
            let mut story = story.await?;
            if flaw == Flaw::ForgetsRecords {
                story.pop();
            }
            Ok(story)
        })
    }
    fn unsettled(&self, after: Option<IdempotencyKey>, limit: usize) -> BoxFuture<'static, Result<Vec<IdempotencyKey>, StoreError>> {
        match self.1 {
            Flaw::ListsNothing => Box::pin(async { Ok(Vec::new()) }),
            _ => self.0.unsettled(after, limit),
        }
    }
    fn orders(&self) -> BoxFuture<'static, Result<Vec<IdempotencyKey>, StoreError>> {
        let (orders, flaw) = (self.0.orders(), self.1);
        Box::pin(async move {
            let mut orders = orders.await?;
            if flaw == Flaw::ListsTheNewestFirst {
                orders.reverse();
            }
            Ok(orders)
        })
    }
    fn changed(&self, seen: Mark, at_most: Duration) -> BoxFuture<'static, Result<Mark, StoreError>> {
        match self.1 {
            Flaw::IsDeaf => Box::pin(async move { Ok(seen) }),
            _ => self.0.changed(seen, at_most),
        }
    }
    fn compact(&self) -> BoxFuture<'static, Result<Compaction, StoreError>> {
        self.0.compact()
    }
    fn close(&self) -> BoxFuture<'static, Result<(), StoreError>> {
        match self.1 {
            Flaw::NeverCloses => Box::pin(async { Ok(()) }),
            _ => self.0.close(),
        }
    }
}

/// Each flaw is named by the rule it breaks.
#[tokio::test]
async fn a_store_that_breaks_a_rule_is_told_which() {
    let cases = [
        (Flaw::ForgetsRecords, 0),
        (Flaw::RunsTurnsWhenAsked, 5),
        (Flaw::ListsNothing, 6),
        (Flaw::MarksStandStill, 7),
        (Flaw::IsDeaf, 8),
        (Flaw::ListsTheNewestFirst, 11),
        (Flaw::KeepsNothing, 12),
        (Flaw::NeverCloses, 12),
    ];
    for (flaw, rule) in cases {
        let books = Mutex::new(HashMap::new());
        let open = async |name: &str| -> Arc<dyn Store> {
            let fresh = core::memory().unwrap();
            let kept = match flaw {
                Flaw::KeepsNothing => fresh,
                _ => Arc::clone(books.lock().unwrap().entry(name.to_owned()).or_insert(fresh)),
            };
            let spoilt: Arc<dyn Store> = Arc::new(Spoilt(kept, flaw));
            spoilt
        };
        let broken = conformance::check(open, Keeps::ForGood).await.unwrap_err();
        assert_eq!(broken.rule, RULES[rule], "{flaw:?}: {broken}");
    }
}
