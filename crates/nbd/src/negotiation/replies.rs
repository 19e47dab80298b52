//! Replies to options.

use bytes::{BufMut, BytesMut};

use super::option::InfoRequest;
use crate::export::ExportFacts;
use crate::limits::{MAX_PAYLOAD_BYTES, MINIMUM_BLOCK_BYTES, PREFERRED_BLOCK_BYTES};
use crate::protocol::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, EXPORT_NAME_ZEROES, OPTION_REPLY_MAGIC, info, option, option_reply,
};
use crate::reply::message;

const HEADER_BYTES: usize = 20;

pub fn header(out: &mut BytesMut, option: u32, reply: u32, length: usize) {
    out.reserve(HEADER_BYTES + length);
    out.put_u64(OPTION_REPLY_MAGIC);
    out.put_u32(option);
    out.put_u32(reply);
    out.put_u32(length as u32);
}

pub fn error(out: &mut BytesMut, option: u32, error: u32, why: &str) {
    let why = message(why);
    header(out, option, error, why.len());
    out.put_slice(why.as_bytes());
}

/// Bytes of [`server`].
pub fn server_bytes(name: usize, description: usize) -> usize {
    HEADER_BYTES + 4 + name + description
}

/// One entry of a list.
pub fn server(out: &mut BytesMut, name: &str, description: &str) {
    let description = message(description);
    header(out, option::LIST, option_reply::SERVER, 4 + name.len() + description.len());
    out.put_u32(name.len() as u32);
    out.put_slice(name.as_bytes());
    out.put_slice(description.as_bytes());
}

pub fn meta_context(out: &mut BytesMut, option: u32, is_set: bool) {
    header(out, option, option_reply::META_CONTEXT, 4 + BASE_ALLOCATION.len());
    out.put_u32(if is_set { BASE_ALLOCATION_ID } else { 0 });
    out.put_slice(BASE_ALLOCATION.as_bytes());
}

/// What a client learns by `NBD_OPT_INFO` and `NBD_OPT_GO`. Block sizes are sent unasked, too: they are not the defaults.
pub fn information(out: &mut BytesMut, request: &InfoRequest, name: &str, facts: &ExportFacts, flags: u16) {
    let option = request.option;
    header(out, option, option_reply::INFO, 12);
    out.put_u16(info::EXPORT);
    out.put_u64(facts.size_bytes);
    out.put_u16(flags);
    header(out, option, option_reply::INFO, 14);
    out.put_u16(info::BLOCK_SIZE);
    out.put_u32(MINIMUM_BLOCK_BYTES);
    out.put_u32(PREFERRED_BLOCK_BYTES);
    out.put_u32(MAX_PAYLOAD_BYTES);
    if request.wants_name {
        text(out, option, info::NAME, name);
    }
    if request.wants_description && !facts.description.is_empty() {
        text(out, option, info::DESCRIPTION, message(&facts.description));
    }
}

/// The reply to `NBD_OPT_EXPORT_NAME`.
pub fn export_name(out: &mut BytesMut, size_bytes: u64, flags: u16, leaves_zeroes_out: bool) {
    out.put_u64(size_bytes);
    out.put_u16(flags);
    if !leaves_zeroes_out {
        out.put_bytes(0, EXPORT_NAME_ZEROES);
    }
}

fn text(out: &mut BytesMut, option: u32, kind: u16, text: &str) {
    header(out, option, option_reply::INFO, 2 + text.len());
    out.put_u16(kind);
    out.put_slice(text.as_bytes());
}
