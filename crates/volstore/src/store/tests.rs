mod conformance;
mod crash;
mod ordering;
mod space;
pub mod support;
