//! Playing a script: whose step it is, and what chance says. No clock and no randomness of the machine's comes in here.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use super::Script;
use super::situation::{Situation, Step, value};

/// Steps for some requests only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) when: When,
    pub(super) steps: VecDeque<Step>,
}

/// Which requests a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// The key that was met as the n-th, from 1.
    Order(usize),
    Key(String),
    Sometimes {
        millionths: u32,
    },
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(n) => write!(f, "order {n}"),
            Self::Key(key) => write!(f, "key {}", value(key)),
            Self::Sometimes { millionths } => match (millionths / 10_000, millionths % 10_000) {
                (whole, 0) => write!(f, "{whole}%"),
                (whole, part) => write!(f, "{whole}.{part:04}%"),
            },
        }
    }
}

/// A script on stage: what is left of it, and what it has met.
#[derive(Debug, Default)]
pub(crate) struct Performance {
    script: Script,
    requests: u64,
    /// Each key met, and as which one.
    keys: HashMap<String, usize>,
    /// The credentials that are not valid any more; a request without one has `None`.
    expired: Vec<Option<String>>,
}

/// What one request draws.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) situation: Step,
    /// How the ledger's clock is turned before, in milliseconds.
    pub(crate) clock: Vec<i64>,
    /// The steps as text; none when nothing was left to play.
    pub(crate) played: Option<String>,
}

impl Performance {
    pub(crate) fn of(script: Script) -> Self {
        Self { script, ..Self::default() }
    }

    /// What happens to the next request that carries an order: the first rule that is for it and has something left, else the sequence, else honesty.
    pub(crate) fn next(&mut self, key: Option<&str>) -> Turn {
        self.requests += 1;
        let known = self.keys.len();
        let order = key.map(|key| *self.keys.entry(key.to_owned()).or_insert(known + 1));
        let mut clock = Vec::new();
        let mut played = Vec::new();
        let mut drawn = None;
        for (place, rule) in self.script.rules.iter_mut().enumerate() {
            let applies = match &rule.when {
                When::Order(n) => order == Some(*n),
                When::Key(of) => key == Some(of),
                When::Sometimes { millionths } => chance(self.script.seed, place, self.requests) < u64::from(*millionths),
            };
            if !applies {
                continue;
            }
            drawn = match rule.when {
                When::Sometimes { .. } => rule.round().and_then(|step| clocked(step, &mut clock, &mut played)),
                _ => draw(&mut rule.steps, &mut clock, &mut played),
            };
            if drawn.is_some() {
                break;
            }
        }
        let drawn = drawn.or_else(|| draw(&mut self.script.sequence, &mut clock, &mut played));
        Turn {
            situation: drawn.unwrap_or_else(|| Step::new(Situation::Honest)),
            clock,
            played: (!played.is_empty()).then(|| played.join("; ")),
        }
    }

    pub(crate) fn expire(&mut self, credential: Option<&str>) {
        self.expired.push(credential.map(str::to_owned));
    }

    pub(crate) fn refuses(&self, credential: Option<&str>) -> bool {
        self.expired.iter().any(|expired| expired.as_deref() == credential)
    }

    /// How many steps never came up. What happens sometimes is never used up, and does not count.
    pub(crate) fn left(&self) -> usize {
        let finite = |rule: &&Rule| !matches!(rule.when, When::Sometimes { .. });
        let rules = self.script.rules.iter().filter(finite).map(|rule| rule.steps.len());
        self.script.sequence.len() + rules.sum::<usize>()
    }
}

impl Rule {
    /// The first step, which goes to the end of the line.
    fn round(&mut self) -> Option<Step> {
        let step = self.steps.front().cloned();
        if !self.steps.is_empty() {
            self.steps.rotate_left(1);
        }
        step
    }
}

/// The next step that takes up a request, over all turns of the clock in front of it.
fn draw(steps: &mut VecDeque<Step>, clock: &mut Vec<i64>, played: &mut Vec<String>) -> Option<Step> {
    while let Some(step) = steps.pop_front() {
        if let Some(step) = clocked(step, clock, played) {
            return Some(step);
        }
    }
    None
}

fn clocked(step: Step, clock: &mut Vec<i64>, played: &mut Vec<String>) -> Option<Step> {
    played.push(step.to_string());
    match *step {
        Situation::TurnClock(millis) => {
            clock.push(millis);
            None
        }
        _ => Some(step),
    }
}

/// A number below a million for this rule and this request: the same for ever, whatever other rules there are and whatever they do.
fn chance(seed: u64, rule: usize, request: u64) -> u64 {
    let series = splitmix(seed.wrapping_add(splitmix(rule as u64)));
    splitmix(series.wrapping_add(request)) % 1_000_000
}

/// SplitMix64: eight lines, no state, good enough to mix faults with.
fn splitmix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
