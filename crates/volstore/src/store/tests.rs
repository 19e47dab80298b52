mod conformance;
mod crash;
mod space;
mod support;
