//! Serves S3 from memory: for looking at the interface alone, and for measuring what it costs.
//!
//! `cargo run --example memory -- 127.0.0.1:9000 [cores]`; user `trilith`, password `trilith-secret`.

use std::error::Error;
use std::sync::Arc;

use engine::memory::MemoryEngine;
use env::Env;
use manager::Manager;
use object::{Engines, ObjectService};
use s3::{App, S3Config, S3Server};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| String::from("127.0.0.1:9000")).parse()?;
    let cores = arguments.next().map_or(Ok(2), |cores| cores.parse())?;
    let config = S3Config::new(address);
    let runtime = tokio::runtime::Runtime::new()?;
    let app = runtime.block_on(async {
        let env = Env::real();
        let manager = Arc::new(Manager::open_in_memory(&env).await?);
        manager.set_root_credential("trilith", "trilith-secret").await?;
        let engines = Engines::log(Arc::new(MemoryEngine::new()));
        let service = Arc::new(ObjectService::new(manager.clone(), engines, env.clone()));
        Ok::<_, Box<dyn Error>>(App::new(config, service, manager, &env))
    })?;
    let server = S3Server::start(app, cores)?;
    println!("serving on http://{}", server.address());
    runtime.block_on(tokio::signal::ctrl_c())?;
    server.stop()?;
    Ok(())
}
