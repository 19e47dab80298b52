mod conformance;
mod crash;
mod failures;
mod ordering;
mod space;
pub mod support;
