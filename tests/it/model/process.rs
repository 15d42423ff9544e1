//! What a process of the agent can do next, up to the moment in which an order is its to send: submit, claim, wait, take over, resume.

use super::{
    book::{Event, Intent, Record, Stage},
    search::{Model, Moves, Step},
    world::{At, Flight, Key, Process, Ruling, Then, World, bit},
};

/// More keys than this and nothing new is learnt.
const KEYS: u8 = 4;

/// One process, at one moment: everything its next step reads and writes.
pub(super) struct Desk<'a> {
    pub(super) model: &'a Model,
    pub(super) world: World,
    pub(super) me: Process,
}

impl Model {
    pub(super) fn process_moves(&self, world: &World, me: Process, moves: &mut Moves) {
        let desk = Desk {
            model: self,
            world: world.clone(),
            me,
        };
        match world.at[usize::from(me)] {
            At::Down => desk.open(moves),
            At::Idle => desk.begin(moves),
            At::Judged { contents, ruling } => desk.claim(contents, ruling, moves),
            At::Wrote { key, then } => desk.sync(key, then, moves),
            At::Unruled { key } => desk.judge_late(key, moves),
            At::Ready(flight) => desk.look(flight, moves),
            At::Looked(flight) => desk.send(flight, moves),
            At::Awaits(flight) => desk.time_out(flight, moves),
            At::Answered(flight, answer) => {
                desk.fork().time_out(flight, moves);
                desk.weigh(flight, answer, moves);
            }
            At::LooksUp { key } => desk.look_up(key, moves),
            At::Waits { key } => desk.wait(key, moves),
            At::Compacts => desk.swap(moves),
        }
    }

    /// Whether somebody waits for an order on which nobody is at work, and nothing will ever wake it.
    pub(super) fn is_blocked(&self, world: &World) -> bool {
        (0..).zip(&world.at).any(|(me, at)| match *at {
            At::Waits { key } => match world.disk.intent(key, &self.rules) {
                Some(intent) => !world.in_flight(key) && !self.wakes(me, &intent),
                None => false,
            },
            _ => false,
        })
    }

    fn wakes(&self, me: Process, intent: &Intent) -> bool {
        match intent.stage {
            Stage::Open => self.rules.waiter_takes_over && intent.owner.is_none_or(|owner| owner == me),
            _ => true,
        }
    }

    /// R8: whether the server may have forgotten the key.
    pub(super) fn retention_passed(&self, world: &World, intent: &Intent) -> bool {
        let Some(first) = intent.first_send else { return false };
        let from = if self.rules.age_runs_from_the_first_send {
            first
        } else {
            intent.last_send
        };
        let now = world.clock;
        let by_the_wall = self.is_old(now.wall - from.wall);
        if !self.rules.clock_in_doubt_means_passed {
            return by_the_wall;
        }
        match now.boot == from.boot {
            true => self.is_old(wall(now.up) - wall(from.up)),
            false => now.wall < world.disk.newest_time() || by_the_wall,
        }
    }

    fn is_old(&self, age: i8) -> bool {
        age >= wall(self.bounds.retention)
    }

    /// The policy's words, of which there may be several: it can be changed between two calls.
    fn rulings(&self) -> impl Iterator<Item = Ruling> {
        self.bounds.rulings.iter().copied()
    }
}

