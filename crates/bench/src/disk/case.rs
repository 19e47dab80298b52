//! What is measured.

use disk::Durability;

/// What each request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A write, with what its completion promises.
    Write(Durability),
    /// A read past the page cache, unless the disk was opened through it.
    Read,
}

/// Where requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Anywhere, in multiples of the request.
    Random,
    /// One after the other, from the start again at the end, over blocks that were written before.
    Sequential,
    /// One after the other past the end of a new file.
    Growing,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Read or write.
    pub access: Access,
    /// Places.
    pub pattern: Pattern,
    /// Bytes of one request.
    pub request_bytes: u64,
    /// Requests in flight.
    pub depth: u32,
}

impl Case {
    /// A name for options and reports, such as `write-4k-durable-qd16`.
    pub fn name(&self) -> String {
        let verb = match (self.access, self.pattern) {
            (Access::Read, _) => "read",
            (Access::Write(_), Pattern::Random) => "write",
            (Access::Write(_), Pattern::Sequential) => "append",
            (Access::Write(_), Pattern::Growing) => "grow",
        };
        let size = match self.request_bytes {
            mebibytes if mebibytes >= 1 << 20 => format!("{}m", mebibytes >> 20),
            kibibytes => format!("{}k", kibibytes >> 10),
        };
        let promise = if self.access == Access::Write(Durability::Durable) { "-durable" } else { "" };
        format!("{verb}-{size}{promise}-qd{}", self.depth)
    }

    /// Whether it must run before the file has been written.
    pub fn needs_new_file(&self) -> bool {
        self.pattern == Pattern::Growing
    }
}

/// The limits that the system is compared with, the growing file first.
pub fn standard_cases() -> Vec<Case> {
    const SMALL: u64 = 4 << 10;
    const LARGE: u64 = 1 << 20;
    let durable = Access::Write(Durability::Durable);
    let volatile = Access::Write(Durability::Volatile);
    let mut cases = vec![Case { access: durable, pattern: Pattern::Growing, request_bytes: SMALL, depth: 1 }];
    for access in [volatile, durable, Access::Read] {
        for depth in [1, 16, 64] {
            cases.push(Case { access, pattern: Pattern::Random, request_bytes: SMALL, depth });
        }
    }
    for (access, request_bytes, depth) in [
        (durable, SMALL, 1),
        (durable, 64 << 10, 1),
        (volatile, LARGE, 1),
        (volatile, LARGE, 16),
        (durable, LARGE, 1),
        (durable, LARGE, 16),
        (Access::Read, LARGE, 1),
        (Access::Read, LARGE, 16),
    ] {
        cases.push(Case { access, pattern: Pattern::Sequential, request_bytes, depth });
    }
    cases
}
