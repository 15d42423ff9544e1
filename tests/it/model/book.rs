//! The journal of the model: records, what of them is on disk, and what they add up to.

use super::world::{Key, Process, Rules, Ruling, Stamp};

#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Disk {
    pub(super) log: Vec<Record>,
    /// So many records are on disk; the others are read by everybody, and lost by a power cut.
    pub(super) synced: u8,
    /// No file bears the log's name.
    pub(super) missing: bool,
    /// What compaction keeps of settled orders.
    pub(super) origins: Vec<Intent>,
    /// Who compacts; every other turn takes one step here, lock and all.
    pub(super) lock: Option<Process>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Record {
    pub(super) key: Key,
    pub(super) event: Event,
    pub(super) at: Stamp,
    /// How much of the log its writer knew to be on disk: the witness.
    pub(super) knew: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Event {
    /// A claim allowed by policy says that sending follows; so does one without a ruling (R3 off).
    Claimed {
        contents: u8,
        ruling: Option<Ruling>,
        scope: u8,
        by: Option<Process>,
    },
    /// Only where R3 is off.
    Ruled(Ruling),
    Approved,
    Refused,
    Cleared {
        scope: u8,
    },
    Sent {
        attempt: u8,
    },
    Observed {
        attempt: u8,
        seen: Seen,
    },
    Rested {
        attempts: u8,
    },
    Settled(Stage),
    Review,
    Abandoned,
    Freed,
    TakenOver {
        by: Option<Process>,
    },
    /// Not readable, and not yet looked at.
    Hole,
    /// A hole that was copied aside and closed.
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Seen {
    NeverLeft,
    NoAnswer,
    Answer,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Stage {
    Parked,
    Open,
    Succeeded,
    Rejected,
    Denied,
    Withdrawn,
    Abandoned,
    Review,
}

/// What the records of one key add up to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Intent {
    pub(super) key: Key,
    pub(super) contents: u8,
    pub(super) asked: bool,
    pub(super) stage: Stage,
    /// The process in whose hands it is, if that lives.
    pub(super) owner: Option<Process>,
    pub(super) says_sending_follows: bool,
    pub(super) cleared: bool,
    pub(super) refused_by_person: bool,
    pub(super) freed: bool,
    pub(super) claimed: Stamp,
    /// The first record that let bytes leave.
    pub(super) first_send: Option<Stamp>,
    /// The last record that did: what a wrong age would run from.
    pub(super) last_send: Stamp,
    pub(super) scope: u8,
    pub(super) attempts: u8,
    /// Attempts of which no end is written, by bit.
    pub(super) unanswered: u8,
    pub(super) doubt: bool,
    /// A flight ended in good order, and none has begun since.
    pub(super) rested: bool,
    /// How much of the log has to be on disk for its last word to be there.
    pub(super) last: u8,
}

impl Disk {
    pub(super) fn append(&mut self, record: Record) {
        self.log.push(record);
    }

    pub(super) fn len(&self) -> u8 {
        u8::try_from(self.log.len()).unwrap()
    }

    pub(super) fn sync(&mut self) {
        self.synced = self.len();
    }

    /// A dead process's lock is free at once: nothing it wrote keeps an order from anybody.
    pub(super) fn lost_its_owner(&mut self, process: Process) {
        for record in &mut self.log {
            if let Event::Claimed { by, .. } | Event::TakenOver { by } = &mut record.event
                && *by == Some(process)
            {
                *by = None;
            }
        }
        if self.lock == Some(process) {
            self.lock = None;
        }
    }

    /// All orders the journal knows, the oldest generation first.
    pub(super) fn intents(&self, rules: &Rules) -> Vec<Intent> {
        let mut all = self.origins.clone();
        for (place, record) in (0..).zip(&self.log) {
            if let Event::Claimed { .. } = record.event {
                all.push(Intent::claimed(record, place));
            } else if let Some(intent) = all.iter_mut().find(|i| i.key == record.key) {
                intent.after(record, place, rules);
            }
        }
        all.sort_unstable_by_key(|i| i.key);
        all
    }

    pub(super) fn intent(&self, key: Key, rules: &Rules) -> Option<Intent> {
        self.intents(rules).into_iter().find(|i| i.key == key)
    }

    /// The newest time by the wall that the journal speaks of.
    pub(super) fn newest_time(&self) -> i8 {
        self.log.iter().map(|r| r.at.wall).max().unwrap_or(i8::MIN)
    }

    /// Whether a record that can be read says that this place was on disk.
    pub(super) fn witnessed(&self, place: usize) -> bool {
        self.log
            .iter()
            .skip(place + 1)
            .any(|r| r.event != Event::Hole && usize::from(r.knew) > place)
    }

    /// Whether an opener has to say that the journal is damaged, and send nothing.
    pub(super) fn is_corrupt(&self, rules: &Rules) -> bool {
        self.holes().any(|place| match self.witnessed(place) {
            true => rules.witnessed_hole_stops,
            false => !rules.torn_hole_stops_nothing,
        })
    }

    fn holes(&self) -> impl Iterator<Item = usize> {
        self.log
            .iter()
            .enumerate()
            .filter(|(_, r)| r.event == Event::Hole)
            .map(|(place, _)| place)
    }

    /// What opening does: a tail that is no record is cut, a hole is closed, and all that is read is synced first.
    pub(super) fn open(&mut self, rules: &Rules) {
        self.cut_the_tail();
        let damage = self.holes().find(|place| self.witnessed(*place));
        if let Some(first) = damage {
            assert!(!rules.witnessed_hole_stops);
            self.log.truncate(first);
        }
        for record in self.log.iter_mut().filter(|r| r.event == Event::Hole) {
            *record = Record {
                event: Event::Closed,
                ..*record
            };
        }
        self.sync();
    }

    pub(super) fn cut_the_tail(&mut self) {
        while self.log.last().is_some_and(|r| r.event == Event::Hole) {
            self.log.pop();
        }
        self.synced = self.synced.min(self.len());
    }

    /// Keeps what is unsettled, and of the rest what a claim must find.
    pub(super) fn compact(&mut self, rules: &Rules) {
        let settled: Vec<Intent> = self.intents(rules).into_iter().filter(|i| i.is_settled()).collect();
        self.log.retain(|r| !settled.iter().any(|i| i.key == r.key));
        self.origins.clear();
        if rules.compaction_keeps_origins {
            self.origins = settled.into_iter().map(Intent::as_an_origin).collect();
        }
        self.sync();
    }
}

impl Intent {
    fn claimed(record: &Record, place: u8) -> Intent {
        let Event::Claimed {
            contents,
            ruling,
            scope,
            by,
        } = record.event
        else {
            panic!("{record:?} is no claim")
        };
        let says_sending_follows = matches!(ruling, Some(Ruling::Allow) | None);
        Intent {
            key: record.key,
            contents,
            asked: ruling == Some(Ruling::Ask),
            stage: match ruling {
                Some(Ruling::Allow) | None => Stage::Open,
                Some(Ruling::Ask) => Stage::Parked,
                Some(Ruling::Deny) => Stage::Denied,
            },
            owner: by.filter(|_| says_sending_follows),
            says_sending_follows,
            cleared: false,
            refused_by_person: false,
            freed: false,
            claimed: record.at,
            first_send: says_sending_follows.then_some(record.at),
            last_send: record.at,
            scope,
            attempts: 0,
            unanswered: 0,
            doubt: false,
            rested: false,
            last: place + 1,
        }
    }

    /// The fold. Nothing that comes after an end vanishes.
    fn after(&mut self, record: &Record, place: u8, rules: &Rules) {
        self.last = place + 1;
        match record.event {
            Event::Claimed { .. } | Event::Hole | Event::Closed => {}
            Event::Ruled(Ruling::Allow) => {}
            Event::Ruled(Ruling::Ask) => (self.stage, self.owner) = (Stage::Parked, None),
            Event::Ruled(Ruling::Deny) => self.settled(Stage::Denied),
            Event::Approved => self.stage = Stage::Open,
            Event::Refused => {
                self.refused_by_person = true;
                self.settled(Stage::Denied);
            }
            Event::Cleared { scope } => self.cleared(scope, record.at),
            Event::Sent { attempt } => self.sent(attempt, record.at),
            Event::Observed { attempt, seen } => self.observed(attempt, seen),
            Event::Rested { attempts } => self.rested(attempts, rules),
            Event::Settled(stage) => self.settled(stage),
            Event::Review => self.settled(Stage::Review),
            Event::Abandoned => self.settled(Stage::Abandoned),
            Event::Freed => self.freed = true,
            Event::TakenOver { by } => self.taken_over(by, record.at),
        }
    }

    fn cleared(&mut self, scope: u8, at: Stamp) {
        self.cleared = true;
        self.scope = scope;
        self.first_send.get_or_insert(at);
        self.last_send = at;
    }

    fn sent(&mut self, attempt: u8, at: Stamp) {
        self.counted(attempt - 1);
        self.attempts = attempt;
        self.unanswered |= 1 << attempt;
        self.rested = false;
        self.last_send = at;
    }

    /// An attempt that was counted and can't be read may have done anything.
    fn counted(&mut self, made: u8) {
        if made > self.attempts {
            self.attempts = made;
            self.doubt = true;
        }
    }

    fn observed(&mut self, attempt: u8, seen: Seen) {
        self.counted(attempt - 1);
        self.attempts = self.attempts.max(attempt);
        self.unanswered &= !(1 << attempt);
        self.doubt |= seen == Seen::NoAnswer;
    }

    fn rested(&mut self, attempts: u8, rules: &Rules) {
        if rules.rested_counts_the_attempts {
            self.counted(attempts);
        }
        self.owner = None;
        self.rested = true;
    }

    fn settled(&mut self, stage: Stage) {
        self.owner = None;
        self.stage = match self.stage {
            // An outcome after a person's end.
            Stage::Abandoned => Stage::Review,
            Stage::Succeeded => Stage::Succeeded,
            _ => stage,
        };
    }

    /// R15: what the record says may have begun counts as one attempt without an answer.
    fn taken_over(&mut self, by: Option<Process>, at: Stamp) {
        self.doubt |= self.may_have_begun() || self.unanswered > 0;
        self.owner = by;
        self.rested = false;
        self.last_send = at;
    }

    fn as_an_origin(self) -> Intent {
        Intent { last: 0, ..self }
    }

    /// R2: a record says that bytes may leave.
    pub(super) fn may_have_begun(&self) -> bool {
        self.says_sending_follows || self.cleared
    }

    /// Whether, by what is written, an attempt may have had an effect that no answer tells of.
    pub(super) fn in_doubt(&self) -> bool {
        self.doubt || self.unanswered > 0
    }

    pub(super) fn is_settled(&self) -> bool {
        !matches!(self.stage, Stage::Parked | Stage::Open | Stage::Review)
    }

    pub(super) fn is_definite_no(&self) -> bool {
        matches!(self.stage, Stage::Rejected | Stage::Denied | Stage::Withdrawn)
    }

    /// R16: never sent, or every attempt of flights that ended in good order never left.
    pub(super) fn nothing_left(&self) -> bool {
        !self.may_have_begun() || (self.rested && !self.in_doubt())
    }
}
