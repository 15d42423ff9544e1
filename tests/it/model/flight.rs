//! From a record on disk to an outcome, or to rest: sync, look, send, weigh.

use super::{
    book::{Event, Seen, Stage},
    process::{Desk, flight},
    search::{Moves, Step},
    world::{Answer, At, Flight, Key, Request, Then, bit},
};

impl Desk<'_> {
    pub(super) fn sync(mut self, key: Key, then: Then, moves: &mut Moves) {
        if self.world.left.failed_syncs > 0 {
            self.fork().poisoned(key, then, moves);
        }
        self.world.disk.sync();
        self.learn();
        let (at, text) = match then {
            Then::Send => (At::Ready(flight(key)), "{p} syncs"),
            Then::LookUp => (At::LooksUp { key }, "{p} syncs"),
            Then::Rule => (At::Unruled { key }, "{p} syncs"),
            Then::DecideAgain { contents, ruling } => (At::Judged { contents, ruling }, "{p} syncs, and decides again"),
            Then::TellOther => (At::Idle, "{p} syncs and tells how {k} stands"),
            Then::TellNo => {
                self.world.told.no |= bit(key);
                (At::Idle, "{p} syncs and tells: nothing was registered under {k}")
            }
        };
        self.done(at, text, key, moves);
    }

    /// A failed sync: the journal is poisoned for this process, which lets everything go.
    fn poisoned(mut self, key: Key, then: Then, moves: &mut Moves) {
        self.world.left.failed_syncs -= 1;
        self.world.stop(self.me);
        if then == Then::Send && !self.model.rules.not_sent_is_no_promise {
            self.world.told.no |= bit(key);
        }
        self.done(At::Down, "{p} fails to sync {k}, tells so, and stops", key, moves);
    }

    /// Before every attempt the journal is looked at again: somebody may have settled the order.
    pub(super) fn look(self, flight: Flight, moves: &mut Moves) {
        let key = flight.key;
        match self.intent(key) {
            Some(intent) if intent.stage == Stage::Open && !self.model.retention_passed(&self.world, &intent) => {
                self.done(At::Looked(flight), "{p} looks at the journal: {k} may be sent", key, moves);
            }
            Some(intent) if intent.stage == Stage::Open && self.may_turn() => self.look_up_or_review(key, moves),
            Some(intent) if intent.stage == Stage::Open => {}
            _ => self.done(At::Idle, "{p} looks at the journal: {k} is not open any more", key, moves),
        }
    }

    pub(super) fn send(mut self, flight: Flight, moves: &mut Moves) {
        let key = flight.key;
        let Some(intent) = self.intent(key) else { return };
        if !self.may_turn() {
            return;
        }
        if self.model.rules.age_is_checked_at_the_hand_over && self.model.retention_passed(&self.world, &intent) {
            return self.look_up_or_review(key, moves);
        }
        let attempt = intent.attempts + 1;
        self.write(key, Event::Sent { attempt });
        if self.world.left.refused_connections > 0 {
            self.fork().never_left(flight, attempt, moves);
        }
        let (scope, from) = (self.scope(), Some(self.me));
        self.world.net.push(Request { key, scope, from });
        self.world.net.sort_unstable();
        self.world.told.sent |= bit(key);
        self.world.told.unallowed |= self.world.told.allowed & bit(key) == 0;
        let text = "{p} sends {k} (attempt {n}); the network holds it";
        let step = Step::new(text).by(self.me).of(key).n(attempt);
        self.did(At::Awaits(flight), step, moves);
    }

    fn never_left(mut self, flight: Flight, attempt: u8, moves: &mut Moves) {
        self.world.left.refused_connections -= 1;
        let seen = Seen::NeverLeft;
        self.write(flight.key, Event::Observed { attempt, seen });
        self.again_or_rest(flight, "{p} can't connect: attempt {n} of {k} never left", attempt, moves);
    }

    pub(super) fn time_out(mut self, mut flight: Flight, moves: &mut Moves) {
        let key = flight.key;
        let Some(intent) = self.intent(key) else { return };
        if !self.may_turn() {
            return;
        }
        self.world.hang_up(self.me);
        flight.doubt = true;
        let attempt = intent.attempts;
        let seen = Seen::NoAnswer;
        self.write(key, Event::Observed { attempt, seen });
        self.again_or_rest(flight, "{p} hears nothing and gives attempt {n} of {k} up", attempt, moves);
    }

    fn again_or_rest(mut self, flight: Flight, text: &'static str, attempt: u8, moves: &mut Moves) {
        let key = flight.key;
        let step = Step::new(text).by(self.me).of(key).n(attempt);
        if flight.tries < self.model.bounds.tries {
            let tries = flight.tries + 1;
            return self.did(At::Ready(Flight { tries, ..flight }), step, moves);
        }
        let Some(intent) = self.intent(key) else { return };
        if self.model.rules.flight_gives_its_lease_up {
            let attempts = intent.attempts;
            self.write(key, Event::Rested { attempts });
        }
        let doubt = match self.model.rules.effect_counts_all_runs {
            true => intent.in_doubt(),
            false => flight.doubt,
        };
        let tells = if doubt { "; it tells: in doubt" } else { self.tell_not_sent(key) };
        self.did(At::Idle, step.more(tells), moves);
    }

    fn tell_not_sent(&mut self, key: Key) -> &'static str {
        self.world.told.lied |= self.world.is_out(key);
        if self.model.rules.not_sent_is_no_promise {
            return "; it tells: not sent, nothing has left; resume will send it";
        }
        self.world.told.no |= bit(key);
        "; it tells: not sent, nothing was registered"
    }

    /// What an answer means.
    pub(super) fn weigh(mut self, flight: Flight, answer: Answer, moves: &mut Moves) {
        let key = flight.key;
        let Some(intent) = self.intent(key) else { return };
        if !self.may_turn() {
            return;
        }
        let others_may_land = intent.doubt || intent.unanswered & !(1 << intent.attempts) != 0;
        let seen = Seen::Answer;
        self.write(
            key,
            Event::Observed {
                attempt: intent.attempts,
                seen,
            },
        );
        match answer {
            Answer::Success => {
                self.write(key, Event::Settled(Stage::Succeeded));
                self.done(At::Idle, "{p} hears it, writes the receipt of {k} down and tells it", key, moves);
            }
            Answer::Refusal if others_may_land && self.model.rules.refusal_weighs_other_attempts => self.look_up_or_review(key, moves),
            Answer::Refusal => {
                self.write(key, Event::Settled(Stage::Rejected));
                self.tell_no(key, "{p} hears it and writes down that {k} is rejected", moves);
            }
        }
    }

    pub(super) fn look_up(mut self, key: Key, moves: &mut Moves) {
        if !self.may_turn() {
            return;
        }
        if self.world.server.orders.contains(&key) {
            self.write(key, Event::Settled(Stage::Succeeded));
            self.done(At::Idle, "{p} looks {k} up and finds it", key, moves);
        } else if self.model.rules.not_found_proves_nothing {
            self.write(key, Event::Review);
            self.done(
                At::Wrote {
                    key,
                    then: Then::TellOther,
                },
                "{p} looks {k} up, finds nothing, and puts it before a person",
                key,
                moves,
            );
        } else {
            self.write(key, Event::Settled(Stage::Rejected));
            self.tell_no(key, "{p} looks {k} up, finds nothing, and writes it down as rejected", moves);
        }
    }
}
