//! The object engine interface, its vocabulary and its conformance suite.
