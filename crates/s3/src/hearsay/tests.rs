use std::sync::Arc;

use engine::memory::MemoryEngine;
use env::Env;
use http::Request;
use manager::Manager;
use object::{BucketOptions, Engines, ObjectService, Principal};

use super::shows;
use crate::config::S3Config;
use crate::guard::admit;

#[tokio::test]
async fn a_copy_is_about_two_buckets() {
    let env = Env::simulated(7);
    let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager"));
    let service = ObjectService::new(manager.clone(), Engines::log(Arc::new(MemoryEngine::new())), env);
    let root = Principal::User { name: Arc::from("root"), is_root: true };
    service.create_bucket(&root, "known", BucketOptions::default()).await.expect("a bucket");
    let state = manager.snapshot();
    let config = S3Config::new(([127, 0, 0, 1], 0).into());
    let is_shown = |target: &str, source: Option<&str>| {
        let mut request = Request::put(target).header("host", "localhost");
        if let Some(source) = source {
            request = request.header("x-amz-copy-source", source);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let admitted = admit(&head, &[], &config).expect("well-formed");
        shows(&state, &head, &admitted)
    };
    assert!(is_shown("/known/key", None));
    assert!(!is_shown("/not-heard-of/key", None));
    for source in ["known/key", "/known/key", "%2Fknown%2Fkey", "kno%77n/a/b?versionId=null"] {
        assert!(is_shown("/known/key", Some(source)), "{source}");
    }
    for source in ["not-heard-of/key", "/not-heard-of/key", "known%2D/key", "arn:aws:s3:::known/key"] {
        assert!(!is_shown("/known/key", Some(source)), "{source}");
    }
}
