//! Ids, newtypes, limits and error kinds shared by every crate.
