//! One order's records, told one after another: what the audit reads. Nothing is decided here and nothing is written; what is told is durable
//! first (R21).

use super::{
    Journal, JournalError, Turn, claim, event_of,
    store::{Record, StoreError, StoreErrorKind},
};
use crate::{
    clock::Timestamp,
    future::BoxFuture,
    ids::IdempotencyKey,
    lifecycle::{Event, State},
};

/// One order's story, read whole under one turn and told record by record. What can't be read has its place in it too.
pub(crate) struct Story {
    records: std::vec::IntoIter<Record>,
    /// What is told before any record: that the claim is torn, or that nothing of the order can be read.
    gap: Option<StoreError>,
    /// The order after what was told; `None`: something of it can't be read, and may have changed anything.
    state: Option<State>,
}

/// One record of a story, or what is known in the place of one.
pub(crate) struct Told {
    /// When it was written; `None` where nothing of the order can be read.
    pub(crate) at: Option<Timestamp>,
    /// What happened, or why that can't be read.
    pub(crate) event: Result<Event, StoreError>,
}

impl Journal {
    /// Every order of the journal, oldest claim first, as one snapshot. A key alone says nothing that would have to be durable: its story is.
    pub(crate) async fn orders(&self) -> Result<Vec<IdempotencyKey>, JournalError> {
        Ok(self.store.orders().await?)
    }

    /// One order's story as it stands, durable before it is told; without a record where there is no such order.
    ///
    /// # Errors
    /// The journal as a whole can't answer. That this one order can't be read is part of its story.
    pub(crate) async fn story(&self, key: IdempotencyKey) -> Result<Story, JournalError> {
        let read = self
            .find(key, move |turn| Box::pin(async move { read(turn, key).await.map(Some) }))
            .await?;
        Ok(match read {
            Some(Ok(records)) => Story::of(records),
            Some(Err(gap)) => Story::lost(gap),
            None => Story::of(Vec::new()),
        })
    }
}

type Read = Result<Vec<Record>, StoreError>;

/// An archive that is gone, or damage in one, is this order's misfortune and no other's.
fn read(turn: &mut dyn Turn, key: IdempotencyKey) -> BoxFuture<'_, Result<Read, StoreError>> {
    Box::pin(async move {
        match turn.story(key).await {
            Err(error) if matches!(error.kind(), StoreErrorKind::Poisoned | StoreErrorKind::Closed) => Err(error),
            read => Ok(read),
        }
    })
}

impl Story {
    fn of(records: Vec<Record>) -> Self {
        let torn = records.first().is_some_and(|first| first.columns.is_none());
        let gap = torn.then(|| claim::fold(&records).err()).flatten();
        Story {
            state: gap.is_none().then(State::new),
            records: records.into_iter(),
            gap,
        }
    }

    fn lost(gap: StoreError) -> Self {
        Story {
            records: Vec::new().into_iter(),
            gap: Some(gap),
            state: None,
        }
    }

    /// The next record, in the order in which they were written.
    pub(crate) fn next(&mut self) -> Option<Told> {
        if let Some(gap) = self.gap.take() {
            return Some(Told {
                at: self.records.as_slice().first().map(|first| first.at),
                event: Err(gap),
            });
        }
        let record = self.records.next()?;
        let event = event_of(&record);
        let state = self.state.take();
        if let Ok(event) = &event {
            self.state = state.map(|state| state.after(event, record.at));
        }
        Some(Told {
            at: Some(record.at),
            event,
        })
    }

    /// The order after what was told last, by its records alone; `None`: something of it can't be read.
    pub(crate) fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }
}
