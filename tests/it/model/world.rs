//! What there is in the model: the rules, what may happen at most, and one state of the world.

use super::book::Disk;

/// The n-th key that was minted. A key is never minted twice, so the newest generation of an origin is the highest one.
pub(super) type Key = u8;

/// Process A or B.
pub(super) type Process = u8;

/// A rule each; all of them are the protocol. Some rules say two things that can be left out one by one.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// R1: a refusal is a no only if nothing else of its key can land.
    pub(super) refusal_weighs_other_attempts: bool,
    /// R2: what may have been sent is seen in the claim and in `cleared`, never in the absence of `sent`.
    pub(super) never_sent_needs_proof: bool,
    /// R2: the first byte waits until `cleared` is on disk.
    pub(super) cleared_is_synced_before_the_send: bool,
    /// R3: policy speaks before the claim, and the claim holds what it said.
    pub(super) judged_before_claimed: bool,
    /// R4: nobody abandons what is in flight.
    pub(super) abandon_takes_the_lease: bool,
    /// R4: an abandoned order keeps its origin until a person frees it.
    pub(super) abandon_frees_nothing: bool,
    /// R5: compaction keeps each origin.
    pub(super) compaction_keeps_origins: bool,
    /// R6: the log is there at every instant, and a missing one is never made anew.
    pub(super) log_is_there_at_every_instant: bool,
    /// R7: a no is on disk before it is told.
    pub(super) no_is_synced_before_it_is_told: bool,
    /// R7: a no is on disk before a correction is built on it.
    pub(super) no_is_synced_before_it_is_corrected: bool,
    /// R8: a clock in doubt means that retention passed.
    pub(super) clock_in_doubt_means_passed: bool,
    /// R8: the age runs from the first possible send.
    pub(super) age_runs_from_the_first_send: bool,
    /// R8: the age is looked at once more right before the bytes go.
    pub(super) age_is_checked_at_the_hand_over: bool,
    /// R9: a key that may have landed is sent again only under its first credential's scope.
    pub(super) key_stays_in_its_scope: bool,
    /// R10: "not found" settles nothing.
    pub(super) not_found_proves_nothing: bool,
    /// R11: the repeat guard counts an order in doubt, however old.
    pub(super) guard_never_forgets_a_doubt: bool,
    /// R11 with R4: an abandoned order that may have landed counts too, until a person frees it. The protocol's words let it pass.
    pub(super) guard_counts_the_abandoned: bool,
    /// R12: a hole that a later record witnesses as synced stops the journal.
    pub(super) witnessed_hole_stops: bool,
    /// R12: a hole that nothing witnesses as synced stops nothing.
    pub(super) torn_hole_stops_nothing: bool,
    /// R13: the end of a flight gives the order up.
    pub(super) flight_gives_its_lease_up: bool,
    /// R14: a waiter wakes where nobody is at work any more, and takes over.
    pub(super) waiter_takes_over: bool,
    /// R15: an effect is judged over all runs.
    pub(super) effect_counts_all_runs: bool,
    /// R16: "not sent" is no promise that it never will be.
    pub(super) not_sent_is_no_promise: bool,
    /// R16: only what was never sent, or never left, is withdrawn.
    pub(super) withdrawal_needs_proof: bool,
    /// R15, R16: `rested` says how many attempts there were, so that a lost `sent` shows.
    pub(super) rested_counts_the_attempts: bool,
    /// R17: an origin means its newest generation.
    pub(super) newest_generation_counts: bool,
    /// R17: after a person's refusal every correction is asked about.
    pub(super) after_a_persons_no_comes_a_question: bool,
    /// R18: a submit that finds an unfinished order goes resume's way.
    pub(super) one_path_for_the_unfinished: bool,
}

/// All rules: the protocol.
pub(super) const ALL: Rules = Rules {
    refusal_weighs_other_attempts: true,
    never_sent_needs_proof: true,
    cleared_is_synced_before_the_send: true,
    judged_before_claimed: true,
    abandon_takes_the_lease: true,
    abandon_frees_nothing: true,
    compaction_keeps_origins: true,
    log_is_there_at_every_instant: true,
    no_is_synced_before_it_is_told: true,
    no_is_synced_before_it_is_corrected: true,
    clock_in_doubt_means_passed: true,
    age_runs_from_the_first_send: true,
    age_is_checked_at_the_hand_over: true,
    key_stays_in_its_scope: true,
    not_found_proves_nothing: true,
    guard_never_forgets_a_doubt: true,
    guard_counts_the_abandoned: true,
    witnessed_hole_stops: true,
    torn_hole_stops_nothing: true,
    flight_gives_its_lease_up: true,
    waiter_takes_over: true,
    effect_counts_all_runs: true,
    not_sent_is_no_promise: true,
    withdrawal_needs_proof: true,
    rested_counts_the_attempts: true,
    newest_generation_counts: true,
    after_a_persons_no_comes_a_question: true,
    one_path_for_the_unfinished: true,
};

