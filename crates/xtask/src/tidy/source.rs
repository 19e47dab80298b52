//! Rust text made safe to search: comments and literals blanked, test code told from product code.
//!
//! A search for `unsafe` must not find the word in a comment, and a rule for product code must not fire inside
//! `#[cfg(test)]`. Masking keeps every byte's line, so that a finding can name the line of the original.

use std::collections::BTreeSet;

/// One Rust file of the repository.
pub struct SourceFile {
    /// Path relative to the repository root, with forward slashes.
    pub path: String,
    pub text: String,
    /// The text with the contents of comments and literals replaced by spaces.
    pub masked: String,
    /// `masked` with test code replaced by spaces too; all spaces for a file that holds only tests.
    pub product: String,
}

impl SourceFile {
    /// The crate that the file belongs to: `fuzz`, or the folder below `crates/`.
    pub fn crate_name(&self) -> &str {
        let mut parts = self.path.split('/');
        match (parts.next(), parts.next()) {
            (Some("crates"), Some(name)) => name,
            (Some(top), _) => top,
            (None, _) => "",
        }
    }

    /// Whether the file is the root of a library or a program.
    pub fn is_crate_root(&self) -> bool {
        let mut parts = self.path.split('/').skip(2);
        parts.next() == Some("src") && matches!(parts.next(), Some("lib.rs" | "main.rs")) && parts.next().is_none()
    }

    pub fn is_test_only(&self) -> bool {
        self.product.trim().is_empty() && !self.masked.trim().is_empty()
    }

    /// Lines outside test code that hold something; comments count, for they are read too.
    pub fn product_lines(&self) -> usize {
        if self.is_test_only() {
            return 0;
        }
        let test_lines = self.masked.lines().zip(self.product.lines()).filter(|(all, product)| all != product).count();
        self.text.lines().count() - test_lines
    }
}

/// Masks all files and finds out which of them are tests: by folder, by name, or because their parent declares them so.
pub fn load(texts: Vec<(String, String)>) -> Vec<SourceFile> {
    let mut files: Vec<SourceFile> = texts
        .into_iter()
        .map(|(path, text)| {
            let masked = mask(&text);
            let product = without_tests(&masked);
            SourceFile { path, text, masked, product }
        })
        .collect();
    let test_modules: BTreeSet<String> = files.iter().flat_map(test_modules_of).collect();
    for file in &mut files {
        if is_test_path(&file.path) || belongs_to(&file.path, &test_modules) {
            file.product = blank(&file.masked);
        }
    }
    files
}

fn is_test_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "tests.rs" || name.ends_with("_tests.rs") || path.split('/').any(|part| part == "tests" || part == "benches")
}

/// The paths, without `.rs`, of the modules that a file declares as `#[cfg(test)] mod name;`.
fn test_modules_of(file: &SourceFile) -> Vec<String> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let own_folder = match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => format!("{folder}/{}", name.trim_end_matches(".rs")),
    };
    let mut found = Vec::new();
    for (start, end) in test_regions(&file.masked) {
        let region = &file.masked[start..end];
        if let Some((_, after)) = region.split_once("mod ")
            && let Some(name) = after.trim().strip_suffix(';')
        {
            found.push(format!("{own_folder}/{}", name.trim()));
        }
    }
    found
}

fn belongs_to(path: &str, modules: &BTreeSet<String>) -> bool {
    let stem = path.trim_end_matches(".rs");
    modules.iter().any(|module| stem == module || stem.starts_with(&format!("{module}/")))
}

/// Replaces everything but line ends by spaces.
fn blank(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect()
}

fn without_tests(masked: &str) -> String {
    let mut product = String::with_capacity(masked.len());
    let mut done = 0;
    for (start, end) in test_regions(masked) {
        product.push_str(&masked[done..start]);
        product.push_str(&blank(&masked[start..end]));
        done = end;
    }
    product.push_str(&masked[done..]);
    product
}

