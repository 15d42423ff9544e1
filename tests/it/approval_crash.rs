//! The machine goes dark, or the process dies, at every single call that the journal makes to its disk, from parking a change over a person's yes to
//! sending it. Whoever comes next brings it to its end: one change at the server, one yes used, and a yes that was told is not asked for again.

use crate::{
    kit::{brisk, order},
    props::{actor, mail, receipt},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Mutex};
use uketsuke::{
    AmendOrder, Base, IdempotencyKey, Journal, Operator, OrderClient, OrderRef, Outcome,
    testkit::{CrashDisk, Desk, Kept},
};

const FOLDER: &str = "/journal";

struct World {
    desk: Desk,
    id: String,
    disk: CrashDisk,
    /// A person was told that their yes is recorded, while the disk lived.
    told: Mutex<Option<IdempotencyKey>>,
}

impl World {
    /// An order stands at the desk, from a journal that nothing happens to.
    async fn new() -> World {
        let desk = Desk::start().await;
        let elsewhere = OrderClient::new(Journal::memory().unwrap(), brisk(&desk.url()).build().unwrap(), actor());
        let placed = receipt(elsewhere.submit(mail(1), &order()).await);
        World {
            id: placed.value.order_id.unwrap(),
            desk,
            disk: CrashDisk::new(),
            told: Mutex::default(),
        }
    }

    async fn open(&self) -> Option<(OrderClient, Operator)> {
        let journal = Journal::builder().disk(self.disk.clone()).open(FOLDER).await.ok()?;
        let client = OrderClient::new(journal.clone(), brisk(&self.desk.url()).build().unwrap(), actor());
        Some((client, Operator::new(journal, "Ana")))
    }

    fn amend(&self) -> AmendOrder {
        AmendOrder::new(OrderRef::id(&self.id), Base::Version(1)).set("items", json!([{"sku": "SKU-1", "quantity": 20}]))
    }

    /// From the mail to its end, as far as the disk lets it come.
    async fn act(&self) -> Option<Outcome<uketsuke::OrderReceipt>> {
        let (client, ana) = self.open().await?;
        let mut told = client.submit(mail(2), &self.amend()).await.ok()?;
        if let Outcome::AwaitingApproval(ticket) = &told {
            if ticket.approved_by.is_none() {
                let preview = ticket.preview.as_ref()?;
                drop(ana.approve(ticket.key, &preview.digest, "").await.ok()?);
                if !self.disk.is_dead() {
                    self.told.lock().unwrap().replace(ticket.key);
                }
            }
            told = client.resume(ticket.key).await.ok()?.read::<AmendOrder>().ok()?;
        }
        client.drain(std::time::Duration::from_secs(5)).await;
        Some(told)
    }

    /// A yes that was told stands, or was used.
    async fn still_approved(&self) -> Result<(), String> {
        let told = self.told.lock().unwrap().take();
        let (Some(key), Some((client, _))) = (told, self.open().await) else {
            return Ok(());
        };
        match client.known(key).await {
            Ok(Some(Outcome::AwaitingApproval(ticket))) if ticket.approved_by.is_none() => Err("a yes that was told is gone".to_owned()),
            Ok(None) => Err("the order is gone".to_owned()),
            _ => Ok(()),
        }
    }

    fn patches(&self) -> Vec<uketsuke::testkit::Seen> {
        self.desk.requests().into_iter().filter(|seen| seen.method == "PATCH").collect()
    }

    /// Records of the log by name.
    fn events(&self, name: &str) -> usize {
        let text = String::from_utf8(self.disk.contents("/journal/log.jsonl").unwrap()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["ev"] == name).count()
    }

    async fn judge(&self) -> Result<(), String> {
        self.still_approved().await?;
        let ended = self.act().await.ok_or("it does not come to its end")?;
        if !matches!(ended, Outcome::Succeeded(_)) {
            return Err(format!("it ends as {ended:?}"));
        }
        let keys: BTreeSet<_> = self.patches().into_iter().filter_map(|seen| seen.key).collect();
        let changed = self.desk.orders()[0]["items"][0]["quantity"] == 20;
        let version = self
            .patches()
            .iter()
            .filter(|seen| seen.status == Some(200) && !seen.replayed)
            .count();
        let (cleared, approved) = (self.events("cleared"), self.events("approved"));
        match (keys.len(), changed, cleared) {
            (1, true, 1) if approved == 1 && version <= 1 => Ok(()),
            _ => Err(format!(
                "{keys:?}, changed {changed}, cleared {cleared}, approved {approved}, done {version} times"
            )),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Kill,
    Cut(Kept),
}

impl Trouble {
    async fn at(self, n: usize) -> (bool, Result<(), String>) {
        let mut world = World::new().await;
        world.disk.dies_at(n);
        let lived = world.act().await.is_some() && !world.disk.is_dead();
        world.disk = match self {
            Trouble::Kill => world.disk.after_kill(),
            Trouble::Cut(kept) => world.disk.after_power_cut(kept),
        };
        let judged = world.judge().await;
        (
            lived,
            judged.map_err(|what| format!("{self:?} at call {n}: {what}\n{}", world.desk.story())),
        )
    }
}

/// R2, R7: all calls, none left out.
async fn at_every_call(trouble: Trouble) {
    let mut wrong = Vec::new();
    for n in 1.. {
        let (lived, judged) = trouble.at(n).await;
        wrong.extend(judged.err());
        if lived {
            assert!(n > 60, "only {n} calls were made");
            break;
        }
    }
    assert!(wrong.is_empty(), "{} runs:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn killed_anywhere_from_parking_to_sending_a_change_is_made_once() {
    at_every_call(Trouble::Kill).await;
}

#[tokio::test]
async fn without_power_anywhere_from_parking_to_sending_a_change_is_made_once() {
    at_every_call(Trouble::Cut(Kept::Nothing)).await;
}
