//! Which holder of each image is admitted, and what holders have under way.
//!
//! Invariants: a pair of token and session never goes back; what a former pair has under way is counted until it has ended.

use std::collections::BTreeMap;

use types::{ImageId, Token};

use crate::stores::{Admission, StoreError};

/// A session of a holder. A later one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    token: Token,
    session: u32,
}

impl Pair {
    pub fn of(admission: &Admission) -> Pair {
        Pair { token: admission.token, session: admission.session }
    }
}

struct Holder {
    pair: Pair,
    /// Requests under way of this pair, and of those before it.
    own: usize,
    former: usize,
}

/// The holders, by image. They begin anew with each start of the node.
#[derive(Default)]
pub struct Entered {
    holders: BTreeMap<ImageId, Holder>,
}

impl Entered {
    /// Admits a holder and none before it.
    pub fn enter(&mut self, image: ImageId, pair: Pair) -> Result<(), StoreError> {
        let holder = self.holders.entry(image).or_insert(Holder { pair, own: 0, former: 0 });
        if pair < holder.pair {
            return Err(StoreError::Superseded);
        }
        if pair > holder.pair {
            *holder = Holder { pair, own: 0, former: holder.former + holder.own };
        }
        Ok(())
    }

    pub fn check(&self, image: ImageId, pair: Pair) -> Result<(), StoreError> {
        match self.holders.get(&image) {
            Some(holder) if holder.pair == pair => Ok(()),
            Some(holder) if pair < holder.pair => Err(StoreError::Superseded),
            _ => Err(StoreError::Unknown),
        }
    }

    /// Whether all that holders before the present one had under way has ended.
    pub fn is_drained(&self, image: ImageId) -> bool {
        self.holders.get(&image).is_none_or(|holder| holder.former == 0)
    }

    /// A request of the present holder.
    pub fn begin(&mut self, image: ImageId, pair: Pair) {
        let holder = self.holders.get_mut(&image).expect("it was checked");
        assert!(holder.pair == pair, "a request of a holder that is not admitted");
        holder.own += 1;
    }

    /// A request has ended; whether it was the last one of former holders.
    pub fn end(&mut self, image: ImageId, pair: Pair) -> bool {
        let holder = self.holders.get_mut(&image).expect("holders stay");
        if holder.pair == pair {
            holder.own -= 1;
            return false;
        }
        holder.former -= 1;
        holder.former == 0
    }
}
