//! What each agent has claimed on each day, so that daily limits hold to the order. Read from the claims themselves, under the turn of the claim
//! that is weighed: each claim is read once in each process, and what was read is only a cache, which anybody may lose.
//!
//! Nothing is ever taken away from a day: a limit is about what an agent tries.

use super::{StoreError, Turn, claim::Clerk, event_of};
use crate::{
    actor::folded,
    clock::Timestamp,
    ids::IdempotencyKey,
    intent::Draft,
    lifecycle::Event,
    operation::{Amount, Stake},
    ruling::{Because, DailyLimit, Otherwise, Ruling},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Mutex, PoisonError},
};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// So many days before the one that is asked about are remembered, in case a clock is put back; further back, all is read anew.
const DAYS_KEPT: i64 = 2;

/// Days since 1970, in UTC.
type Day = i64;

fn day_of(at: Timestamp) -> Day {
    at.as_millis().div_euclid(DAY_MS)
}

fn start_of(day: Day) -> Timestamp {
    Timestamp::from_millis(day.saturating_mul(DAY_MS))
}

/// Whose claims are added up: one agent's, of one operation at one api.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Whose {
    api: String,
    agent: String,
    operation: String,
}

/// A day's sum.
#[derive(Clone, Debug, Default)]
struct Sum {
    orders: u128,
    quantity: Units,
    items: Units,
    /// By currency; money that nobody named makes no sum known.
    amounts: BTreeMap<String, u128>,
    unnamed_amount: bool,
}

/// How many, as long as each order named it. Sums of 64-bit numbers don't overflow 128 bits within any log.
#[derive(Clone, Copy, Debug, Default)]
struct Units {
    sum: u128,
    unnamed: bool,
}

impl Units {
    fn add(&mut self, named: Option<u64>) {
        self.sum = self.sum.saturating_add(named.unwrap_or(0).into());
        self.unnamed |= named.is_none();
    }

    fn merge(&mut self, other: Units) {
        self.sum = self.sum.saturating_add(other.sum);
        self.unnamed |= other.unnamed;
    }
}

impl Sum {
    fn add(&mut self, stake: &Stake) {
        self.orders = self.orders.saturating_add(1);
        self.quantity.add(stake.quantity);
        self.items.add(stake.items);
        match &stake.amount {
            Some(Amount { minor, currency }) => self.add_money(currency, (*minor).into()),
            None => self.unnamed_amount = true,
        }
    }

    fn add_money(&mut self, currency: &str, minor: u128) {
        let sum = self.amounts.entry(currency.to_owned()).or_default();
        *sum = sum.saturating_add(minor);
    }

    fn merge(&mut self, other: &Sum) {
        self.orders = self.orders.saturating_add(other.orders);
        self.quantity.merge(other.quantity);
        self.items.merge(other.items);
        self.unnamed_amount |= other.unnamed_amount;
        other.amounts.iter().for_each(|(currency, minor)| self.add_money(currency, *minor));
    }

    /// What a limit says to a day that comes to this, if it does not hold.
    fn passes(&self, limit: &DailyLimit) -> Option<String> {
        let over = |what: &str, sum: u128, most: Option<u64>| {
            let most = most.filter(|most| sum > u128::from(*most))?;
            Some(format!("{sum} {what} in a day, of at most {most}"))
        };
        let units = |what: &str, units: Units, most: Option<u64>| match most {
            Some(_) if units.unnamed => Some(format!("an order of the day does not name its {what}, so their sum is not known")),
            most => over(what, units.sum, most),
        };
        over("orders", self.orders, limit.orders)
            .or_else(|| units("units", self.quantity, limit.quantity))
            .or_else(|| units("items", self.items, limit.items))
            .or_else(|| self.passes_amount(limit.amount.as_ref()?))
    }

    fn passes_amount(&self, limit: &Amount) -> Option<String> {
        let (most, currency) = (limit.minor, &limit.currency);
        if self.unnamed_amount {
            return Some("an order of the day does not name its amount, so their sum is not known".to_owned());
        }
        if self.amounts.keys().any(|other| other != currency) {
            return Some(format!("an order of the day is not in {currency}, so their sum is not known"));
        }
        let sum = self.amounts.get(currency).copied().unwrap_or(0);
        (sum > u128::from(most)).then(|| format!("{sum} of the smallest unit of {currency} in a day, of at most {most}"))
    }
}

