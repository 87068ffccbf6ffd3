//! Secure aggregation: the server learns the sum of a round and nothing else.
