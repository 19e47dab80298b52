//! Options with data.

use super::fields::Fields;
use crate::protocol::{BASE_ALLOCATION, info, option};

/// `NBD_OPT_INFO` or `NBD_OPT_GO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoRequest {
    pub option: u32,
    /// As the client calls the export.
    pub name: String,
    pub wants_name: bool,
    pub wants_description: bool,
}

impl InfoRequest {
    /// Information that the server does not know is not asked for, says the protocol.
    pub fn decode(option: u32, data: &[u8]) -> Option<InfoRequest> {
        let mut fields = Fields(data);
        let name = fields.string()?.to_owned();
        let mut request = InfoRequest { option, name, wants_name: false, wants_description: false };
        for _ in 0..fields.u16()? {
            match fields.u16()? {
                info::NAME => request.wants_name = true,
                info::DESCRIPTION => request.wants_description = true,
                _ => {}
            }
        }
        fields.is_empty().then_some(request)
    }
}

/// `NBD_OPT_LIST_META_CONTEXT` or `NBD_OPT_SET_META_CONTEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaRequest {
    pub option: u32,
    /// As the client calls the export.
    pub name: String,
    /// Whether a query matches `base:allocation`.
    pub wants_allocation: bool,
}

impl MetaRequest {
    pub fn decode(option: u32, data: &[u8]) -> Result<MetaRequest, &'static str> {
        const MALFORMED: &str = "the data of this option is malformed";
        let is_list = option == option::LIST_META_CONTEXT;
        let mut fields = Fields(data);
        let name = fields.string().ok_or(MALFORMED)?.to_owned();
        let query_count = fields.u32().ok_or(MALFORMED)?;
        // A list without queries is a list of all.
        let mut wants_allocation = is_list && query_count == 0;
        for _ in 0..query_count {
            let query = fields.string().ok_or(MALFORMED)?;
            if !query.contains(':') {
                return Err("a query begins with a namespace and a colon");
            }
            // The namespace alone is a wildcard in lists, and selects nothing.
            wants_allocation |= query == BASE_ALLOCATION || is_list && query == "base:";
        }
        if !fields.is_empty() {
            return Err(MALFORMED);
        }
        Ok(MetaRequest { option, name, wants_allocation })
    }
}
