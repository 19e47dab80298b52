//! The client's errors as errno: here, and nowhere else.

use filesystem::client::ClientError;
use filesystem::data::DataError;
use filesystem::meta::MetaError;
use fuse::Errno;

/// What a call on the mount fails with. What says that something is broken is noted in the log, since EIO does not say what.
pub fn errno(error: &ClientError) -> Errno {
    if error.is_failure() {
        tracing::warn!(%error, "a call on a mount failed");
    }
    match error {
        ClientError::Meta(error) => of_meta(*error),
        ClientError::Data(DataError::Full) => Errno::NOSPC,
        ClientError::Invalid(_) => Errno::INVAL,
        ClientError::Unsupported(_) => Errno::OPNOTSUPP,
        ClientError::BeyondTheEnd => Errno::NXIO,
        ClientError::TooManyOpenFiles => Errno::NFILE,
        ClientError::Interrupted => Errno::INTR,
        ClientError::Deadlock => Errno::DEADLK,
        ClientError::LeaseOver
        | ClientError::MetaCall(_)
        | ClientError::Data(_)
        | ClientError::Short { .. }
        | ClientError::Record(_)
        | ClientError::Unexpected(_) => Errno::IO,
    }
}

fn of_meta(error: MetaError) -> Errno {
    match error {
        MetaError::NotFound => Errno::NOENT,
        MetaError::Stale => Errno::STALE,
        MetaError::Exists | MetaError::XattrExists => Errno::EXIST,
        MetaError::NotDirectory => Errno::NOTDIR,
        MetaError::IsDirectory => Errno::ISDIR,
        MetaError::NotEmpty => Errno::NOTEMPTY,
        MetaError::NameLength => Errno::NAMETOOLONG,
        MetaError::TooManyLinks => Errno::MLINK,
        MetaError::Below | MetaError::Invalid => Errno::INVAL,
        MetaError::FileTooLong | MetaError::TooManyKeys => Errno::FBIG,
        MetaError::NoXattr => Errno::NODATA,
        MetaError::XattrRoom => Errno::NOSPC,
        MetaError::Quota => Errno::DQUOT,
        MetaError::NotAllowed => Errno::PERM,
        MetaError::Locked => Errno::AGAIN,
        MetaError::TooManyLocks => Errno::NOLCK,
        MetaError::InUse | MetaError::HeldAlone => Errno::BUSY,
        MetaError::LocksLost
        | MetaError::Changed
        | MetaError::NoSession
        | MetaError::TooManySessions
        | MetaError::TooManyCommands
        // Leaders keep these to themselves.
        | MetaError::Busy
        | MetaError::Across
        | MetaError::SameInode => Errno::IO,
    }
}
