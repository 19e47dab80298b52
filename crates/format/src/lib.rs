//! Every durable and wire record: layout, version, encode, decode, golden bytes.
