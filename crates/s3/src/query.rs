//! A request's query parameters, decoded.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::failure::{Failure, INVALID_URI};

/// Parameters in the order given. Of a repeated one the first counts.
#[derive(Debug, Default)]
pub struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    pub fn parse(query: Option<&'a str>) -> Result<Query<'a>, Failure> {
        let mut pairs = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(name)?, decode(value)?));
        }
        Ok(Query { pairs })
    }

    pub fn pairs(&self) -> &[(Cow<'a, str>, Cow<'a, str>)] {
        &self.pairs
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_ref())
    }

    /// The value, empty if it is absent.
    pub fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    /// A number from 0 to 2,147,483,647 (S3), if it is there.
    pub fn number(&self, name: &str) -> Result<Option<u32>, Failure> {
        let Some(text) = self.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let number = text.parse::<u32>().ok().filter(|number| i32::try_from(*number).is_ok());
        let refuse = || Failure::argument(format!("Provided {name} not an integer or within integer range"), name, text);
        number.map(Some).ok_or_else(refuse)
    }

    /// Whether any parameter's name is in `names`.
    pub fn has_any(&self, names: &[&str]) -> bool {
        self.pairs.iter().any(|(found, _)| names.contains(&found.as_ref()))
    }
}

fn decode(text: &str) -> Result<Cow<'_, str>, Failure> {
    let text = if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    if !text.contains('%') {
        return Ok(text);
    }
    let decoded = match &text {
        Cow::Borrowed(text) => percent_decode_str(text).decode_utf8(),
        Cow::Owned(text) => percent_decode_str(text).decode_utf8().map(|decoded| Cow::Owned(decoded.into_owned())),
    };
    decoded.map_err(|_| INVALID_URI.into())
}
