//! Which node has an image open, and whether as a keeper.
//!
//! ```text
//!            open (expects none)
//!   closed ──────────────────────▶ held, token T ─┐ open (expects T): token T' > T
//!      ▲          close (T)            │    ▲     │
//!      ├───────────────────────────────┤    └─────┘
//!      └── unlock (T): token T' > T ───┘
//! ```
//!
//! A token is the index of the command that gave it, so it rises and none is given twice.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{ImageId, NodeId, Token};

use super::{ImageError, ImageHolder, ImageRecord, held, present, set};
use crate::operation::Operation;
use crate::snapshot::{CommandIndex, Edit};

/// Opens an image on a node. The image is to be closed, or `expected` is the token that it has: then its holder, if there is one, is over.
/// A keeper is over as soon as anything but a keeper opens the image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenImage {
    pub id: ImageId,
    pub node: NodeId,
    pub since_ms: u64,
    pub expected: Option<Token>,
    pub as_keeper: bool,
}

impl Operation for OpenImage {
    /// With the token of the new holder.
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, index: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let mut image = ImageRecord::clone(present(edit.state, self.id)?);
        if image.has_losses {
            return Err(ImageError::Losses);
        }
        if edit.state.node(self.node).is_none() {
            return Err(ImageError::NoSuchNode { node: self.node });
        }
        match (self.expected, image.holder) {
            (None, Some(ImageHolder { node, since_ms, is_keeper })) if self.as_keeper || !is_keeper => {
                return Err(ImageError::Held { node, token: image.token, since_ms });
            }
            (Some(expected), _) if expected != image.token => return Err(ImageError::OtherToken { found: image.token }),
            (None, _) | (Some(_), _) => {}
        }
        image.is_settled &= image.holder.is_none_or(ImageHolder::leaves_copies_equal);
        image.token = Token(index.0);
        image.holder = Some(ImageHolder { node: self.node, since_ms: self.since_ms, is_keeper: self.as_keeper });
        Ok(set(edit, image))
    }
}

/// The holder gives an image back, and says whether the copies of each blob are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseImage {
    pub id: ImageId,
    pub token: Token,
    pub is_settled: bool,
}

impl Operation for CloseImage {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let mut image = held(edit.state, self.id, self.token)?;
        image.holder = None;
        image.is_settled = self.is_settled;
        Ok(set(edit, image))
    }
}

/// Ends the holder with this token without asking it, for instance because its node is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnlockImage {
    pub id: ImageId,
    pub token: Token,
}

impl Operation for UnlockImage {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, index: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let mut image = held(edit.state, self.id, self.token)?;
        image.is_settled &= image.holder.is_none_or(ImageHolder::leaves_copies_equal);
        image.holder = None;
        image.token = Token(index.0);
        Ok(set(edit, image))
    }
}