impl Desk<'_> {
    pub(super) fn fork(&self) -> Self {
        Desk {
            world: self.world.clone(),
            ..*self
        }
    }

    pub(super) fn done(self, at: At, text: &'static str, key: Key, moves: &mut Moves) {
        let step = Step::new(text).by(self.me).of(key);
        self.did(at, step, moves);
    }

    pub(super) fn did(mut self, at: At, step: Step, moves: &mut Moves) {
        self.world.at[usize::from(self.me)] = at;
        moves.push((step, self.world));
    }

    pub(super) fn write(&mut self, key: Key, event: Event) {
        let knew = self.world.knows[usize::from(self.me)];
        let at = self.world.clock;
        self.world.disk.append(Record { key, event, at, knew });
    }

    fn intents(&self) -> Vec<Intent> {
        self.world.disk.intents(&self.model.rules)
    }

    pub(super) fn intent(&self, key: Key) -> Option<Intent> {
        self.world.disk.intent(key, &self.model.rules)
    }

    /// The lock can be had, and there is a log behind it.
    pub(super) fn may_turn(&self) -> bool {
        self.world.disk.lock.is_none() && !self.world.disk.missing
    }

    pub(super) fn scope(&self) -> u8 {
        self.world.scope[usize::from(self.me)]
    }

    fn open(mut self, moves: &mut Moves) {
        if self.me >= self.model.bounds.processes || self.world.disk.lock.is_some() {
            return;
        }
        if self.world.disk.missing {
            if self.model.rules.log_is_there_at_every_instant {
                return;
            }
            self.world.disk.missing = false;
            self.world.disk.log.clear();
            self.world.disk.synced = 0;
            return self.done(At::Idle, "{p} starts, finds no log and makes a new one", 0, moves);
        }
        if !self.world.disk.is_corrupt(&self.model.rules) {
            self.world.disk.open(&self.model.rules);
            self.learn();
            self.done(At::Idle, "{p} starts and opens the journal", 0, moves);
        }
    }

    /// Its own sync has covered all of the log.
    pub(super) fn learn(&mut self) {
        if self.model.keeps_witnesses() {
            self.world.knows[usize::from(self.me)] = self.world.disk.len();
        }
    }

    fn begin(self, moves: &mut Moves) {
        self.begin_compaction(moves);
        self.withdraw(moves);
        for contents in 0..self.model.bounds.contents {
            let its_own = contents == self.me || !self.model.bounds.each_its_own;
            if its_own && self.world.left.submits > 0 {
                self.submit(contents, moves);
            }
        }
        if self.world.left.resumes > 0 {
            self.intents().iter().for_each(|intent| self.resume(intent, moves));
        }
    }

    fn submit(&self, contents: u8, moves: &mut Moves) {
        let mut fork = self.fork();
        fork.world.left.submits -= 1;
        if !self.model.rules.judged_before_claimed {
            let text = ["{p} submits the order", "{p} submits the order with other contents"][usize::from(contents)];
            return fork.done(At::Judged { contents, ruling: None }, text, 0, moves);
        }
        for ruling in self.model.rulings() {
            let text = match (contents, ruling) {
                (0, Ruling::Allow) => "{p} submits the order; policy allows it",
                (0, Ruling::Ask) => "{p} submits the order; policy wants a person asked",
                (0, Ruling::Deny) => "{p} submits the order; policy denies it",
                (_, Ruling::Allow) => "{p} submits the order with other contents; policy allows it",
                (_, Ruling::Ask) => "{p} submits the order with other contents; policy wants a person asked",
                (_, Ruling::Deny) => "{p} submits the order with other contents; policy denies it",
            };
            fork.fork().done(
                At::Judged {
                    contents,
                    ruling: Some(ruling),
                },
                text,
                0,
                moves,
            );
        }
    }

    fn resume(&self, intent: &Intent, moves: &mut Moves) {
        let free = intent.owner.is_none_or(|owner| owner == self.me);
        if intent.stage == Stage::Open && free && self.may_turn() {
            let mut fork = self.fork();
            fork.world.left.resumes -= 1;
            fork.take_over(intent, "{p} resumes {k}", moves);
        }
    }

    /// The claim: one decision under the lock.
    fn claim(self, contents: u8, ruling: Option<Ruling>, moves: &mut Moves) {
        if !self.may_turn() {
            return;
        }
        let intents = self.intents();
        if self.model.bounds.origin_unknown {
            return self.claim_without_an_origin(&intents, contents, ruling, moves);
        }
        let known = match self.model.rules.newest_generation_counts {
            true => intents.last(),
            false => intents.first(),
        };
        match known {
            None => self.mint(&intents, contents, ruling, moves),
            Some(known) if known.freed || (known.contents != contents && known.is_definite_no()) => {
                if self.model.rules.no_is_synced_before_it_is_corrected && known.last > self.world.disk.synced {
                    let then = Then::DecideAgain { contents, ruling };
                    return self.done(
                        At::Wrote { key: known.key, then },
                        "{p} finds a no on {k} that is not on disk yet",
                        known.key,
                        moves,
                    );
                }
                self.mint(&intents, contents, ruling, moves);
            }
            Some(known) if known.contents == contents => self.meet(known, ruling, moves),
            Some(known) => self.done(At::Idle, "{p} is told that {k} stands with other contents", known.key, moves),
        }
    }

    fn claim_without_an_origin(mut self, intents: &[Intent], contents: u8, ruling: Option<Ruling>, moves: &mut Moves) {
        for known in intents.iter().filter(|i| i.contents == contents) {
            let old = self.model.is_old(self.world.clock.wall - known.claimed.wall);
            let counts = match known.stage {
                Stage::Rejected | Stage::Denied | Stage::Withdrawn => false,
                Stage::Abandoned => !known.freed && !known.nothing_left() && self.model.rules.guard_counts_the_abandoned,
                Stage::Succeeded => !old,
                Stage::Parked | Stage::Open | Stage::Review => !old || self.model.rules.guard_never_forgets_a_doubt,
            };
            if counts {
                return self.done(At::Idle, "{p} is told that this looks like {k} once more", known.key, moves);
            }
            if known.stage == Stage::Succeeded {
                // Equal orders after the window are two orders: no client can know better.
                self.world.told.excused |= bit(known.key);
            }
        }
        self.mint(intents, contents, ruling, moves);
    }

    fn mint(mut self, intents: &[Intent], contents: u8, ruling: Option<Ruling>, moves: &mut Moves) {
        let key = self.world.told.minted;
        if key == KEYS {
            return;
        }
        let refused = intents.iter().any(|i| i.refused_by_person);
        let ruling = match ruling {
            Some(Ruling::Allow) if refused && self.model.rules.after_a_persons_no_comes_a_question => Some(Ruling::Ask),
            ruling => ruling,
        };
        self.world.told.minted += 1;
        if ruling == Some(Ruling::Allow) && !self.world.told.refused_by_person {
            self.world.told.allowed |= bit(key);
        }
        let (scope, by) = (self.scope(), Some(self.me));
        self.write(
            key,
            Event::Claimed {
                contents,
                ruling,
                scope,
                by,
            },
        );
        let (then, text) = match ruling {
            Some(Ruling::Allow) => (Then::Send, "{p} claims {k}: sending follows"),
            Some(Ruling::Ask) => (Then::TellOther, "{p} claims {k}, parked until a person approves"),
            Some(Ruling::Deny) => return self.tell_no(key, "{p} writes {k} down as denied", moves),
            None => (Then::Rule, "{p} claims {k}, and will ask policy next"),
        };
        self.done(At::Wrote { key, then }, text, key, moves);
    }

    /// A call meets an order of its own contents.
    fn meet(self, known: &Intent, ruling: Option<Ruling>, moves: &mut Moves) {
        let key = known.key;
        match known.stage {
            Stage::Succeeded => self.done(At::Idle, "{p} is given the receipt of {k}", key, moves),
            Stage::Rejected | Stage::Denied | Stage::Withdrawn => self.tell_no(key, "{p} finds the no on {k}", moves),
            Stage::Parked => self.done(At::Idle, "{p} is told that {k} is parked", key, moves),
            Stage::Abandoned => self.done(At::Idle, "{p} is told that {k} was abandoned", key, moves),
            Stage::Review => self.done(At::Idle, "{p} is told that a person must look at {k}", key, moves),
            Stage::Open if known.owner.is_some_and(|owner| owner != self.me) => {
                self.done(At::Waits { key }, "{p} finds {k} in another process's hands and waits", key, moves);
            }
            Stage::Open if self.model.rules.one_path_for_the_unfinished || ruling != Some(Ruling::Deny) => {
                self.take_over(known, "{p} finds {k} unfinished and takes it over", moves);
            }
            Stage::Open => self.deny_anew(key, moves),
        }
    }

    fn deny_anew(mut self, key: Key, moves: &mut Moves) {
        self.write(key, Event::Settled(Stage::Denied));
        self.tell_no(key, "{p} judges {k} anew: it writes down that it is denied", moves);
    }

    /// The one path for what is unfinished and in nobody's hands.
    fn take_over(mut self, intent: &Intent, text: &'static str, moves: &mut Moves) {
        let key = intent.key;
        let never_sent = match self.model.rules.never_sent_needs_proof {
            true => !intent.may_have_begun(),
            false => intent.attempts == 0,
        };
        if never_sent && intent.says_sending_follows && self.model.rulings().any(|r| r == Ruling::Deny) {
            self.fork().deny_anew(key, moves);
        }
        let by = Some(self.me);
        self.write(key, Event::TakenOver { by });
        if !intent.may_have_begun() {
            return self.clear(key, moves);
        }
        match self.may_repeat(intent) {
            true => self.done(At::Wrote { key, then: Then::Send }, text, key, moves),
            false => self.look_up_or_review(key, moves),
        }
    }

    /// An approval is used up by the record that says bytes may leave.
    fn clear(mut self, key: Key, moves: &mut Moves) {
        let scope = self.scope();
        self.write(key, Event::Cleared { scope });
        let at = match self.model.rules.cleared_is_synced_before_the_send {
            true => At::Wrote { key, then: Then::Send },
            false => At::Ready(flight(key)),
        };
        self.done(at, "{p} takes the approved {k} and clears it for sending", key, moves);
    }

    /// Whether a key that may have landed may go out again: while the server remembers it, to the account that knows it.
    fn may_repeat(&self, intent: &Intent) -> bool {
        let in_scope = intent.scope == self.scope() || !self.model.rules.key_stays_in_its_scope;
        in_scope && !self.model.retention_passed(&self.world, intent)
    }

    pub(super) fn look_up_or_review(mut self, key: Key, moves: &mut Moves) {
        if self.model.bounds.lookup {
            return self.done(
                At::Wrote { key, then: Then::LookUp },
                "{p} may not repeat {k}, and will look it up",
                key,
                moves,
            );
        }
        self.write(key, Event::Review);
        self.done(
            At::Wrote {
                key,
                then: Then::TellOther,
            },
            "{p} puts {k} before a person",
            key,
            moves,
        );
    }

    /// Only where R3 is off.
    fn judge_late(self, key: Key, moves: &mut Moves) {
        for ruling in self.model.rulings() {
            let mut fork = self.fork();
            fork.write(key, Event::Ruled(ruling));
            match ruling {
                Ruling::Allow => {
                    fork.world.told.allowed |= bit(key);
                    fork.done(At::Ready(flight(key)), "{p} asks policy about {k}: allowed", key, moves);
                }
                Ruling::Ask => fork.done(At::Idle, "{p} asks policy about {k}: a person is to be asked", key, moves),
                Ruling::Deny => fork.tell_no(key, "{p} asks policy about {k}: denied", moves),
            }
        }
    }

    pub(super) fn tell_no(mut self, key: Key, text: &'static str, moves: &mut Moves) {
        if self.model.rules.no_is_synced_before_it_is_told {
            return self.done(At::Wrote { key, then: Then::TellNo }, text, key, moves);
        }
        self.world.told.no |= bit(key);
        let step = Step::new(text)
            .by(self.me)
            .of(key)
            .more(", and tells at once: nothing was registered");
        self.did(At::Idle, step, moves);
    }

    fn wait(self, key: Key, moves: &mut Moves) {
        self.fork().done(At::Idle, "{p} has waited long enough for {k}", key, moves);
        match self.intent(key) {
            Some(intent) if self.may_turn() && self.model.wakes(self.me, &intent) => match intent.stage {
                Stage::Open => self.take_over(&intent, "{p} has waited, and takes {k} over", moves),
                _ => self.meet(&intent, None, moves),
            },
            _ => {}
        }
    }

    /// R16: under the lease, and only what was never sent.
    fn withdraw(&self, moves: &mut Moves) {
        if self.world.left.withdrawals == 0 || !self.may_turn() {
            return;
        }
        for intent in self.intents() {
            let free = intent.owner.is_none_or(|owner| owner == self.me) && !self.world.in_flight(intent.key);
            let open = matches!(intent.stage, Stage::Open | Stage::Parked);
            if free && open && (intent.nothing_left() || !self.model.rules.withdrawal_needs_proof) {
                let mut fork = self.fork();
                fork.world.left.withdrawals -= 1;
                fork.write(intent.key, Event::Settled(Stage::Withdrawn));
                fork.tell_no(intent.key, "{p} withdraws {k}", moves);
            }
        }
    }

    fn begin_compaction(&self, moves: &mut Moves) {
        if self.world.left.compactions == 0 || !self.may_turn() || self.world.disk.log.is_empty() {
            return;
        }
        let mut fork = self.fork();
        fork.world.left.compactions -= 1;
        fork.world.disk.lock = Some(self.me);
        let text = match self.model.rules.log_is_there_at_every_instant {
            true => "{p} compacts: it links the old log into the archive",
            false => {
                fork.world.disk.missing = true;
                "{p} compacts: it moves the old log into the archive"
            }
        };
        fork.done(At::Compacts, text, 0, moves);
    }

    fn swap(mut self, moves: &mut Moves) {
        self.world.disk.lock = None;
        self.world.disk.missing = false;
        self.world.disk.compact(&self.model.rules);
        self.done(At::Idle, "{p} puts the compacted log in its place", 0, moves);
    }
}

fn wall(ticks: u8) -> i8 {
    i8::try_from(ticks).unwrap()
}

pub(super) fn flight(key: Key) -> Flight {
    Flight {
        key,
        tries: 1,
        doubt: false,
    }
}