/// What policy can say.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Ruling {
    Allow,
    Ask,
    Deny,
}

/// How large the world is. What is 0 or off can't happen in it.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// One process, or two at one journal.
    pub(super) processes: u8,
    /// 1: every call has the same contents. 2: an agent may also submit other contents under the same origin.
    pub(super) contents: u8,
    /// Attempts of one flight.
    pub(super) tries: u8,
    /// How often time has to pass until the server forgets a key, and the repeat guard a settled order.
    pub(super) retention: u8,
    /// A submits the order as it is, B always with other contents: each agent reads the mail its own way.
    pub(super) each_its_own: bool,
    /// What policy may say; it may change its mind between two calls.
    pub(super) rulings: &'static [Ruling],
    /// The caller names no origin: only the repeat guard stands between two calls.
    pub(super) origin_unknown: bool,
    /// The server can be asked whether it has the order.
    pub(super) lookup: bool,
    /// A power cut loses any of the unsynced records, not only the last ones.
    pub(super) torn: bool,
    /// What may happen, and how often.
    pub(super) may: Budget,
}

/// How often each of these may still happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Budget {
    pub(super) submits: u8,
    pub(super) resumes: u8,
    pub(super) crashes: u8,
    pub(super) power_cuts: u8,
    /// The server says no to an order it does not know, and remembers nothing of it.
    pub(super) refusals: u8,
    /// A connection is refused: the attempt never left.
    pub(super) refused_connections: u8,
    /// A sync fails, which poisons the journal for its process.
    pub(super) failed_syncs: u8,
    /// Time passes, by more than the network holds a request.
    pub(super) ticks: u8,
    /// The wall clock is set back by more than the margin.
    pub(super) clock_steps: u8,
    /// A process is given another account's credential.
    pub(super) rotations: u8,
    pub(super) compactions: u8,
    /// A synced record goes bad.
    pub(super) damages: u8,
    /// Acts of a person: approve, refuse, abandon, free.
    pub(super) acts: u8,
    pub(super) withdrawals: u8,
}

/// One small world, for the others to start from.
pub(super) const SMALL: Bounds = Bounds {
    processes: 1,
    contents: 1,
    tries: 1,
    retention: 1,
    each_its_own: false,
    rulings: &[Ruling::Allow],
    origin_unknown: false,
    lookup: false,
    torn: false,
    may: NOTHING,
};

pub(super) const NOTHING: Budget = Budget {
    submits: 0,
    resumes: 0,
    crashes: 0,
    power_cuts: 0,
    refusals: 0,
    refused_connections: 0,
    failed_syncs: 0,
    ticks: 0,
    clock_steps: 0,
    rotations: 0,
    compactions: 0,
    damages: 0,
    acts: 0,
    withdrawals: 0,
};

/// One moment of everything.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) disk: Disk,
    pub(super) at: [At; 2],
    /// The scope of each process's credential.
    pub(super) scope: [u8; 2],
    /// How much of the log each process knows to be durable; kept only where a witness matters.
    pub(super) knows: [u8; 2],
    /// Requests under way, in order, so that two worlds that differ in nothing else are one.
    pub(super) net: Vec<Request>,
    pub(super) server: Server,
    pub(super) clock: Stamp,
    pub(super) left: Budget,
    pub(super) told: Told,
}

/// Where a process is. Everything in here is lost with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum At {
    Down,
    Idle,
    /// Policy has spoken; nothing is written yet. No ruling: R3 is off.
    Judged {
        contents: u8,
        ruling: Option<Ruling>,
    },
    /// It wrote, gave the lock back, and must sync before it goes on.
    Wrote {
        key: Key,
        then: Then,
    },
    /// It has claimed and asks policy only now: R3 is off.
    Unruled {
        key: Key,
    },
    /// It holds the lease and is about to look at the journal once more.
    Ready(Flight),
    /// It has looked, and will send.
    Looked(Flight),
    /// Its request is out.
    Awaits(Flight),
    /// An answer is on its way.
    Answered(Flight, Answer),
    /// It asks the server whether the order is there.
    LooksUp {
        key: Key,
    },
    /// Another process is at work on this order.
    Waits {
        key: Key,
    },
    /// It holds the lock and is half way through.
    Compacts,
}

