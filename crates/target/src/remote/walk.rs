//! A walk of a log on another node, page by page.

use types::Activation;

use crate::limits::{WALK_DEADLINE, WALK_PAUSE, WALK_TRIES};
use crate::log::{LogEvent, TargetFailure, WalkRange};
use crate::remote::{AskError, Link};
use crate::wire::{Ask, PageEvent, WalkPage, WalkRest};

/// A walk under way.
pub(crate) struct PagedWalk {
    link: Link,
    verify_payload: bool,
    /// What the next page is asked for; none behind the last one.
    next: Option<(WalkRange, Activation)>,
    page: Vec<PageEvent>,
    /// Events of the page that were given.
    given: usize,
}

impl PagedWalk {
    pub fn new(link: Link, range: WalkRange, verify_payload: bool) -> PagedWalk {
        let next = Some((range, Activation(u64::MAX)));
        PagedWalk { link, verify_payload, next, page: Vec::new(), given: 0 }
    }

    pub async fn next(&mut self) -> Result<Option<LogEvent<'_>>, TargetFailure> {
        while self.given == self.page.len() {
            let Some((range, until)) = self.next.take() else { return Ok(None) };
            let WalkPage { events, rest } = self.page(range, until).await?;
            self.next = rest.map(|WalkRest { from, until }| (WalkRange::From(from), until));
            (self.page, self.given) = (events, 0);
            // A page without anything is the last one, or the walk would never end.
            if self.page.is_empty() {
                self.next = None;
            }
        }
        self.given += 1;
        Ok(Some(self.page[self.given - 1].event(self.link.device)))
    }

    /// Asking twice does no harm.
    async fn page(&self, range: WalkRange, until: Activation) -> Result<WalkPage, AskError> {
        let ask = Ask::Walk { range, until, verify_payload: self.verify_payload };
        let mut tries = 1;
        loop {
            match self.link.ask(ask.clone(), WALK_DEADLINE).await {
                Err(AskError::Call(error)) if tries < WALK_TRIES => {
                    tracing::info!(device = self.link.device.0, %error, "a page of a walk is asked for again");
                    tries += 1;
                    self.link.env.sleep(WALK_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }
}
