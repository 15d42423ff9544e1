//! Doing what a request asks for: under its claim, or where nobody claims; at once, late, or not before a test says so.

use super::*;

impl Counter {
    pub(super) fn work_under(&self, claim: Claim, seen: &Seen, work: Work, situation: &Situation) -> Decision {
        match situation {
            Situation::Stuck => {
                let seen = seen.clone();
                lock(&self.underway).stick(StuckWork { claim, seen, work });
                return Decision::lost(Did::Stuck);
            }
            Situation::Store(reply) => {
                let reply = reply.clone().or_unspeakable();
                return self.complete(&claim, seen, reply);
            }
            _ => {}
        }
        if let Err(error) = wait(self.ledger.begin(&claim)) {
            return self.refuse(Did::Nothing, no_ledger(&error));
        }
        match catch_unwind(AssertUnwindSafe(|| self.perform(&work, seen, Sight::under(situation)))) {
            Ok((reply, effect)) => match situation {
                Situation::Slow(time) => self.work_slowly(Some(claim), seen, reply, effect, *time),
                Situation::CommitUnstored(_) => {
                    self.took_effect(effect);
                    drop(wait(self.ledger.release(&claim)));
                    self.committed(seen, Did::NotStored, reply)
                }
                _ => {
                    self.took_effect(effect);
                    self.complete(&claim, seen, reply)
                }
            },
            Err(panic) => {
                // A ledger that can't be reached keeps the key processing, which orders nothing twice.
                drop(wait(self.ledger.release(&claim)));
                self.panicked("handler", seen, panic.as_ref())
            }
        }
    }

    /// What a server does that has no ledger, or passes it by: the work, every time.
    pub(super) fn work_without_ledger(&self, did: Did, seen: &Seen, work: &Work, situation: &Situation) -> Decision {
        match situation {
            Situation::Stuck => return Decision::lost(did),
            Situation::Store(reply) => return Decision::answer(did, reply.clone()),
            _ => {}
        }
        match catch_unwind(AssertUnwindSafe(|| self.perform(work, seen, Sight::under(situation)))) {
            Ok((reply, effect)) => match situation {
                Situation::Slow(time) => self.work_slowly(None, seen, reply, effect, *time),
                _ => {
                    self.took_effect(effect);
                    self.committed(seen, did, reply)
                }
            },
            Err(panic) => self.panicked("handler", seen, panic.as_ref()),
        }
    }

    /// Does the work. What is answered below 400 takes effect.
    pub(super) fn perform(&self, work: &Work, seen: &Seen, sight: Sight) -> (Reply, Option<Effect>) {
        if let Some(refusal) = self.refusal_of(work) {
            return (self.facts.dress(&refusal, None), None);
        }
        let foreign = |order_id: &String| !self.is_of_tenant(order_id, seen);
        let (reply, order_id) = match work {
            Work::Place => {
                let (reply, id) = lock(&self.shop).place(fields(seen), sight);
                (reply, Some(id))
            }
            Work::Amend { order_id } | Work::Cancel { order_id } if foreign(order_id) => (self.facts.dress(&not_found(), None), None),
            Work::Amend { order_id } => {
                let mut patch = fields(seen);
                self.facts.key_member().and_then(|member| patch.remove(member));
                (lock(&self.shop).amend(order_id, &IfMatch::of(seen), patch), Some(order_id.clone()))
            }
            Work::Cancel { order_id } => {
                let cancelled = lock(&self.shop).cancel(order_id, &IfMatch::of(seen));
                (cancelled, Some(order_id.clone()))
            }
            Work::Serve(served, request) => (served.call(request).or_unspeakable(), None),
        };
        let shops_own = !matches!(work, Work::Serve(..));
        if reply.code() >= 400 {
            return (if shops_own { self.facts.dress(&reply, None) } else { reply }, None);
        }
        let effect = Effect {
            key: seen.key.clone(),
            tenant: tenant(seen).map(str::to_owned),
            row_key: seen.key.as_deref().map(|key| row_key(&self.facts, seen, key)),
            number: seen.number,
            order_id,
        };
        (reply, Some(effect))
    }

    /// The rule of the day, as far as it is about this work.
    pub(super) fn refusal_of(&self, work: &Work) -> Option<Reply> {
        let code = lock(&self.refusal).clone()?;
        matches!(work, Work::Place).then(|| Reply::problem(422, &code, "the shop takes no such order any more"))
    }

