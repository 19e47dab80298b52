//! Clock, randomness and task spawning: real and simulated.
