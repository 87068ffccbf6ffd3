//! Differential privacy: clipping, noise on integers, and the accounts of what was spent.