    /// What the order that the work is about has against it, as it stands now. Of work that is the test's own nothing is known.
    pub(super) fn objection_to(&self, work: &Work, seen: &Seen) -> Option<Reply> {
        let (Work::Amend { order_id } | Work::Cancel { order_id }) = work else {
            return None;
        };
        if !self.is_of_tenant(order_id, seen) {
            return Some(not_found());
        }
        lock(&self.shop).refusal(order_id, &IfMatch::of(seen))
    }

    /// The work is done. What could not be stored is not told as done: the key is processing until an operator looks.
    pub(super) fn complete(&self, claim: &Claim, seen: &Seen, reply: Reply) -> Decision {
        match self.keep(claim, &reply) {
            Ok(Did::GaveBack) => Decision::answer(Did::GaveBack, reply),
            Ok(did) => self.committed(seen, did, reply),
            Err(error) => self.refuse(Did::NotStored, no_ledger(&error)),
        }
    }

    /// Ends a claim with its answer, whenever that comes: stores it, or gives the key back if this server stores no such answers.
    pub(super) fn keep(&self, claim: &Claim, reply: &Reply) -> Result<Did, LedgerError> {
        if !self.facts.stores(reply.code()) {
            return wait(self.ledger.release(claim)).map(|()| Did::GaveBack);
        }
        wait(self.ledger.complete(claim, reply))?;
        if self.terms.body_max.is_some_and(|max| reply.bytes().len() > max) {
            lock(&self.too_long).insert(claim.key().to_owned());
        }
        Ok(Did::Claimed)
    }

    pub(super) fn committed(&self, seen: &Seen, did: Did, reply: Reply) -> Decision {
        let mut seen = seen.clone();
        seen.did = did;
        self.call_hooks(&self.after_commit, &seen)
            .unwrap_or_else(|| Decision::answer(did, reply))
    }

    pub(super) fn took_effect(&self, effect: Option<Effect>) {
        lock(&self.effects).extend(effect);
    }

    /// Keeps the work under way until it is due; only its answer is settled already, since it has to be given before the delay.
    pub(super) fn work_slowly(&self, claim: Option<Claim>, seen: &Seen, reply: Reply, effect: Option<Effect>, time: Duration) -> Decision {
        lock(&self.underway).slow_down(SlowWork {
            claim,
            number: seen.number,
            reply: reply.clone(),
            effect,
            due: monotonic().checked_add(time),
        });
        Decision {
            delay: time,
            ..Decision::answer(Did::Stuck, reply)
        }
    }

    /// Does what should have been done by now. To be called before anybody looks.
    pub(crate) fn do_what_is_due(&self) {
        let due = lock(&self.underway).take_due(monotonic());
        due.into_iter().for_each(|work| self.end_slow(work));
    }

    pub(super) fn end_slow(&self, work: SlowWork) {
        if let Some(order_id) = work.effect.as_ref().and_then(|effect| effect.order_id.as_ref()) {
            lock(&self.shop).unhide(order_id);
        }
        self.took_effect(work.effect);
        let did = match work.claim.map(|claim| self.keep(&claim, &work.reply)) {
            None => Did::Deaf,
            // Fenced out meanwhile, it is late work: done, and never heard of again.
            Some(kept) => kept.unwrap_or(Did::NotStored),
        };
        self.log.did(work.number, did);
    }

    /// Ends the work stuck under a key, or slow. Says whether there was any.
    pub(crate) fn finish(&self, key: &str) -> Option<()> {
        let stuck = lock(&self.underway).take_stuck(key);
        let Some(StuckWork { claim, seen, work }) = stuck else {
            let slow = lock(&self.underway).take_slow(key)?;
            self.end_slow(slow);
            return Some(());
        };
        match catch_unwind(AssertUnwindSafe(|| self.perform(&work, &seen, Sight::Open))) {
            Ok((reply, effect)) => {
                self.took_effect(effect);
                // Fenced out meanwhile, it is late work: done, and never heard of again.
                drop(self.keep(&claim, &reply));
            }
            Err(panic) => {
                drop(wait(self.ledger.release(&claim)));
                // Nobody waits for its answer any more; the assertions tell of it.
                drop(self.panicked("handler", &seen, panic.as_ref()));
            }
        }
        Some(())
    }
}
