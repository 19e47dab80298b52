//! The shell around the machine: what runs its steps, carries its messages, and moves a gateway through the views of its cell (RFD 5).
//!
//! ```text
//!   keys ── step ──► machine ──► outputs ──┬─ under the shard's lock: names, items for other gateways (peers)
//!                                          └─ without it: dispatch, acknowledge, answer
//!   hear: items of other gateways ──► step │ follow (what changes places) │ epoch │ questions
//!   install: a newer view    recover: what a removed gateway left    join: the maps of a gateway that comes
//! ```
//!
//! A gateway without other gateways, as in a single process, has no [`Member`]: it sends nothing, needs no lease, and appends all
//! copies at once.

mod depose;
mod epoch;
mod follow;
mod hear;
mod install;
mod join;
mod keys;
mod lease;
mod member;
mod question;
mod reading;
mod recover;
mod release;
mod settle;
mod step;

pub use install::CellView;
pub use member::{MemberSetup, MemberStatus};

pub(crate) use keys::{Keys, Op};
pub(crate) use member::Member;
pub(crate) use release::{OWNERS_PER_QUESTION, Readers};
