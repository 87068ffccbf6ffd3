//! What a coalition of the server and some devices can learn.
