//! The manager's state machine: devices, buckets, credentials, checkpoint manifests.
