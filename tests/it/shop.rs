//! What tests of a person in the loop share: a desk and a journal on one clock, an agent's clients, and Ana.

use crate::{
    kit::{Folder, brisk, order},
    props::{Hands, actor, asks, mail, receipt, single},
};
use std::time::Duration;
use uketsuke::{ErrorKind, Journal, Operator, OrderClient, Outcome, Policy, Preview, Ticket, TurnedAway, testkit::Desk};

pub(crate) struct Shop {
    pub(crate) desk: Desk,
    pub(crate) folder: Folder,
    pub(crate) journal: Journal,
    pub(crate) clock: Hands,
    /// The order that stands there from the beginning; empty where none does.
    pub(crate) id: String,
    /// Writes at the desk that placed it.
    placed: usize,
}

impl Shop {
    /// With nothing in it. Compacts when it is told to, and then keeps nothing that is settled.
    pub(crate) async fn new() -> Self {
        let clock = Hands::new();
        let (desk, folder) = (clock.desk().await, Folder::new());
        let builder = Journal::builder().clock(clock.clone()).compact_at(u64::MAX).keep(Duration::ZERO);
        Shop {
            journal: builder.open(folder.path()).await.unwrap(),
            desk,
            folder,
            clock,
            id: String::new(),
            placed: 0,
        }
    }

    /// With one order, placed from mail 1 without anybody being asked.
    pub(crate) async fn with_an_order() -> Self {
        let shop = Shop::new().await;
        let placed = receipt(shop.client().submit(mail(1), &order()).await);
        Shop {
            id: placed.value.order_id.unwrap(),
            placed: shop.desk.writes().len(),
            ..shop
        }
    }

    /// By the policy that is there by default.
    pub(crate) fn client(&self) -> OrderClient {
        OrderClient::new(self.journal.clone(), brisk(&self.desk.url()).build().unwrap(), actor())
    }

    pub(crate) fn with(&self, policy: impl Policy + 'static) -> OrderClient {
        let api = brisk(&self.desk.url()).build().unwrap();
        OrderClient::builder(self.journal.clone(), api, actor()).policy(policy).build()
    }

    /// By a policy that asks about everything.
    pub(crate) fn asking(&self) -> OrderClient {
        self.with(asks)
    }

    /// Of one attempt a flight.
    pub(crate) fn hasty(&self) -> OrderClient {
        OrderClient::new(self.journal.clone(), single(&self.desk.url()).build().unwrap(), actor())
    }

    /// A person, without a way to the server.
    pub(crate) fn ana(&self) -> Operator {
        Operator::new(self.journal.clone(), "Ana")
    }

    /// A person with one.
    pub(crate) fn able_ana(&self) -> Operator {
        self.ana().with_api(single(&self.desk.url()).build().unwrap())
    }

    /// Requests that could change something, beside those that placed the first order.
    pub(crate) fn writes(&self) -> usize {
        self.desk.writes().len() - self.placed
    }
}

#[track_caller]
pub(crate) fn ticket<R: std::fmt::Debug>(told: Result<Outcome<R>, uketsuke::Error>) -> Ticket {
    match told {
        Ok(Outcome::AwaitingApproval(ticket)) => ticket,
        other => panic!("no ticket: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn shown(ticket: &Ticket) -> Preview {
    *ticket.preview.clone().expect("a preview")
}

/// Why somebody was not let.
#[track_caller]
pub(crate) fn away<R: std::fmt::Debug>(told: Result<R, uketsuke::Error>) -> TurnedAway {
    let error = told.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TurnedAway, "{error}");
    error.turned_away().unwrap().clone()
}
