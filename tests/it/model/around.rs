//! What happens around the processes: the network and the server, time, power, crashes, and a person.

use super::{
    book::{Event, Intent, Record, Stage},
    search::{Model, Moves, Step},
    world::{Answer, At, Key, Process, Request, World, bit},
};

impl Model {
    pub(super) fn moves_around(&self, world: &World, moves: &mut Moves) {
        self.network(world, moves);
        self.crashes(world, moves);
        self.power_cut(world, moves);
        self.damage(world, moves);
        self.time(world, moves);
        self.rotation(world, moves);
        if world.left.acts > 0 && self.a_person_can_write(world) {
            for intent in world.disk.intents(&self.rules) {
                self.person(world, &intent, moves);
            }
        }
    }

    /// Each request may arrive now, or later, or never: a lost request is one that does not arrive, and needs no move of its own.
    fn network(&self, world: &World, moves: &mut Moves) {
        for (place, request) in world.net.iter().enumerate() {
            if place == 0 || world.net[place - 1] != *request {
                let mut taken = world.clone();
                taken.net.remove(place);
                arrives(taken, *request, moves);
            }
        }
    }

    fn crashes(&self, world: &World, moves: &mut Moves) {
        if world.left.crashes == 0 {
            return;
        }
        for process in 0..self.bounds.processes {
            if world.at[usize::from(process)] != At::Down {
                let mut next = world.clone();
                next.left.crashes -= 1;
                next.stop(process);
                moves.push((Step::new("{p} is killed").by(process), next));
            }
        }
    }

    /// All processes end, and of the unsynced records any suffix is lost; where records can be torn, any of them.
    fn power_cut(&self, world: &World, moves: &mut Moves) {
        if world.left.power_cuts == 0 {
            return;
        }
        let mut dark = world.clone();
        dark.left.power_cuts -= 1;
        (0..2).for_each(|process| dark.stop(process));
        if self.bounds.may.ticks > 0 {
            dark.clock.boot += 1;
            dark.clock.up = 0;
        }
        let unsynced = dark.disk.len() - dark.disk.synced;
        let all = 1_u32 << unsynced;
        for lost in 0..all {
            let kept = all - 1 - lost;
            let suffix = kept.count_ones() == kept.trailing_ones();
            if self.bounds.torn || suffix {
                let records = u8::try_from(lost.count_ones()).unwrap();
                moves.push((Step::new(loss(lost)).n(records), without(&dark, lost)));
            }
        }
    }

    /// While nobody runs, one synced record goes bad. The newest one can't be missed by anybody: no client can avoid that.
    fn damage(&self, world: &World, moves: &mut Moves) {
        if world.left.damages == 0 || world.at != [At::Down; 2] {
            return;
        }
        for place in 0..usize::from(world.disk.synced) {
            let record = world.disk.log[place];
            if matches!(record.event, Event::Hole | Event::Closed) {
                continue;
            }
            let mut next = world.clone();
            next.left.damages -= 1;
            next.disk.log[place].event = Event::Hole;
            if !next.disk.witnessed(place) {
                next.told.excused |= bit(record.key);
            }
            moves.push((Step::new(harm(&record)).of(record.key), next));
        }
    }

    /// Time passes, by more than the server's retention. What the network still held is gone: to hold it longer is what no client can avoid.
    fn time(&self, world: &World, moves: &mut Moves) {
        if world.left.ticks > 0 {
            let mut next = world.clone();
            next.left.ticks -= 1;
            next.clock.up += 1;
            next.clock.wall += 1;
            next.server.grow_older(self.bounds.retention);
            next.net.clear();
            moves.push((Step::new("time passes"), next));
        }
        if world.left.clock_steps > 0 {
            let mut next = world.clone();
            next.left.clock_steps -= 1;
            next.clock.wall -= 8;
            moves.push((Step::new("the wall clock is set back"), next));
        }
    }

    fn rotation(&self, world: &World, moves: &mut Moves) {
        if world.left.rotations == 0 {
            return;
        }
        for process in 0..self.bounds.processes {
            if world.at[usize::from(process)] == At::Idle {
                let mut next = world.clone();
                next.left.rotations -= 1;
                next.scope[usize::from(process)] ^= 1;
                moves.push((Step::new("{p} is given the credential of another account").by(process), next));
            }
        }
    }

    fn a_person_can_write(&self, world: &World) -> bool {
        world.disk.lock.is_none() && !world.disk.missing && world.disk.log.iter().all(|r| r.event != Event::Hole)
    }

