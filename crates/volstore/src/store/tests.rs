mod conformance;
mod crash;
mod space;
pub mod support;
