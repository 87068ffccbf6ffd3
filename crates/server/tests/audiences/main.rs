//! Audiences over HTTP: what advertisers learn, what devices say, and what nobody can find out.

mod budget;
mod differencing;
mod restart;
mod rotations;
mod town;
mod whole;
