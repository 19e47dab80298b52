//! Copies within the server.

use crate::client::{Call, S3};
use crate::commands::place::ObjectPlace;
use bench::s3::sigv4::{encode_component, encode_path};
use bench::tell;
use hyper::Method;

/// One object.
pub async fn one(s3: &S3, source: &str, target: &str) -> anyhow::Result<()> {
    let source = ObjectPlace::object(source)?;
    let mut target = ObjectPlace::any(target)?;
    if target.key.is_empty() || target.key.ends_with('/') {
        target.key.push_str(source.name());
    }
    let mut from = String::from("/");
    encode_component(&source.bucket, &mut from);
    from.push('/');
    encode_path(&source.key, &mut from);
    s3.call_for_text(Call::new(Method::PUT, &target.bucket, &target.key).header("x-amz-copy-source", from)).await?;
    tell!("copied {source} to {target}")?;
    Ok(())
}
