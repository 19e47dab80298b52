//! The client: what a mount asks, made into commands of meta partitions and requests of data partitions.
