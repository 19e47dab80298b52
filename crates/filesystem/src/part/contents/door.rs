//! The group of a volume's contents, as its primary uses it.

use consensus::{Group, ProposeError, ReadMode};
use net::BoxFuture;

use crate::data::copies::record::{Command, Record, RecordRefusal};
use crate::data::copies::reign::{CommitError, RecordDoor};

/// The group, on this node.
pub struct GroupDoor(pub Group<Record>);

impl GroupDoor {
    /// The term in which this node leads, after its record has caught up. None if it may not lead.
    pub async fn catch_up(&self) -> Option<u64> {
        self.0.read(ReadMode::Lease, |_| ()).await.ok()?;
        let status = self.0.status();
        status.is_leader.then_some(status.term.0)
    }
}

impl RecordDoor for GroupDoor {
    fn record(&self) -> Record {
        self.0.look(Record::clone)
    }

    fn commit(&self, command: Command) -> BoxFuture<'_, Result<Result<(), RecordRefusal>, CommitError>> {
        Box::pin(async move {
            match self.0.propose(&command).await {
                Ok((_, reply)) => Ok(reply),
                Err(ProposeError::NotLeader(_)) => Err(CommitError::NotLeader),
                Err(error) => {
                    tracing::debug!(%error, "a command about copies of files is proposed again");
                    Err(CommitError::Again)
                }
            }
        })
    }

    fn confirm(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(self.catch_up())
    }
}
