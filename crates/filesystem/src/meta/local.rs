//! A tree in this process's memory, which nothing replicates: for tests and checks.

use net::BoxFuture;
use parking_lot::Mutex;

use super::{Answer, Envelope, Machine, MetaCallError, MetaPartition, Query, Reply};

/// A machine behind a lock.
#[derive(Default)]
pub struct LocalPartition(pub Mutex<Machine>);

impl MetaPartition for LocalPartition {
    fn command(&self, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        let reply = self.0.lock().carry_out(&envelope);
        Box::pin(std::future::ready(Ok(reply)))
    }

    fn query(&self, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        let answer = self.0.lock().query(&query);
        Box::pin(std::future::ready(Ok(answer)))
    }
}
