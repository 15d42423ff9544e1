//! The journal's own thread. It gathers what waits, has it decided and written under one lock, syncs once, and answers.

use super::{
    book::Book,
    compact::{self, Copied},
};
use crate::{
    clock::monotonic,
    ids::IdempotencyKey,
    journal::store::{Committed, Compaction, Decide, Mark, Record, StoreError, StoreErrorKind},
};
use std::{
    panic::AssertUnwindSafe,
    sync::{
        Weak,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::Duration,
};
use tokio::{sync::oneshot, time::Instant};

/// What is written but not yet durable waits no longer than this for the disk.
const SYNC_WITHIN: Duration = Duration::from_millis(100);

/// How many turns are decided under one lock. Others wait for it meanwhile.
const AT_ONCE: usize = 4096;

/// How often the processor is given away without anybody coming.
const PATIENCE: u32 = 16;

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the thread is asked to do.
pub(super) enum Job {
    Turn(Decide, Reply<Mark>),
    Commit(Decide, Reply<Committed>),
    Durable(Mark, Reply<()>),
    Story(IdempotencyKey, Reply<Vec<Record>>),
    Unsettled(Option<IdempotencyKey>, usize, Reply<Vec<IdempotencyKey>>),
    Orders(Reply<Vec<IdempotencyKey>>),
    /// Read what others appended.
    Look(Reply<Mark>),
    Compact(Reply<Compaction>),
    /// The copy is made; nobody may be told how it went.
    Swap(Box<Result<Copied, StoreError>>, Option<Reply<Compaction>>),
    Close(Reply<()>),
}

/// Who is told of a turn, and when.
enum Told {
    Written(Reply<Mark>),
    Durable(Reply<Committed>),
}

/// What a round owes: turns that are not decided yet, and answers that wait for the disk.
#[derive(Default)]
struct Round {
    decisions: Vec<Decide>,
    told: Vec<Told>,
    waiting: Vec<(Mark, Owed)>,
}

enum Owed {
    Committed(Reply<Committed>),
    Durable(Reply<()>),
}

pub(super) struct Desk {
    book: Book,
    /// To hand ourselves the copy that another thread makes.
    jobs: Weak<Sender<Job>>,
    /// The last peace and quiet ended in an error: not tried again before there is something to do.
    vexed: bool,
    compacting: bool,
    /// How many were answered after the last sync: they are about to ask again.
    answered: usize,
    /// Compaction was tried: not again before the log is as long as this.
    not_before: u64,
    /// When what is not durable yet has waited long enough.
    due: Option<Instant>,
}

impl Desk {
    pub(super) fn new(book: Book, jobs: Weak<Sender<Job>>) -> Self {
        Desk {
            book,
            jobs,
            vexed: false,
            compacting: false,
            answered: 0,
            not_before: 0,
            due: None,
        }
    }

    /// The thread's life: until nobody is left who could ask.
    pub(super) fn serve(mut self, jobs: &Receiver<Job>) {
        loop {
            let next = match self.time_left() {
                // Nothing to make durable: nothing to wake up for.
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(Duration::ZERO) => Err(RecvTimeoutError::Timeout),
                Some(left) => jobs.recv_timeout(left),
            };
            match next {
                Ok(first) => self.round(gather(first, self.answered, jobs)),
                Err(RecvTimeoutError::Timeout) => self.rest(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.rest();
        self.book.give_up_ownership();
    }

    /// Until what is not durable has to be, however many come and ask meanwhile.
    fn time_left(&mut self) -> Option<Duration> {
        if self.vexed || self.book.settled() {
            self.due = None;
            return None;
        }
        let now = monotonic();
        Some(self.due.get_or_insert(now + SYNC_WITHIN).saturating_duration_since(now))
    }

    /// In the order in which they were handed over.
    fn round(&mut self, jobs: Vec<Job>) {
        // A mere look is nothing to do.
        self.vexed &= jobs.iter().all(|job| matches!(job, Job::Look(_)));
        let mut round = Round::default();
        for job in jobs {
            match job {
                Job::Turn(decide, reply) => round.add(decide, Told::Written(reply)),
                Job::Commit(decide, reply) => round.add(decide, Told::Durable(reply)),
                Job::Durable(mark, reply) => round.waiting.push((mark, Owed::Durable(reply))),
                other => {
                    self.decide(&mut round);
                    self.other(other, &mut round);
                }
            }
        }
        self.decide(&mut round);
        self.answer(&mut round);
        self.compact_in_time();
    }

    /// Nobody may wait for an answer any more: the work stands all the same.
    fn other(&mut self, job: Job, round: &mut Round) {
        match job {
            Job::Story(key, reply) => {
                let story = self.book.look().and_then(|_| self.book.story(key));
                drop(reply.send(story));
            }
            Job::Unsettled(after, limit, reply) => {
                let keys = self.book.look().map(|_| self.book.index.unsettled(after, limit));
                drop(reply.send(keys));
            }
            Job::Orders(reply) => {
                let keys = self.book.look().and_then(|_| self.book.orders());
                drop(reply.send(keys));
            }
            Job::Look(reply) => drop(reply.send(self.book.look())),
            Job::Compact(reply) => self.compact(Some(reply)),
            Job::Swap(copied, reply) => self.swap(*copied, reply),
            Job::Close(reply) => {
                self.answer(round);
                drop(reply.send(self.book.close()));
            }
            Job::Turn(..) | Job::Commit(..) | Job::Durable(..) => {}
        }
    }

    /// Every turn that waits, under one lock and in one write.
    fn decide(&mut self, round: &mut Round) {
        let decisions = std::mem::take(&mut round.decisions);
        if decisions.is_empty() {
            return;
        }
        let (decided, failed) = match self.book.turns(decisions) {
            Ok(decided) => (decided, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let results = decided.into_iter().map(Some).chain(std::iter::repeat(None));
        for (told, result) in std::mem::take(&mut round.told).into_iter().zip(results) {
            let result = result.unwrap_or_else(|| Err(failed.clone().unwrap_or_else(crate::journal::memory::closed)));
            match (told, result) {
                (Told::Written(reply), result) => drop(reply.send(result)),
                (Told::Durable(reply), Ok(mark)) => round.waiting.push((mark, Owed::Committed(reply))),
                (Told::Durable(reply), Err(error)) => drop(reply.send(Err(error))),
            }
        }
    }

    /// One sync for everybody who waits for one.
    fn answer(&mut self, round: &mut Round) {
        self.answered = round.waiting.len();
        let Some(upto) = round.waiting.iter().map(|(mark, _)| *mark).max() else {
            return;
        };
        let durable = self.book.durable(upto);
        // All of it: nothing has waited yet.
        if self.book.synced >= self.book.len {
            self.due = None;
        }
        for (mark, owed) in round.waiting.drain(..) {
            match owed {
                Owed::Durable(reply) => drop(reply.send(durable.clone())),
                Owed::Committed(reply) => drop(reply.send(Ok(Committed {
                    mark,
                    durable: durable.clone(),
                }))),
            }
        }
    }

    /// Nothing to do: make durable what is not.
    fn rest(&mut self) {
        self.due = None;
        if self.vexed || self.book.settled() {
            return;
        }
        if let Err(error) = self.book.settle() {
            self.vexed = true;
            tracing::error!(%error, "the journal could not be made durable");
        }
    }

    /// A log that was compacted, by whomever, has to double before it is worth the while again.
    fn compact_in_time(&mut self) {
        let doubled = self.book.compacted.saturating_mul(2);
        let enough = self.book.files.options.compact_at.max(doubled).max(self.not_before);
        if self.book.len >= enough && !self.compacting && self.book.sound().is_ok() {
            // Whatever comes of it, not again at once.
            self.not_before = self.book.len.saturating_mul(2);
            self.compact(None);
        }
    }

    /// Has a copy made by a thread of its own; this one goes on writing.
    fn compact(&mut self, reply: Option<Reply<Compaction>>) {
        let plan = match self.compacting {
            true => Err(compact::busy(&self.book.files.folder)),
            false => compact::plan(&mut self.book),
        };
        let plan = match plan {
            Ok(Some(plan)) => plan,
            Ok(None) => return tell(reply, Ok(compact::nothing(&self.book))),
            Err(error) => return tell(reply, Err(error)),
        };
        let jobs = Weak::clone(&self.jobs);
        let copying = move || {
            // A caller's clock may panic in it.
            let copied = std::panic::catch_unwind(AssertUnwindSafe(|| compact::copy(plan)));
            let copied =
                copied.unwrap_or_else(|_| Err(StoreError::new(StoreErrorKind::Refused, "compaction panicked; nothing was changed")));
            // Gone meanwhile: the copy is left over, and the next compaction clears it away.
            if let Some(jobs) = jobs.upgrade() {
                drop(jobs.send(Job::Swap(Box::new(copied), reply)));
            }
        };
        let thread = std::thread::Builder::new().name("uketsuke-compact".to_owned());
        self.compacting = thread.spawn(copying).is_ok();
    }

    fn swap(&mut self, copied: Result<Copied, StoreError>, reply: Option<Reply<Compaction>>) {
        self.compacting = false;
        let done = copied.and_then(|copied| compact::swap(&mut self.book, copied));
        if done.is_ok() {
            self.not_before = 0;
        }
        tell(reply, done);
    }
}

fn tell(reply: Option<Reply<Compaction>>, done: Result<Compaction, StoreError>) {
    match (reply, done) {
        (Some(reply), done) => drop(reply.send(done)),
        (None, Ok(done)) => tracing::info!(
            moved = done.moved,
            before = done.before,
            after = done.after,
            "the journal was compacted"
        ),
        // Another process is at it.
        (None, Err(error)) if error.kind() == StoreErrorKind::Busy => {}
        (None, Err(error)) => tracing::warn!(%error, "the journal could not be compacted; it goes on as it is"),
    }
}

impl Round {
    fn add(&mut self, decide: Decide, told: Told) {
        self.decisions.push(decide);
        self.told.push(told);
    }
}

/// All that waits. Those who were just answered are about to ask again: they get the processor first, for a moment, as a sync takes longer than
/// that and would be had by those who came first alone.
fn gather(first: Job, expected: usize, jobs: &Receiver<Job>) -> Vec<Job> {
    let mut gathered = vec![first];
    let mut nobody_came = 0;
    loop {
        let had = gathered.len();
        gathered.extend(jobs.try_iter().take(AT_ONCE.saturating_sub(had)));
        nobody_came = if gathered.len() == had { nobody_came + 1 } else { 0 };
        if gathered.len() >= expected.min(AT_ONCE) || nobody_came > PATIENCE {
            return gathered;
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::SystemClock, disk::RealDisk, journal::file::Options};
    use std::sync::Arc;

    fn book(folder: &std::path::Path) -> Book {
        let (disk, clock) = (Arc::new(RealDisk), Arc::new(SystemClock));
        super::super::open_book(folder, disk, clock, Options::default(), Arc::default())
            .unwrap()
            .0
    }

    /// Two that wait for news, and look again and again: neither has anything to say to what the other said last.
    #[test]
    fn two_idle_processes_come_to_rest() {
        let folder = tempfile::tempdir().unwrap();
        let mut books = [book(folder.path()), book(folder.path())];
        let mut lengths = Vec::new();
        for _ in 0..6 {
            for book in &mut books {
                book.look().unwrap();
                if !book.settled() {
                    book.settle().unwrap();
                }
                lengths.push(book.len);
            }
        }
        assert_eq!(lengths[4..], vec![lengths[4]; 8], "{lengths:?}");
        assert!(books.iter().all(Book::settled));
    }
}