/// The days that were read, and up to which claim. Shared by the clones of one journal.
#[derive(Debug, Default)]
pub(super) struct Tallies(Mutex<Read>);

#[derive(Debug, Default)]
struct Read {
    /// Complete from this day on; `None`: nothing was read.
    from: Option<Day>,
    /// The last claim that was read.
    upto: Option<IdempotencyKey>,
    days: BTreeMap<Day, DayRead>,
}

#[derive(Debug, Default)]
struct DayRead {
    /// So that a log that has to be read from its beginning again counts nothing twice.
    counted: HashSet<IdempotencyKey>,
    sums: HashMap<Whose, Sum>,
}

impl Tallies {
    /// Taken out while it is brought up to date: where that ends halfway, it is gone, and read anew.
    fn take(&self) -> Read {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, read: Read) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = read;
    }
}

impl Read {
    /// Learns of every claim, by whomever, that stands at or after the beginning of that day.
    async fn catch_up(&mut self, turn: &mut dyn Turn, today: Day) -> Result<(), StoreError> {
        let kept = today.saturating_sub(DAYS_KEPT);
        match self.from {
            Some(from) if from <= today => {
                self.days.retain(|day, _| *day >= kept);
                self.from = Some(from.max(kept));
            }
            // The clock was put back behind what was read: what stands there was passed by.
            _ => (self.from, self.upto) = (Some(today), None),
        }
        let since = start_of(self.from.unwrap_or(today));
        for key in turn.claimed_since(self.upto, since).await? {
            self.learn(turn, key, since).await?;
            self.upto = Some(key);
        }
        Ok(())
    }

    async fn learn(&mut self, turn: &mut dyn Turn, key: IdempotencyKey, since: Timestamp) -> Result<(), StoreError> {
        let story = turn.story(key).await?;
        let Some(record) = story.iter().find(|record| record.columns.is_some()) else {
            return Err(StoreError::new(
                super::StoreErrorKind::Corrupt,
                format!("the claim of {key} can't be read, so its day can't be added up"),
            ));
        };
        let Event::Claimed(claimed) = event_of(record)? else {
            return Ok(());
        };
        let day = self.days.entry(day_of(record.at.max(since))).or_default();
        if !day.counted.insert(key) || matches!(claimed.ruling, Ruling::Deny(_)) {
            return Ok(());
        }
        let sum = day.sums.entry(Whose::of(&claimed.order)).or_default();
        sum.add(claimed.order.stake());
        Ok(())
    }

    /// What an agent has claimed since that day began, of the operations that a limit is about.
    fn since(&self, today: Day, whose: &Whose, operations: &[String]) -> Sum {
        let mut total = Sum::default();
        for day in self.days.range(today..).map(|(_, day)| day) {
            let of_limit = |known: &Whose| operations.is_empty() || operations.contains(&known.operation);
            let same = |known: &&Whose| known.api == whose.api && known.agent == whose.agent && of_limit(known);
            let sums = day.sums.iter().filter(|(known, _)| same(known));
            sums.for_each(|(_, sum)| total.merge(sum));
        }
        total
    }
}

impl Whose {
    fn of(draft: &Draft) -> Self {
        Whose {
            api: draft.api().to_owned(),
            agent: folded(&draft.actor().agent),
            operation: draft.operation().to_owned(),
        }
    }
}

impl Clerk {
    /// What is ruled of a new order once its day is known: never less strict than it was. A day that can't be added up counts as full.
    pub(super) async fn weigh_the_day(&self, turn: &mut dyn Turn, draft: &Draft, ruling: Ruling, limits: &[DailyLimit]) -> Ruling {
        if limits.is_empty() || matches!(ruling, Ruling::Deny(_)) {
            return ruling;
        }
        let (today, whose) = (day_of(self.now), Whose::of(draft));
        let mut read = self.tallies.take();
        let known = read.catch_up(turn, today).await;
        if let Err(error) = &known {
            tracing::warn!(%error, "the orders of the day can't be added up: every daily limit counts as passed");
        }
        let passed = limits.iter().filter_map(|limit| {
            let why = match &known {
                Err(_) => Some("the orders of the day can't be added up".to_owned()),
                Ok(()) => {
                    let mut sum = read.since(today, &whose, &limit.operations);
                    sum.add(draft.stake());
                    sum.passes(limit)
                }
            };
            Some((limit, why?))
        });
        let ruling = stricter(ruling, passed.collect());
        self.tallies.put(read);
        ruling
    }
}