/// Byte ranges of the items under `#[cfg(test)]`: from the attribute to the end of the item, which is a `;` or the brace
/// that closes its body.
fn test_regions(masked: &str) -> Vec<(usize, usize)> {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let mut regions = Vec::new();
    let mut from = 0;
    while let Some(found) = masked[from..].find(ATTRIBUTE) {
        let start = from + found;
        let end = item_end(masked, start + ATTRIBUTE.len());
        regions.push((start, end));
        from = end;
    }
    regions
}

fn item_end(masked: &str, start: usize) -> usize {
    let mut depth = 0usize;
    for (offset, byte) in masked.bytes().enumerate().skip(start) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && byte == b'}' {
                    return offset + 1;
                }
            }
            b';' if depth == 0 => return offset + 1,
            _ => {}
        }
    }
    masked.len()
}

/// Replaces the contents of comments, strings and character literals by spaces; line ends stay.
pub fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = vec![b' '; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end > at {
            at = end;
            continue;
        }
        // Identifiers are copied whole, so that the `r` of `for` or the `b` of `web` never opens a literal.
        let start = at;
        while at < bytes.len() && is_word(bytes[at]) {
            at += 1;
        }
        let end = at.max(start + 1);
        out[start..end].copy_from_slice(&bytes[start..end]);
        at = end;
    }
    for (masked, original) in out.iter_mut().zip(bytes) {
        if *original == b'\n' {
            *masked = b'\n';
        }
    }
    // A multi-byte character is either copied whole (byte by byte) or blanked whole, so this is UTF-8 again.
    String::from_utf8(out).unwrap_or_default()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return at + block_comment_length(rest);
    }
    let prefix =
        [&b"br"[..], b"cr", b"r", b"b", b"c"].into_iter().find(|prefix| starts_literal(rest, prefix)).map_or(0, <[u8]>::len);
    let raw = rest[..prefix].contains(&b'r');
    let body = &rest[prefix..];
    match body.first() {
        Some(b'"' | b'#') if raw => at + prefix + raw_string_length(body),
        Some(b'"') => at + prefix + quoted_length(body, b'"'),
        Some(b'\'') if prefix > 0 || is_char_literal(body) => at + prefix + quoted_length(body, b'\''),
        _ => at,
    }
}

/// Whether `rest` is a literal with this prefix: `r"`, `r#"`, `b"`, `b'` …; `r#type` is an identifier, not a literal.
fn starts_literal(rest: &[u8], prefix: &[u8]) -> bool {
    let Some(body) = rest.strip_prefix(prefix) else { return false };
    match body.first() {
        Some(b'"') => true,
        Some(b'\'') => prefix == b"b",
        Some(b'#') => prefix.contains(&b'r') && body.iter().find(|byte| **byte != b'#') == Some(&b'"'),
        _ => false,
    }
}

/// Tells `'a'` and `'\n'` from the lifetime `'a`.
fn is_char_literal(body: &[u8]) -> bool {
    match body.get(1) {
        Some(b'\\') => true,
        Some(first) if *first >= 0x80 => body.iter().skip(2).take(4).any(|byte| *byte == b'\''),
        Some(_) => body.get(2) == Some(&b'\''),
        None => false,
    }
}

fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn raw_string_length(body: &[u8]) -> usize {
    let hashes = body.iter().take_while(|byte| **byte == b'#').count();
    let mut closing = vec![b'"'];
    closing.resize(hashes + 1, b'#');
    let start = hashes + 1;
    let found = body.get(start..).and_then(|inner| inner.windows(closing.len()).position(|window| window == closing));
    found.map_or(body.len(), |position| start + position + closing.len())
}

fn quoted_length(body: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < body.len() {
        match body[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    body.len()
}

/// The line (from 1) of a byte offset.
pub fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].bytes().filter(|byte| *byte == b'\n').count() + 1
}

/// Byte offsets at which `word` stands alone in masked text.
pub fn find_word(masked: &str, word: &str) -> Vec<usize> {
    let bytes = masked.as_bytes();
    let mut found = Vec::new();
    for (offset, _) in masked.match_indices(word) {
        let before = offset.checked_sub(1).is_some_and(|i| is_word(bytes[i]));
        let after = bytes.get(offset + word.len()).is_some_and(|byte| is_word(*byte));
        if !before && !after {
            found.push(offset);
        }
    }
    found
}

#[cfg(test)]
mod tests;
