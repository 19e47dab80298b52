//! Why a request could not be decoded.

/// A request that does not add up. Where `unique` is not 0 the kernel waits for a reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("FUSE request {unique} with opcode {opcode}: {problem}")]
pub struct DecodeError {
    pub unique: u64,
    pub opcode: u32,
    pub problem: DecodeProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeProblem {
    #[error("this crate does not know the opcode")]
    UnknownOpcode,
    #[error("it ends before its last argument")]
    Truncated,
    #[error("its header says {said} bytes, and {read} were read")]
    Length { said: usize, read: usize },
    #[error("{bytes} bytes follow its last argument")]
    Trailing { bytes: usize },
    #[error("a name is empty or has no NUL at its end")]
    Name,
    #[error("the field `{field}` has the impossible value {value}")]
    Field { field: &'static str, value: u64 },
}
