//! Load generators and experiments.
