//! Updates as vectors of integers of one length, whoever sends them: what noise is added to and what seals wrap.
