//! Policies that have a name.

use anyhow::Context;
use serde_json::json;
use std::path::Path;

/// What a name stands for.
pub enum Canned {
    /// No policy at all.
    Nothing,
    Document(String),
}

/// The policy of this name for a bucket.
pub fn canned(name: &str, bucket: &str) -> Option<Canned> {
    let object_actions: &[&str] = match name {
        "private" => return Some(Canned::Nothing),
        "public-read" => &["s3:GetObject"],
        "public-read-write" => &["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
        _ => return None,
    };
    let document = json!({
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": "*",
                "Action": ["s3:ListBucket", "s3:GetBucketLocation"],
                "Resource": format!("arn:aws:s3:::{bucket}"),
            },
            {
                "Effect": "Allow",
                "Principal": "*",
                "Action": object_actions,
                "Resource": format!("arn:aws:s3:::{bucket}/*"),
            },
        ],
    });
    Some(Canned::Document(document.to_string()))
}

/// A policy from a file.
pub fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| {
        format!("{} is neither public-read, public-read-write or private nor a file that can be read", path.display())
    })
}
