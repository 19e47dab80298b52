//! The operations, their weights, and the sizes of objects.

use std::fmt;
use std::str::FromStr;

use crate::random::{Random, mix64};

/// What one request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// PutObject.
    Put,
    /// GetObject, the body read to its end.
    Get,
    /// HeadObject.
    Head,
    /// DeleteObject of a key that exists and that nobody else deletes.
    Delete,
    /// One page of ListObjectsV2.
    List,
}

impl Op {
    /// All operations, in the order of [`Op::index`].
    pub const ALL: [Op; 5] = [Op::Put, Op::Get, Op::Head, Op::Delete, Op::List];

    /// Place in tables that hold one entry per operation.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name used in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Op::Put => "put",
            Op::Get => "get",
            Op::Head => "head",
            Op::Delete => "delete",
            Op::List => "list",
        }
    }

    /// The HTTP method.
    pub fn method(self) -> &'static str {
        match self {
            Op::Put => "PUT",
            Op::Get | Op::List => "GET",
            Op::Head => "HEAD",
            Op::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is not a mix or a list of sizes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// The operation does not exist.
    #[error("unknown operation {0:?}: expected put, get, head, delete or list")]
    UnknownOp(String),
    /// A weight is not a whole number.
    #[error("weight {0:?} is not a whole number")]
    BadWeight(String),
    /// All weights are zero.
    #[error("all weights are zero")]
    NoWeight,
    /// The same operation twice.
    #[error("operation {0} is given twice")]
    Twice(Op),
    /// A size is not a number with an optional unit, or above [`MAX_OBJECT_BYTES`].
    #[error("size {0:?} is not a number of bytes up to 5 GiB, such as 4096, 4K or 1MiB")]
    BadSize(String),
}

/// Weights of the operations, as in `get=70,put=30`; `get` alone is `get=1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    weights: [u64; Op::ALL.len()],
}

impl Mix {
    /// A mix of one operation.
    pub fn only(op: Op) -> Self {
        let mut weights = [0; Op::ALL.len()];
        weights[op.index()] = 1;
        Mix { weights }
    }

    /// Whether `op` occurs at all.
    pub fn has(&self, op: Op) -> bool {
        self.weights[op.index()] > 0
    }

    /// The mix without `op`; `None` when nothing is left.
    pub fn without(mut self, op: Op) -> Option<Mix> {
        self.weights[op.index()] = 0;
        (self.weights.iter().sum::<u64>() > 0).then_some(self)
    }

    /// Chooses an operation by weight.
    pub fn draw(&self, random: &mut Random) -> Op {
        let mut point = random.below(self.weights.iter().sum());
        for op in Op::ALL {
            let weight = self.weights[op.index()];
            if point < weight {
                return op;
            }
            point -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }
}

impl FromStr for Mix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let mut weights = [0; Op::ALL.len()];
        let mut seen = [false; Op::ALL.len()];
        for part in text.split(',') {
            let (name, weight) = split_weight(part)?;
            let op = Op::ALL.into_iter().find(|op| op.name() == name.to_ascii_lowercase());
            let op = op.ok_or_else(|| MixError::UnknownOp(name.to_owned()))?;
            if std::mem::replace(&mut seen[op.index()], true) {
                return Err(MixError::Twice(op));
            }
            weights[op.index()] = weight;
        }
        if weights.iter().sum::<u64>() == 0 {
            return Err(MixError::NoWeight);
        }
        Ok(Mix { weights })
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(only) = Op::ALL.into_iter().find(|op| self.without(*op).is_none()) {
            return f.write_str(only.name());
        }
        let mut separator = "";
        for op in Op::ALL.into_iter().filter(|op| self.has(*op)) {
            write!(f, "{separator}{op}={}", self.weights[op.index()])?;
            separator = ",";
        }
        Ok(())
    }
}

/// The largest body of one PUT (the S3 limit of a single upload).
pub const MAX_OBJECT_BYTES: u64 = 5 << 30;

/// Sizes of objects with weights, as in `4K=80,1M=20`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    choices: Vec<(u64, u64)>,
    total_weight: u64,
}

impl Sizes {
    /// The size of the object with this name hash. It follows from the key, so that an overwrite writes the same bytes and
    /// a reader knows what to expect.
    pub fn of(&self, name_hash: u64) -> u64 {
        let bits = mix64(name_hash ^ 0x7369_7a65);
        let mut point = ((u128::from(bits) * u128::from(self.total_weight)) >> 64) as u64;
        for &(size, weight) in &self.choices {
            if point < weight {
                return size;
            }
            point -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }
}

impl FromStr for Sizes {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let mut choices = Vec::new();
        for part in text.split(',') {
            let (size, weight) = split_weight(part)?;
            choices.push((parse_size(size)?, weight));
        }
        let total_weight = choices.iter().map(|(_, weight)| weight).sum();
        if total_weight == 0 {
            return Err(MixError::NoWeight);
        }
        Ok(Sizes { choices, total_weight })
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(size, _)] = self.choices[..] {
            return write!(f, "{size}");
        }
        let mut separator = "";
        for (size, weight) in &self.choices {
            write!(f, "{separator}{size}={weight}")?;
            separator = ",";
        }
        Ok(())
    }
}

/// Reads `4096`, `4K`, `4KiB`, `1M`, `2G`: units are powers of 1,024.
pub fn parse_size(text: &str) -> Result<u64, MixError> {
    let bad = || MixError::BadSize(text.to_owned());
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let shift = match &lower[digits..] {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err(bad()),
    };
    let number: u64 = lower[..digits].parse().map_err(|_| bad())?;
    number.checked_mul(1 << shift).filter(|size| *size <= MAX_OBJECT_BYTES).ok_or_else(bad)
}

fn split_weight(part: &str) -> Result<(&str, u64), MixError> {
    match part.split_once('=') {
        None => Ok((part.trim(), 1)),
        Some((name, weight)) => {
            let weight = weight.trim();
            // At most 32 bits, so that no sum of weights overflows.
            let number = weight.parse::<u32>().map_err(|_| MixError::BadWeight(weight.to_owned()))?;
            Ok((name.trim(), u64::from(number)))
        }
    }
}
