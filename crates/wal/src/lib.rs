//! Group-commit log: preallocated recycled segments, a CRC per record, torn tail told from corruption.
