//! The program as its users run it: the real binary, its command line, its ports, its crashes.

mod admin;
mod buckets;
mod config;
mod crash;
mod credentials;
mod devices;
mod fsck;
mod http;
mod lifecycle;
mod linear;
mod listing;
mod objects;
mod remember;
mod server;
