//! Objects as people know them: buckets, keys, multipart, conditions, policy.
