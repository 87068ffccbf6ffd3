//! Server, operators and devices as real processes over real sockets.

#[path = "../common/mod.rs"]
mod common;
mod crash;
mod dropouts;
mod equality;
mod harness;
mod journey;
mod uploads;