    /// What a person decides is written and synced in one: before that, nobody was told.
    fn person(&self, world: &World, intent: &Intent, moves: &mut Moves) {
        let key = intent.key;
        let never_sent = match self.rules.never_sent_needs_proof {
            true => !intent.may_have_begun(),
            false => intent.attempts == 0,
        };
        if intent.stage == Stage::Parked {
            let mut next = acted(world, key, Event::Approved);
            next.told.allowed |= bit(key);
            by_hand(moves, next, "a person approves {k}", key);
        }
        if intent.asked && matches!(intent.stage, Stage::Parked | Stage::Open) && never_sent {
            let mut next = acted(world, key, Event::Refused);
            next.told.no |= bit(key);
            next.told.refused_by_person = true;
            by_hand(moves, next, "a person refuses {k}, and is told: nothing was sent", key);
        }
        if self.may_be_abandoned(intent) {
            self.abandon(world, key, moves);
        }
        if matches!(intent.stage, Stage::Abandoned | Stage::Rejected | Stage::Denied | Stage::Withdrawn) && !intent.freed {
            self.free(world, key, moves);
        }
    }

    fn may_be_abandoned(&self, intent: &Intent) -> bool {
        let open = matches!(intent.stage, Stage::Parked | Stage::Open | Stage::Review);
        open && (intent.owner.is_none() || !self.rules.abandon_takes_the_lease)
    }

    fn abandon(&self, world: &World, key: Key, moves: &mut Moves) {
        let mut next = acted(world, key, Event::Abandoned);
        if self.rules.abandon_frees_nothing {
            return by_hand(moves, next, "a person abandons {k}", key);
        }
        next = Model::freed(next, key);
        by_hand(moves, next, "a person abandons {k}, which frees the origin", key);
    }

    /// A person frees only what they saw unregistered. A copy that is still under way is what no client can avoid.
    fn free(&self, world: &World, key: Key, moves: &mut Moves) {
        if world.server.orders.contains(&key) {
            return;
        }
        let mut next = acted(world, key, Event::Freed);
        if next.is_out(key) {
            next.told.excused |= bit(key);
        }
        by_hand(moves, next, "a person checks, finds nothing and frees the origin of {k}", key);
    }

    fn freed(mut world: World, key: Key) -> World {
        let at = world.clock;
        world.disk.append(Record {
            key,
            event: Event::Freed,
            at,
            knew: 0,
        });
        world.disk.sync();
        world
    }
}

fn acted(world: &World, key: Key, event: Event) -> World {
    let mut next = world.clone();
    next.left.acts -= 1;
    let at = next.clock;
    next.disk.append(Record { key, event, at, knew: 0 });
    next.disk.sync();
    next
}

fn by_hand(moves: &mut Moves, next: World, text: &'static str, key: Key) {
    moves.push((Step::new(text).of(key), next));
}

/// A key the server knows is replayed; any other is an order, or is refused and not remembered.
fn arrives(mut world: World, request: Request, moves: &mut Moves) {
    let Request { key, scope, .. } = request;
    if world.server.knows(key, scope) {
        return answered(world, request, Answer::Success, "the server replays {k}", moves);
    }
    if world.left.refusals > 0 {
        let mut next = world.clone();
        next.left.refusals -= 1;
        answered(next, request, Answer::Refusal, "the server refuses {k}", moves);
    }
    world.server.register(key, scope);
    answered(world, request, Answer::Success, "the server registers {k}", moves);
}

/// The answer is on its way to whoever still listens.
fn answered(mut world: World, request: Request, answer: Answer, text: &'static str, moves: &mut Moves) {
    let mut more = ", late: nobody listens any more";
    if let Some(from) = request.from
        && let At::Awaits(flight) = world.at[usize::from(from)]
    {
        world.at[usize::from(from)] = At::Answered(flight, answer);
        more = "";
    }
    moves.push((Step::new(text).of(request.key).more(more), world));
}

/// The log without some of its unsynced records, given as bits.
fn without(dark: &World, lost: u32) -> World {
    let mut next = dark.clone();
    let synced = usize::from(next.disk.synced);
    for (place, record) in next.disk.log.iter_mut().skip(synced).enumerate() {
        if lost & (1 << place) != 0 {
            *record = Record {
                event: Event::Hole,
                ..*record
            };
        }
    }
    next.disk.cut_the_tail();
    // Whatever a power cut left is on disk.
    next.disk.sync();
    next
}

fn loss(lost: u32) -> &'static str {
    match lost {
        0 => "the power fails; no record is lost",
        _ if lost.is_power_of_two() => "the power fails; one unsynced record is lost",
        _ => "the power fails; {n} unsynced records are lost",
    }
}

fn harm(record: &Record) -> &'static str {
    match record.event {
        Event::Claimed { .. } => "the claim of {k} goes bad on the disk",
        Event::Settled(_) => "the outcome of {k} goes bad on the disk",
        _ => "a record of {k} goes bad on the disk",
    }
}

/// Only so that a reader of a trace sees names.
pub(super) fn name(process: Process) -> &'static str {
    ["A", "B"][usize::from(process)]
}
