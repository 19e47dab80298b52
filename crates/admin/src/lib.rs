//! Admin HTTP API, metrics and health.
