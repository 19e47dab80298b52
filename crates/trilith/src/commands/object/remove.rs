//! Removing objects.

use super::TRANSFERS_AT_ONCE;
use crate::client::{Call, S3};
use crate::commands::place::ObjectPlace;
use bench::tell;
use futures_util::{StreamExt, TryStreamExt, stream};
use hyper::Method;

/// Named objects. S3 does not say whether there was one.
pub async fn each(s3: &S3, targets: &[String]) -> anyhow::Result<()> {
    for target in targets {
        let place = ObjectPlace::object(target)?;
        remove(s3, &place.bucket, &place.key).await?;
        tell!("removed {place}")?;
    }
    Ok(())
}

/// All objects whose names start with one of the prefixes.
pub async fn below(s3: &S3, targets: &[String]) -> anyhow::Result<()> {
    for target in targets {
        let place = ObjectPlace::any(target)?;
        let (mut count, mut next) = (0, None);
        loop {
            let page = s3.list(&place.bucket, &place.key, "", next.as_deref()).await?;
            count += page.objects.len();
            let removals = page.objects.iter().map(|object| remove(s3, &place.bucket, &object.key));
            stream::iter(removals).buffer_unordered(TRANSFERS_AT_ONCE).try_collect::<()>().await?;
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        tell!("removed {count} objects below {place}")?;
    }
    Ok(())
}

async fn remove(s3: &S3, bucket: &str, key: &str) -> anyhow::Result<()> {
    s3.call(Call::new(Method::DELETE, bucket, key)).await?.finish().await
}
