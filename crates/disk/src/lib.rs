//! Aligned raw I/O on block devices and files; the simulated disk.