/// What a process does once its records are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Then {
    Send,
    TellNo,
    TellOther,
    LookUp,
    Rule,
    DecideAgain { contents: u8, ruling: Option<Ruling> },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Flight {
    pub(super) key: Key,
    /// Attempts of this flight, this one included.
    pub(super) tries: u8,
    /// Whether an attempt of this flight had no answer.
    pub(super) doubt: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Answer {
    Success,
    Refusal,
}

/// A request the network holds. It may hold it long after its sender is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Request {
    pub(super) key: Key,
    pub(super) scope: u8,
    /// Who still listens for the answer.
    pub(super) from: Option<Process>,
}

#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Server {
    /// What it would replay: keys, the scope in which it has them, and for how long it has.
    remembers: Vec<(Key, u8, u8)>,
    /// Every order it registered, by key, in no order.
    pub(super) orders: Vec<Key>,
}

impl Server {
    pub(super) fn knows(&self, key: Key, scope: u8) -> bool {
        self.remembers.iter().any(|known| (known.0, known.1) == (key, scope))
    }

    pub(super) fn register(&mut self, key: Key, scope: u8) {
        self.remembers.push((key, scope, 0));
        self.remembers.sort_unstable();
        self.orders.push(key);
        self.orders.sort_unstable();
    }

    pub(super) fn grow_older(&mut self, retention: u8) {
        self.remembers.iter_mut().for_each(|known| known.2 += 1);
        self.remembers.retain(|known| known.2 < retention);
    }
}

/// A moment, by the wall and by the machine's own count within one boot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct Stamp {
    pub(super) wall: i8,
    pub(super) up: u8,
    pub(super) boot: u8,
}

/// What the model remembers in order to judge; nobody in the world reads it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Told {
    /// How many keys were minted.
    pub(super) minted: u8,
    /// Keys by bit: policy or a person let them be sent.
    pub(super) allowed: u8,
    /// A person said no to the order; from then on only a person's yes counts.
    pub(super) refused_by_person: bool,
    /// Keys by bit: bytes were handed over.
    pub(super) sent: u8,
    /// Keys by bit: somebody was told that nothing was registered and nothing will be.
    pub(super) no: u8,
    /// Keys by bit: what no client can avoid happened to them.
    pub(super) excused: u8,
    /// Somebody was told "nothing has left" when something had.
    pub(super) lied: bool,
    /// An order was sent that nobody allowed.
    pub(super) unallowed: bool,
}

pub(super) fn bit(key: Key) -> u8 {
    1 << key
}

impl World {
    /// Two idle processes at an empty journal.
    pub(super) fn new(bounds: &Bounds) -> World {
        let second = if bounds.processes == 2 { At::Idle } else { At::Down };
        World {
            disk: Disk::default(),
            at: [At::Idle, second],
            scope: [0; 2],
            knows: [0; 2],
            net: Vec::new(),
            server: Server::default(),
            clock: Stamp::default(),
            left: bounds.may,
            told: Told::default(),
        }
    }

    /// Whether an order of this key is registered, or a request of it under way.
    pub(super) fn is_out(&self, key: Key) -> bool {
        self.server.orders.contains(&key) || self.net.iter().any(|r| r.key == key)
    }

    /// Whether a process is at work on this order.
    pub(super) fn in_flight(&self, key: Key) -> bool {
        self.at.iter().any(|at| at.flies(key))
    }

    /// Nobody listens any more for what this process sent.
    pub(super) fn hang_up(&mut self, process: Process) {
        for request in self.net.iter_mut().filter(|r| r.from == Some(process)) {
            request.from = None;
        }
        self.net.sort_unstable();
    }

    /// The process is gone, and with it its locks.
    pub(super) fn stop(&mut self, process: Process) {
        self.at[usize::from(process)] = At::Down;
        self.knows[usize::from(process)] = 0;
        self.hang_up(process);
        self.disk.lost_its_owner(process);
    }
}

impl At {
    fn flies(self, key: Key) -> bool {
        match self {
            At::Wrote { key: k, then } => k == key && matches!(then, Then::Send | Then::LookUp | Then::Rule),
            At::Ready(f) | At::Looked(f) | At::Awaits(f) | At::Answered(f, _) => f.key == key,
            At::LooksUp { key: k } | At::Unruled { key: k } => k == key,
            At::Down | At::Idle | At::Judged { .. } | At::Waits { .. } | At::Compacts => false,
        }
    }
}
