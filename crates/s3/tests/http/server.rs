//! A server in this process, over the engine in memory.

use std::net::SocketAddr;
use std::sync::Arc;

use engine::ObjectEngine;
use engine::memory::MemoryEngine;
use env::Env;
use manager::Manager;
use object::{BucketOptions, Engines, LEAST_UPLOAD_MEMORY, ObjectService, Principal, UploadMemory, UploadMemoryStats};
use s3::{App, S3Config, S3Server, Timeouts};

pub const ACCESS_KEY: &str = "trilith";
pub const SECRET: &str = "trilith-secret";
pub const BUCKET: &str = "bucket";
/// A bucket where everybody may do everything.
pub const PUBLIC: &str = "public";
pub const DOMAIN: &str = "s3.example.org";

/// A server over objects of its own.
pub struct Server {
    http: S3Server,
    upload_memory: UploadMemory,
    /// The manager's tasks run here.
    runtime: tokio::runtime::Runtime,
}

impl Server {
    pub fn start() -> Server {
        Server::start_with(Timeouts::default())
    }

    pub fn start_with(timeouts: Timeouts) -> Server {
        Server::start_as(timeouts, Arc::new(MemoryEngine::new()), LEAST_UPLOAD_MEMORY)
    }

    /// Whose uploads have so much memory together.
    pub fn start_with_upload_memory(limit_bytes: usize) -> Server {
        Server::start_as(Timeouts::default(), Arc::new(MemoryEngine::new()), limit_bytes)
    }

    /// Over this engine.
    pub fn start_over(engine: Arc<dyn ObjectEngine>) -> Server {
        Server::start_as(Timeouts::default(), engine, LEAST_UPLOAD_MEMORY)
    }

    fn start_as(timeouts: Timeouts, engine: Arc<dyn ObjectEngine>, upload_memory: usize) -> Server {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let app = runtime.block_on(app(timeouts, SocketAddr::from(([127, 0, 0, 1], 0)), engine, upload_memory));
        let upload_memory = app.upload_memory().clone();
        Server { http: S3Server::start(app, 1).expect("a free port"), upload_memory, runtime }
    }

    pub fn address(&self) -> SocketAddr {
        self.http.address()
    }

    /// What uploads hold at the moment.
    pub fn upload_memory(&self) -> UploadMemoryStats {
        self.upload_memory.stats()
    }

    /// What a second server would need, on this address.
    pub fn another_app(&self, address: SocketAddr) -> Arc<App> {
        self.runtime.block_on(app(Timeouts::default(), address, Arc::new(MemoryEngine::new()), LEAST_UPLOAD_MEMORY))
    }

    /// Stops it; returns when it has ended.
    pub fn stop(self) {
        self.http.stop().expect("the server ends");
    }
}

async fn app(timeouts: Timeouts, address: SocketAddr, engine: Arc<dyn ObjectEngine>, upload_memory: usize) -> Arc<App> {
    let env = Env::real();
    let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager"));
    manager.set_root_credential(ACCESS_KEY, SECRET).await.expect("a root");
    manager.add_credential("alice-key", "alice-secret", "alice").await.expect("a user");
    let engines = Engines::log(engine);
    let service = ObjectService::new(manager.clone(), engines, env.clone()).with_upload_memory(upload_memory);
    let service = Arc::new(service);
    let root = Principal::User { name: Arc::from("root"), is_root: true };
    for bucket in [BUCKET, PUBLIC] {
        service.create_bucket(&root, bucket, BucketOptions::default()).await.expect("a bucket");
    }
    let policy = format!(
        r#"{{"Version":"2012-10-17","Statement":[
            {{"Effect":"Allow","Principal":"*","Action":["s3:GetObject","s3:PutObject","s3:DeleteObject"],"Resource":"arn:aws:s3:::{PUBLIC}/*"}},
            {{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::{PUBLIC}"}}]}}"#
    );
    service.put_bucket_policy(&root, PUBLIC, policy.into()).await.expect("a policy");
    let mut config = S3Config::new(address);
    config.timeouts = timeouts;
    config.domain = Some(DOMAIN.to_owned());
    App::new(config, service, manager, &env)
}
