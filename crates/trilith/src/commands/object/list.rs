//! Names of objects.

use crate::client::S3;
use crate::commands::place::ObjectPlace;
use bench::output;
use std::fmt::Write;

/// Prints the objects below a prefix: one level as a folder would show it, or all.
pub async fn print(s3: &S3, target: &str, is_recursive: bool) -> anyhow::Result<()> {
    let place = ObjectPlace::any(target)?;
    let delimiter = if is_recursive { "" } else { "/" };
    let mut next = None;
    loop {
        let page = s3.list(&place.bucket, &place.key, delimiter, next.as_deref()).await?;
        let mut out = String::new();
        for prefix in &page.prefixes {
            writeln!(out, "{:>24}  {:>14}  {prefix}", "", "folder")?;
        }
        for object in &page.objects {
            writeln!(out, "{:>24}  {:>14}  {}", object.modified, object.length, object.key)?;
        }
        output::print(format_args!("{out}"))?;
        next = page.next;
        if next.is_none() {
            return Ok(());
        }
    }
}
