//! Names of objects.

use crate::client::S3;
use crate::commands::place::ObjectPlace;
use std::io::Write;

/// Prints the objects below a prefix: one level as a folder would show it, or all.
pub async fn print(s3: &S3, target: &str, is_recursive: bool) -> anyhow::Result<()> {
    let place = ObjectPlace::any(target)?;
    let delimiter = if is_recursive { "" } else { "/" };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut next = None;
    loop {
        let page = s3.list(&place.bucket, &place.key, delimiter, next.as_deref()).await?;
        for prefix in &page.prefixes {
            writeln!(out, "{:>24}  {:>14}  {prefix}", "", "folder")?;
        }
        for object in &page.objects {
            writeln!(out, "{:>24}  {:>14}  {}", object.modified, object.length, object.key)?;
        }
        next = page.next;
        if next.is_none() {
            return Ok(out.flush()?);
        }
    }
}
