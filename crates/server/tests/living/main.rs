//! A federation that lives: devices that come late, more rounds, schedules, other settings, archives, operators' acts.

mod late;
mod operators;
mod rounds;
mod scene;
