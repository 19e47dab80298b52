//! Requests of people that only the holder of an image can carry out, sent on to its node.

use super::control::Control;
use crate::protocol::{Asked, IMAGES, Told};
use bytes::Bytes;
use env::Instant;
use manager::NodeRecord;
use net::CallError;
use std::sync::Arc;

impl Control {
    /// The answer of the node that has the image open. None: this node carries the request out.
    pub async fn forward(&self, asked: &Asked, deadline: Instant) -> Result<Option<Told>, String> {
        let Some(image) = asked.ask.holder_of().filter(|_| !asked.is_forwarded) else { return Ok(None) };
        let record = self.opened.find(image).await?;
        let Some(node) = self.opened.holder_elsewhere(&record) else { return Ok(None) };
        match self.around.manager.snapshot().node(node) {
            Some(node) => self.ask_there(node, asked, deadline).await.map(Some),
            None => Ok(None),
        }
    }

    async fn ask_there(&self, node: &Arc<NodeRecord>, asked: &Asked, deadline: Instant) -> Result<Told, String> {
        let forwarded = Asked { is_forwarded: true, ask: asked.ask.clone() };
        let request = postcard::to_stdvec(&forwarded).map_err(|error| error.to_string())?;
        let answer = self.around.callers.to_node(node, IMAGES).call(Bytes::from(request), deadline).await;
        let answer = answer.map_err(|error| unanswered(&node.name, &error))?;
        let told = postcard::from_bytes(&answer);
        match told.map_err(|error| {
            format!("the answer of node {}, which has the image open, is not understood: {error}", node.name)
        })? {
            Told::Refused(reason) => Err(format!("node {}, which has the image open, says: {reason}", node.name)),
            told => Ok(told),
        }
    }
}

fn unanswered(name: &str, error: &CallError) -> String {
    let outcome = match error.is_definite() {
        true => "Nothing was done: try again",
        false => "Whether it was done is unknown: look, then try again",
    };
    format!("node {name} has the image open and did not answer: {error}. {outcome}")
}
