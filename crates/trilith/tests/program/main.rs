//! The program as its users run it: the real binary, its command line, its ports, its crashes.

mod admin;
mod bench;
mod buckets;
mod cluster;
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
mod options;
mod output;
mod pool;
mod ports;
mod remember;
mod server;
mod sync;
