//! What test runners say of the tests that failed, taken from among all that they write.
//!
//! A log that keeps its end only would lose it: steps that run later write thousands of lines.

use std::collections::VecDeque;

/// Lines that are kept of one step; earlier ones are dropped.
const MAX_LINES: usize = 300;

/// Collects from the runner's headline of failures on, until its summary.
#[derive(Default)]
pub struct Failures {
    lines: VecDeque<String>,
    inside: bool,
}

impl Failures {
    pub fn see(&mut self, line: &str) {
        if is_headline(line) {
            self.inside = true;
        }
        if !self.inside {
            return;
        }
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_owned());
    }

    /// A runner has summed up: what comes next is another one's.
    pub fn end(&mut self) {
        self.inside = false;
    }

    pub fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}

/// libtest's `failures:`; pytest's `=== FAILURES ===` and `=== ERRORS ===`.
fn is_headline(line: &str) -> bool {
    let inner = line.trim_matches('=');
    line == "failures:" || (inner.len() < line.len() && matches!(inner.trim(), "FAILURES" | "ERRORS"))
}
