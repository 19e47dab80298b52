//! Reading the few elements that S3's answers are asked for. The documents are flat and their elements have no attributes, so
//! they are searched, not parsed.

/// The text of the first element of this name.
pub fn element(xml: &str, name: &str) -> Option<String> {
    elements(xml, name).next().map(unescape)
}

/// What stands between the tags of each element of this name, in order. An element does not hold another of its name.
pub fn elements<'a>(xml: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        let start = rest.find(&open)? + open.len();
        let length = rest[start..].find(&close)?;
        let inner = &rest[start..start + length];
        rest = &rest[start + length + close.len()..];
        Some(inner)
    })
}

/// Text with its entities replaced by what they stand for; what is no entity stays.
pub fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        plain.push_str(&rest[..start]);
        rest = &rest[start..];
        let entity = rest.find(';').and_then(|end| Some((end, character(&rest[1..end])?)));
        match entity {
            Some((end, character)) => {
                plain.push(character);
                rest = &rest[end + 1..];
            }
            None => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn character(entity: &str) -> Option<char> {
    match entity {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        number => {
            let number = number.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}
