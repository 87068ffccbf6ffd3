//! One-time tokens that prove the right to take part without saying who does.