/// The strictest of a ruling and the limits that are passed, with every rule that says so.
fn stricter(ruling: Ruling, passed: Vec<(&DailyLimit, String)>) -> Ruling {
    let Some(strictest) = passed.iter().map(|(limit, _)| limit.otherwise).max() else {
        return ruling;
    };
    let (mut rules, mut reasons, mut policy_version) = (Vec::new(), Vec::new(), String::new());
    if let (Ruling::Ask(because), Otherwise::Ask) = (&ruling, strictest) {
        rules.clone_from(&because.rules);
        reasons.push(because.reason.clone());
        policy_version.clone_from(&because.policy_version);
    }
    for (limit, why) in passed.into_iter().filter(|(limit, _)| limit.otherwise == strictest) {
        let fresh = limit.because.rules.iter().filter(|rule| !rules.contains(*rule)).cloned();
        let fresh: Vec<String> = fresh.collect();
        if !fresh.is_empty() {
            rules.extend(fresh);
            reasons.push(format!("{}: {why}", limit.because.reason));
        }
        policy_version.clone_from(&limit.because.policy_version);
    }
    let because = Because {
        rules,
        policy_version,
        reason: reasons.join("; "),
    };
    match strictest {
        Otherwise::Ask => Ruling::Ask(because),
        Otherwise::Deny => Ruling::Deny(because),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        actor::Actor,
        ids::TraceId,
        intent::{KeyPlace, Terms},
        journal::{ClaimTerms, Claimed, Journal},
        operation::Route,
        order::JsonOrder,
        origin::Origin,
        ruling::Judgement,
    };
    use std::{sync::Arc, time::Duration};

    const TERMS: ClaimTerms = ClaimTerms {
        repeat_window: Duration::from_secs(24 * 3600),
        approval_within: Duration::from_secs(24 * 3600),
    };

    #[derive(Clone, Debug)]
    struct Hands(Arc<Mutex<Timestamp>>);

    impl Hands {
        fn at(text: &str) -> Self {
            Hands(Arc::new(Mutex::new(text.parse().unwrap())))
        }

        fn set(&self, text: &str) {
            *self.0.lock().unwrap() = text.parse().unwrap();
        }
    }

    impl crate::clock::Clock for Hands {
        fn now(&self) -> Timestamp {
            *self.0.lock().unwrap()
        }
    }

    fn draft(origin: &str, agent: &str, api: &str, stake: Stake) -> Draft {
        let terms = Terms {
            api: api.to_owned(),
            dialect: "ietf".to_owned(),
            key_place: KeyPlace::RawHeader("Idempotency-Key".to_owned()),
            retention: Duration::from_secs(24 * 3600),
            scope: None,
        };
        let order = JsonOrder::new(Route::post("orders"), serde_json::json!({ "n": origin })).stake(stake);
        Draft::of(&order, Origin::mail(origin), Actor::agent(agent), TraceId::mint().unwrap(), terms).unwrap()
    }

    fn because(rule: &str) -> Because {
        Because::rule("1", rule, "the day's limit")
    }

    fn limit(of: impl FnOnce(&mut DailyLimit)) -> DailyLimit {
        let mut limit = DailyLimit::new(because("day"), Otherwise::Deny);
        of(&mut limit);
        limit
    }

    /// How the claim was ruled.
    async fn ruled(journal: &Journal, draft: Draft, ruling: Ruling, daily: Vec<DailyLimit>) -> Ruling {
        let claimed = journal.claim(draft, Judgement { ruling, daily }, TERMS).await.unwrap();
        let key = match claimed {
            Claimed::New(claim) => claim.intent().key(),
            Claimed::Known { intent, .. } => intent.key(),
            _ => panic!("not a new order"),
        };
        let story = journal.store.story(key).await.unwrap();
        match event_of(&story[0]).unwrap() {
            Event::Claimed(claimed) => claimed.ruling,
            _ => panic!("no claim"),
        }
    }

    async fn allowed(journal: &Journal, draft: Draft, limit: &DailyLimit) -> bool {
        let allow = Ruling::Allow(because("ordinary"));
        matches!(ruled(journal, draft, allow, vec![limit.clone()]).await, Ruling::Allow(_))
    }

    #[tokio::test]
    async fn what_counts_is_the_agents_own_at_this_api_of_these_operations() {
        let (journal, two) = (Journal::memory().unwrap(), limit(|limit| limit.orders = Some(2)));
        let of = |n: &str, agent: &str, api: &str| draft(n, agent, api, Stake::default());
        assert!(allowed(&journal, of("1", "agent", "api"), &two).await);
        assert!(allowed(&journal, of("2", "other", "api"), &two).await);
        assert!(allowed(&journal, of("3", "agent", "elsewhere"), &two).await);
        assert!(allowed(&journal, of("4", " AGENT ", "api"), &two).await);
        assert!(!allowed(&journal, of("5", "agent", "api"), &two).await);
        let of_others = limit(|limit| (limit.orders, limit.operations) = (Some(1), vec!["place_order".to_owned()]));
        assert!(allowed(&journal, of("6", "agent", "api"), &of_others).await);
    }

    #[tokio::test]
    async fn denied_claims_do_not_count_and_parked_ones_do() {
        let (journal, two) = (Journal::memory().unwrap(), limit(|limit| limit.orders = Some(2)));
        let of = |n: &str| draft(n, "agent", "api", Stake::default());
        ruled(&journal, of("1"), Ruling::Deny(because("r")), vec![two.clone()]).await;
        ruled(&journal, of("2"), Ruling::Ask(because("r")), vec![two.clone()]).await;
        assert!(allowed(&journal, of("3"), &two).await);
        assert!(!allowed(&journal, of("4"), &two).await);
        assert!(!allowed(&journal, of("5"), &two).await);
    }

    #[tokio::test]
    async fn a_ruling_becomes_stricter_and_never_milder() {
        let journal = Journal::memory().unwrap();
        let asks = || DailyLimit {
            orders: Some(0),
            ..DailyLimit::new(because("day"), Otherwise::Ask)
        };
        let denies = || limit(|limit| limit.orders = Some(0));
        let of = |n: &str| draft(n, "agent", "api", Stake::default());
        let named = |ruling: Ruling| (matches!(ruling, Ruling::Ask(_)), ruling.because().rules.clone());
        let large = || Ruling::Ask(because("large"));
        assert_eq!(
            named(ruled(&journal, of("1"), large(), vec![asks()]).await),
            (true, vec!["large".into(), "day".into()])
        );
        let denied = ruled(&journal, of("2"), large(), vec![asks(), denies()]).await;
        assert!(matches!(&denied, Ruling::Deny(because) if because.rules == ["day"]), "{denied:?}");
        let no = Ruling::Deny(because("no"));
        assert_eq!(ruled(&journal, of("3"), no.clone(), vec![asks()]).await, no);
        assert_eq!(ruled(&journal, of("4"), large(), vec![limit(|_| ())]).await, large());
    }

    #[tokio::test]
    async fn sums_that_are_not_known_or_overflow_are_over_any_limit() {
        let units = |n: &str, stake: Stake| draft(n, "agent", "api", stake);
        let most = limit(|limit| limit.quantity = Some(u64::MAX));
        let journal = Journal::memory().unwrap();
        assert!(allowed(&journal, units("1", Stake::default().quantity(u64::MAX)), &most).await);
        assert!(allowed(&journal, units("2", Stake::default().quantity(0)), &most).await);
        assert!(!allowed(&journal, units("3", Stake::default().quantity(1)), &most).await);

        let journal = Journal::memory().unwrap();
        ruled(&journal, units("1", Stake::default()), Ruling::Ask(because("r")), Vec::new()).await;
        assert!(!allowed(&journal, units("2", Stake::default().quantity(1)), &most).await);

        let euros = limit(|limit| {
            limit.amount = Some(Amount {
                minor: 100,
                currency: "EUR".to_owned(),
            })
        });
        let journal = Journal::memory().unwrap();
        assert!(allowed(&journal, units("1", Stake::default().amount(60, "EUR")), &euros).await);
        assert!(allowed(&journal, units("2", Stake::default().amount(40, "EUR")), &euros).await);
        assert!(!allowed(&journal, units("3", Stake::default().amount(1, "EUR")), &euros).await);
        assert!(!allowed(&journal, units("4", Stake::default().amount(0, "USD")), &euros).await);
    }

    #[tokio::test]
    async fn a_day_begins_at_midnight_and_a_clock_that_is_put_back_begins_none() {
        let (clock, two) = (Hands::at("2026-12-01T23:59:59.999Z"), limit(|limit| limit.orders = Some(2)));
        let journal = Journal::builder().clock(clock.clone()).memory().unwrap();
        let of = |n: usize| draft(&n.to_string(), "agent", "api", Stake::default());
        assert!(allowed(&journal, of(1), &two).await && allowed(&journal, of(2), &two).await);
        assert!(!allowed(&journal, of(3), &two).await);
        clock.set("2026-12-02T00:00:00Z");
        assert!(allowed(&journal, of(4), &two).await && allowed(&journal, of(5), &two).await);
        assert!(!allowed(&journal, of(6), &two).await);
        for (n, back) in [
            "2026-12-01T12:00:00Z",
            "2026-11-30T12:00:00Z",
            "2026-11-01T00:00:00Z",
            "2026-12-02T09:00:00Z",
        ]
        .iter()
        .enumerate()
        {
            clock.set(back);
            assert!(!allowed(&journal, of(10 + n), &two).await, "{back}");
        }
        clock.set("2026-12-03T00:00:00Z");
        assert!(allowed(&journal, of(20), &two).await);
    }

    /// What was passed by as too old is read when a clock that is put back makes it today's.
    #[tokio::test]
    async fn a_day_behind_what_was_read_is_read() {
        let (clock, three) = (Hands::at("2026-12-01T12:00:00Z"), limit(|limit| limit.orders = Some(3)));
        let journal = Journal::builder().clock(clock.clone()).memory().unwrap();
        let of = |n: usize| draft(&n.to_string(), "agent", "api", Stake::default());
        assert!(allowed(&journal, of(1), &three).await && allowed(&journal, of(2), &three).await);
        clock.set("2026-12-05T12:00:00Z");
        let later = Journal {
            tallies: Arc::default(),
            ..journal.clone()
        };
        assert!(allowed(&later, of(3), &three).await && allowed(&later, of(4), &three).await);
        clock.set("2026-12-01T13:00:00Z");
        assert!(!allowed(&later, of(5), &three).await);
    }

    #[tokio::test]
    async fn a_claim_that_is_not_understood_fills_every_day() {
        let (journal, many) = (Journal::memory().unwrap(), limit(|limit| limit.orders = Some(99)));
        assert!(allowed(&journal, draft("1", "agent", "api", Stake::default()), &many).await);
        let key: IdempotencyKey = "8e03978e-40d5-43e8-bc93-6894a57f9324".parse().unwrap();
        let columns = draft("9", "agent", "api", Stake::default()).columns();
        let strange = crate::journal::Record {
            key,
            name: "claimed".to_owned(),
            at: journal.now(),
            standing: crate::journal::Standing::Open,
            columns: Some(columns),
            data: r#"{"of_a_later_version":1}"#.into(),
        };
        let write: crate::journal::Decide = Box::new(move |turn| {
            turn.append(strange);
            Box::pin(async { Ok(()) })
        });
        journal.store.turn(write).await.unwrap();
        assert!(!allowed(&journal, draft("2", "agent", "api", Stake::default()), &many).await);
        assert!(!allowed(&journal, draft("3", "other", "api", Stake::default()), &many).await);
    }

    /// Two handles over one store stand for two processes: what one claims, the other counts, each claim once.
    #[tokio::test]
    async fn what_others_claim_is_counted_once() {
        let journal = Journal::memory().unwrap();
        let other = Journal {
            tallies: Arc::default(),
            ..journal.clone()
        };
        let five = limit(|limit| limit.orders = Some(5));
        for n in 0..5 {
            let by = if n % 2 == 0 { &journal } else { &other };
            assert!(
                allowed(by, draft(&n.to_string(), "agent", "api", Stake::default()), &five).await,
                "{n}"
            );
        }
        for (by, origin, counted) in [(&journal, "8", 5), (&other, "9", 6)] {
            assert!(!allowed(by, draft(origin, "agent", "api", Stake::default()), &five).await);
            let read = by.tallies.take();
            assert_eq!(read.days.values().map(|day| day.counted.len()).sum::<usize>(), counted);
            by.tallies.put(read);
        }
    }
}
