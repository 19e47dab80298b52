//! Serves one device: fences, deadlines, drain.
