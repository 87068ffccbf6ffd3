//! Audiences over HTTP: what advertisers learn, what devices say, and what nobody can find out.

mod town;
mod whole;
