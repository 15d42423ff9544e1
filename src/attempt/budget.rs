//! What all retries over one `Api` may cost together: a bucket of tokens. It only counts; who asks it, and when, is the loop's business
//! (`engine.rs`).

use crate::answer::Observed;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// After an answer, or the head of one, the server is at least there.
const AFTER_AN_ANSWER: u32 = 5;
/// After none at all it may be going under; and such an attempt holds a connection for all of its time.
const AFTER_NONE: u32 = 10;
/// What a success at the first try puts back.
const FIRST_TRY: u32 = 1;

/// How much all retries over one [`Api`](crate::Api) may cost together.
///
/// [`Pacing`](crate::Pacing) keeps one order from hammering; this keeps a thousand orders, each within its pacing, from sending four thousand
/// requests to a server that can't answer one. It is a bucket of tokens. A retry takes 5 out, one after no answer at all 10. A call that
/// ends in a success after retries puts back what they took, for they were not in vain; a success at the first try puts back 1, so that in
/// the long run about a sixth of all requests can be retries in vain. Time puts nothing back: only a server that answers does.
///
/// Where the tokens do not suffice no retry is made: the order stays open under its key, and the caller hears what he would after the last
/// attempt. The first attempt of an order, and of each [`resume`](crate::OrderClient::resume), costs nothing and is never refused.
///
/// ```
/// use uketsuke::{Api, RetryBudget};
///
/// let api = Api::builder("https://orders.example.com/v1").retry_budget(RetryBudget::new(100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget(Option<u32>);

impl RetryBudget {
    /// A bucket of so many tokens, full at the start. Fewer than 5 allow no retry at all.
    pub const fn new(tokens: u32) -> Self {
        RetryBudget(Some(tokens))
    }

    /// No bucket: the pacing of each order is the only limit.
    pub const fn off() -> Self {
        RetryBudget(None)
    }
}

/// 500 tokens, as others have found to do: some sixteen orders may spend all their attempts on a dead server before the rest is sent once
/// each. A process with few orders never notices; one with thousands does within seconds.
impl Default for RetryBudget {
    fn default() -> Self {
        RetryBudget::new(500)
    }
}

/// The bucket itself, shared by all flights over one api.
#[derive(Debug)]
pub(crate) struct Bucket(Option<Tokens>);

/// A count and nothing else is shared, hence `Relaxed`: no other memory is read because of it.
#[derive(Debug)]
struct Tokens {
    capacity: u32,
    left: AtomicU32,
}

impl Bucket {
    pub(crate) fn new(budget: RetryBudget) -> Self {
        Bucket(budget.0.map(|capacity| Tokens {
            capacity,
            left: AtomicU32::new(capacity),
        }))
    }

    /// The account of one flight.
    pub(crate) fn account(&self) -> Account<'_> {
        Account {
            tokens: self.0.as_ref(),
            taken: 0,
            last: 0,
        }
    }
}

impl Tokens {
    fn take(&self, cost: u32) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(cost)).is_ok()
    }

    fn give(&self, tokens: u32) {
        let filled = |left: u32| Some(left.saturating_add(tokens).min(self.capacity));
        let _never_refused = self.left.fetch_update(Relaxed, Relaxed, filled);
    }
}

/// What one flight took. A flight that ends without a success gives nothing back.
pub(crate) struct Account<'a> {
    tokens: Option<&'a Tokens>,
    taken: u32,
    last: u32,
}

impl Account<'_> {
    /// Takes what a retry costs; `false`: there is not enough, and nothing was taken.
    #[must_use]
    pub(crate) fn take(&mut self, cost: u32) -> bool {
        let Some(tokens) = self.tokens else { return true };
        let taken = tokens.take(cost);
        if taken {
            self.taken = self.taken.saturating_add(cost);
            self.last = cost;
        }
        taken
    }

    /// The retry that was paid for last was not made after all: its order was settled meanwhile.
    pub(crate) fn not_made(self) {
        self.give(self.last);
    }

    /// The flight ended in a success.
    pub(crate) fn succeeded(self) {
        self.give(if self.taken == 0 { FIRST_TRY } else { self.taken });
    }

    fn give(&self, tokens: u32) {
        if let Some(bucket) = self.tokens {
            bucket.give(tokens);
        }
    }
}

