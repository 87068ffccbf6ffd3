//! Server, operators and devices as real processes over real sockets.

mod attack;
mod crash;
mod device_owner;
mod dropouts;
mod equality;
mod harness;
mod journey;
mod keeper;
mod uploads;
