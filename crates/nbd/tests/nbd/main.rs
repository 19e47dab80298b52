//! The server over sockets and pipes: what clients are told, hostile clients, limits, stops, and real tools.

mod client;
mod memory;
mod scripted;

mod commands;
mod hooks;
mod hostile;
mod limits;
mod stop;
mod tools;