/// What a retry costs after this was seen.
pub(crate) fn cost(seen: &Observed) -> u32 {
    match seen {
        Observed::NeverLeft(_) | Observed::NoAnswer(_) => AFTER_NONE,
        Observed::HalfAnswer(..) | Observed::Answered(_) => AFTER_AN_ANSWER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Answer, Half, Head, NeverLeft, NoAnswer};
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};
    use proptest::prelude::*;
    use std::sync::Barrier;

    impl Bucket {
        fn left(&self) -> u32 {
            self.0.as_ref().unwrap().left.load(Relaxed)
        }
    }

    #[test]
    fn a_retry_costs_more_after_no_answer_than_after_one() {
        let head = || Head::new(StatusCode::SERVICE_UNAVAILABLE, HeaderMap::new());
        assert_eq!(cost(&Observed::NeverLeft(NeverLeft::Connect)), 10);
        assert_eq!(cost(&Observed::NoAnswer(NoAnswer::TimedOut)), 10);
        assert_eq!(cost(&Observed::HalfAnswer(head(), Half::Stalled)), 5);
        assert_eq!(cost(&Observed::Answered(Answer::new(head(), Bytes::new()))), 5);
    }

    #[test]
    fn an_empty_bucket_refuses_until_successes_fill_it() {
        let bucket = Bucket::new(RetryBudget::new(22));
        let mut in_vain = bucket.account();
        assert!(in_vain.take(10) && in_vain.take(10) && !in_vain.take(10) && !in_vain.take(5));
        assert_eq!(bucket.left(), 2, "what was spent in vain is gone");
        for wanted in [3, 4, 5] {
            bucket.account().succeeded();
            assert_eq!(bucket.left(), wanted);
        }
        let mut lucky = bucket.account();
        assert!(lucky.take(5) && !lucky.take(5));
        lucky.succeeded();
        assert_eq!(bucket.left(), 5, "a retry that led to a success costs nothing");
        let mut overtaken = bucket.account();
        assert!(overtaken.take(5));
        overtaken.not_made();
        bucket.account().not_made();
        assert_eq!(bucket.left(), 5, "a retry that was not made costs nothing");
    }

    #[test]
    fn a_budget_of_nothing_allows_no_retry_and_no_budget_allows_all() {
        let none = Bucket::new(RetryBudget::new(0));
        for _ in 0..100 {
            none.account().succeeded();
            assert!(!none.account().take(5) && none.left() == 0);
        }
        let off = Bucket::new(RetryBudget::off());
        let mut account = off.account();
        assert!((0..10_000).all(|_| account.take(10)));
        account.succeeded();
        assert_eq!(Bucket::new(RetryBudget::default()).left(), 500);
    }

    /// What a flight does with its account: the costs it asks for, and how it ends.
    fn flights() -> impl Strategy<Value = Vec<(Vec<u32>, u8)>> {
        prop::collection::vec(
            (prop::collection::vec(prop_oneof![Just(5), Just(10), any::<u32>()], 0..5), 0..3_u8),
            0..40,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against plain arithmetic, one flight after the other.
        #[test]
        fn the_bucket_counts_as_one_would_by_hand(capacity in prop_oneof![0..100_u32, any::<u32>()], flights in flights()) {
            let bucket = Bucket::new(RetryBudget::new(capacity));
            let mut left = u64::from(capacity);
            for (costs, end) in flights {
                let mut account = bucket.account();
                let mut taken = Vec::new();
                for cost in costs {
                    let enough = u64::from(cost) <= left;
                    prop_assert_eq!(account.take(cost), enough);
                    if enough {
                        left -= u64::from(cost);
                        taken.push(u64::from(cost));
                    }
                }
                let back = match end {
                    0 => {
                        account.succeeded();
                        if taken.is_empty() { 1 } else { taken.iter().sum() }
                    }
                    1 => {
                        account.not_made();
                        taken.last().copied().unwrap_or(0)
                    }
                    _ => 0,
                };
                left = (left + back).min(u64::from(capacity));
                prop_assert_eq!(u64::from(bucket.left()), left);
            }
        }

        /// By several threads at once: never more than the capacity, none handed out twice, and at rest the sum is right.
        #[test]
        fn threads_at_once_never_take_a_token_twice(capacity in 0..200_u32, plans in prop::collection::vec(flights(), 2..5)) {
            let (bucket, start) = (Bucket::new(RetryBudget::new(capacity)), Barrier::new(plans.len()));
            // Without gifts, what is gone is exactly what was taken.
            let taken: u32 = std::thread::scope(|scope| {
                let work = |plan: Vec<(Vec<u32>, u8)>| {
                    let (bucket, start) = (&bucket, &start);
                    scope.spawn(move || {
                        start.wait();
                        let mut sum = 0;
                        for (costs, _) in plan {
                            let mut account = bucket.account();
                            sum += costs.into_iter().filter(|cost| account.take(*cost)).sum::<u32>();
                        }
                        sum
                    })
                };
                let threads: Vec<_> = plans.iter().cloned().map(work).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            prop_assert_eq!(bucket.left(), capacity - taken);
            // With them, it is never over-full, whoever looks when.
            std::thread::scope(|scope| {
                for plan in plans {
                    let bucket = &bucket;
                    scope.spawn(move || {
                        for (costs, end) in plan {
                            let mut account = bucket.account();
                            for cost in costs {
                                let _either_way = account.take(cost);
                            }
                            if end == 0 { account.succeeded() } else { account.not_made() }
                            assert!(bucket.left() <= capacity);
                        }
                    });
                }
            });
            prop_assert!(bucket.left() <= capacity);
        }
    }
}
