//! The search: breadth first, so that the first bad trace is a shortest one.

use super::{
    around::name,
    world::{Bounds, Key, Process, Rules, World},
};
use std::{
    collections::{HashSet, VecDeque},
    fmt,
    rc::Rc,
};

/// More are no test any more: they take more memory than a machine has to give away.
const STATES_AT_MOST: usize = 6_000_000;

/// The rules that hold, in a world of this size.
pub(super) struct Model {
    pub(super) rules: Rules,
    pub(super) bounds: Bounds,
}

pub(super) type Moves = Vec<(Step, World)>;

/// One line of a trace. `{p}`, `{k}` and `{n}` in the text stand for the process, the key and the number.
#[derive(Clone, Copy)]
pub(super) struct Step {
    text: &'static str,
    more: &'static str,
    who: Process,
    key: Key,
    n: u8,
}

impl Step {
    pub(super) fn new(text: &'static str) -> Step {
        Step {
            text,
            more: "",
            who: 0,
            key: 0,
            n: 0,
        }
    }

    pub(super) fn by(self, who: Process) -> Step {
        Step { who, ..self }
    }

    pub(super) fn of(self, key: Key) -> Step {
        Step { key, ..self }
    }

    pub(super) fn n(self, n: u8) -> Step {
        Step { n, ..self }
    }

    pub(super) fn more(self, more: &'static str) -> Step {
        Step { more, ..self }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = format!("{}{}", self.text, self.more);
        let line = line.replace("{p}", name(self.who)).replace("{k}", &format!("K{}", self.key));
        f.write_str(&line.replace("{n}", &self.n.to_string()))
    }
}

/// What must never be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bad {
    SecondOrder,
    Lie,
    NotAllowed,
    LostOrigin,
    Blocked,
    Stopped,
    /// A second order that no client can avoid. Looked for only to see that it is there.
    Unavoidable,
}

pub(super) const ANYTHING: &[Bad] = &[
    Bad::SecondOrder,
    Bad::Lie,
    Bad::NotAllowed,
    Bad::LostOrigin,
    Bad::Blocked,
    Bad::Stopped,
];

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bad::SecondOrder => "one order, registered twice",
            Bad::Lie => "somebody was told that nothing was registered, and it was",
            Bad::NotAllowed => "an order was sent that neither policy nor a person allowed",
            Bad::LostOrigin => "an order was sent, and the journal knows nothing of it",
            Bad::Blocked => "a process waits for an order on which nobody is at work, and nothing wakes it",
            Bad::Stopped => "a mere power cut, and the journal opens no more",
            Bad::Unavoidable => "one order, registered twice, and no client can avoid it",
        })
    }
}

/// How a search ended.
pub(super) struct Found {
    pub(super) states: usize,
    /// In how many of them the order is registered: a client that never sends does no harm either.
    pub(super) registered: usize,
    pub(super) trace: Option<Trace>,
}

pub(super) struct Trace {
    pub(super) bad: Bad,
    pub(super) steps: Vec<Step>,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in (1..).zip(&self.steps) {
            writeln!(f, "  {n:>2}. {step}")?;
        }
        write!(f, "  BAD: {}", self.bad)
    }
}

impl Model {
    /// Every state within the bounds, or the shortest way to one that is bad in a wanted way.
    pub(super) fn search(&self, wanted: &[Bad]) -> Found {
        let start = Rc::new(World::new(&self.bounds));
        let mut seen = HashSet::from([Rc::clone(&start)]);
        let mut ways: Vec<Option<(usize, Step)>> = vec![None];
        let mut queue = VecDeque::from([(0, start)]);
        let mut moves = Vec::new();
        let mut registered = 0;
        while let Some((from, world)) = queue.pop_front() {
            self.moves(&world, &mut moves);
            for (step, next) in moves.drain(..) {
                if seen.contains(&next) {
                    continue;
                }
                let at = ways.len();
                assert!(at < STATES_AT_MOST, "this world is too large: {STATES_AT_MOST} states, and no end");
                ways.push(Some((from, step)));
                registered += usize::from(!next.server.orders.is_empty());
                if let Some(bad) = wanted.iter().copied().find(|bad| self.is(&next, *bad)) {
                    let steps = way_to(at, &ways);
                    return Found {
                        states: at + 1,
                        registered,
                        trace: Some(Trace { bad, steps }),
                    };
                }
                let next = Rc::new(next);
                seen.insert(Rc::clone(&next));
                queue.push_back((at, next));
            }
        }
        Found {
            states: ways.len(),
            registered,
            trace: None,
        }
    }

    fn moves(&self, world: &World, moves: &mut Moves) {
        for process in 0..self.bounds.processes {
            self.process_moves(world, process, moves);
        }
        self.moves_around(world, moves);
    }

    fn is(&self, world: &World, bad: Bad) -> bool {
        let told = &world.told;
        let counts = |key: &&Key| told.excused & (1 << **key) == 0;
        match bad {
            Bad::SecondOrder => world.server.orders.iter().filter(counts).count() > 1,
            Bad::Lie => told.lied || world.server.orders.iter().filter(counts).any(|key| told.no & (1 << key) != 0),
            Bad::Unavoidable => world.server.orders.len() > 1,
            Bad::NotAllowed => told.unallowed,
            Bad::LostOrigin => self.lost_an_origin(world),
            Bad::Blocked => self.is_blocked(world),
            Bad::Stopped => world.left.damages == self.bounds.may.damages && world.disk.is_corrupt(&self.rules),
        }
    }

    /// Looked at only where the journal can be read.
    fn lost_an_origin(&self, world: &World) -> bool {
        if world.disk.missing || world.disk.lock.is_some() || world.disk.is_corrupt(&self.rules) {
            return false;
        }
        let known = world
            .disk
            .intents(&self.rules)
            .iter()
            .fold(0, |known, intent| known | (1_u8 << intent.key));
        world.told.sent & !known & !world.told.excused != 0
    }

    /// Who knew what to be on disk is kept only where a synced record can go bad.
    pub(super) fn keeps_witnesses(&self) -> bool {
        self.bounds.may.damages > 0
    }
}

fn way_to(end: usize, ways: &[Option<(usize, Step)>]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at = end;
    while let Some((from, step)) = ways[at] {
        steps.push(step);
        at = from;
    }
    steps.reverse();
    steps
}
