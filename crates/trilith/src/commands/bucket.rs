//! `trilith bucket`: make, list, remove; policies.

mod policy;

use crate::client::{Call, ClientArgs, Content, S3, element, elements};
use bench::tell;
use bytes::Bytes;
use clap::{Args, Subcommand, ValueEnum};
use hyper::Method;
use std::path::PathBuf;

/// The header with which a request for a new bucket chooses how its ETags are made; absent, they are MD5.
const ETAG_MODE_HEADER: &str = "x-trilith-etag";
/// The header with which a request for a new bucket chooses its engine, and with which answers tell it; absent, it is the log engine.
const ENGINE_HEADER: &str = "x-trilith-engine";

/// `trilith bucket ...`
#[derive(Args, Clone, Debug)]
pub struct BucketArgs {
    #[command(subcommand)]
    command: BucketCommand,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand, Clone, Debug)]
enum BucketCommand {
    /// Make buckets
    #[command(
        visible_alias = "create",
        after_help = "Examples:\n  trilith bucket make photos backups\n  trilith bucket make scratch --etag fast\n  trilith bucket make cache --engine volume\n\n\
                      With --etag fast, the ETag of an object is no MD5 but a faster hash, written HASH-1: storing costs less, and a\n\
                      client that compares ETags with an MD5 of its own takes the object for an uploaded one and compares nothing.\n\
                      The choice is for good. What else changes: docs/semantics.md, \"Fast ETags\"."
    )]
    Make {
        /// 3 to 63 lower-case letters, digits, dots and dashes
        #[arg(required = true)]
        names: Vec<String>,
        /// How the ETags of the objects are made
        #[arg(long, value_enum, default_value_t = Etag::Md5)]
        etag: Etag,
        /// Which engine keeps the objects (docs/engines.md)
        #[arg(long, value_enum, default_value_t = Engine::Log)]
        engine: Engine,
    },
    /// List the buckets
    Ls,
    /// Which engine keeps the objects of buckets
    Info {
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Remove buckets, which must be empty
    #[command(after_help = "Example:\n  trilith object rm --recursive photos && trilith bucket rm photos")]
    Rm {
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// What everybody may do with a bucket, without credentials
    #[command(subcommand)]
    Policy(PolicyCommand),
}

/// How the ETags of a bucket's objects are made, from its creation on.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Etag {
    /// The MD5 of the content, as S3's clients know it
    Md5,
    /// A faster hash with `-1` behind it
    Fast,
}

/// Which engine keeps the objects of a bucket, from its creation on.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Engine {
    /// Logs of the devices, on one server or several
    Log,
    /// Raw blocks: space is free at once; on a server of its own, with one copy
    Volume,
    /// The same, and an object that is there is not overwritten
    #[value(name = "volume:strict")]
    VolumeStrict,
}

impl Engine {
    /// Its name in the header.
    fn name(self) -> &'static str {
        match self {
            Engine::Log => "log",
            Engine::Volume => "volume",
            Engine::VolumeStrict => "volume:strict",
        }
    }
}

#[derive(Subcommand, Clone, Debug)]
enum PolicyCommand {
    /// Print a bucket's policy
    Get { name: String },
    /// Set a bucket's policy
    #[command(after_help = "Examples:\n  trilith bucket policy set photos public-read     # anybody may list and read\n  \
                            trilith bucket policy set photos private         # nobody without credentials; the default\n  \
                            trilith bucket policy set photos ./policy.json")]
    Set {
        name: String,
        /// A JSON file, or one of: public-read (list and read), public-read-write (write and delete too), private
        policy: String,
    },
    /// Remove a bucket's policy: nobody may do anything without credentials
    Rm { name: String },
}

/// Runs the command.
pub fn run(args: &BucketArgs) -> anyhow::Result<()> {
    super::run(async {
        let s3 = args.client.connect()?;
        match &args.command {
            BucketCommand::Make { names, etag, engine } => make(&s3, names, *etag, *engine).await,
            BucketCommand::Info { names } => tell_engines(&s3, names).await,
            BucketCommand::Ls => list(&s3).await,
            BucketCommand::Rm { names } => remove(&s3, names).await,
            BucketCommand::Policy(PolicyCommand::Get { name }) => print_policy(&s3, name).await,
            BucketCommand::Policy(PolicyCommand::Set { name, policy }) => set_policy(&s3, name, policy).await,
            BucketCommand::Policy(PolicyCommand::Rm { name }) => remove_policy(&s3, name).await,
        }
    })
}

async fn make(s3: &S3, names: &[String], etag: Etag, engine: Engine) -> anyhow::Result<()> {
    for name in names {
        let call = Call::new(Method::PUT, name, "");
        let call = match etag {
            Etag::Md5 => call,
            Etag::Fast => call.header(ETAG_MODE_HEADER, "fast"),
        };
        let call = match engine {
            Engine::Log => call,
            Engine::Volume | Engine::VolumeStrict => call.header(ENGINE_HEADER, engine.name()),
        };
        s3.call(call).await?.finish().await?;
        tell!("made {name}")?;
    }
    Ok(())
}

async fn tell_engines(s3: &S3, names: &[String]) -> anyhow::Result<()> {
    for name in names {
        let answer = s3.call(Call::new(Method::HEAD, name, "")).await?;
        let engine = answer.header(ENGINE_HEADER).unwrap_or("unknown").to_owned();
        answer.finish().await?;
        tell!("{name}  engine {engine}")?;
    }
    Ok(())
}

async fn list(s3: &S3) -> anyhow::Result<()> {
    let xml = s3.call_for_text(Call::new(Method::GET, "", "")).await?;
    for bucket in elements(&xml, "Bucket") {
        let text = |name| element(bucket, name).unwrap_or_default();
        tell!("{}  {}", text("CreationDate"), text("Name"))?;
    }
    Ok(())
}

async fn remove(s3: &S3, names: &[String]) -> anyhow::Result<()> {
    for name in names {
        s3.call(Call::new(Method::DELETE, name, "")).await?.finish().await?;
        tell!("removed {name}")?;
    }
    Ok(())
}

async fn print_policy(s3: &S3, name: &str) -> anyhow::Result<()> {
    tell!("{}", s3.call_for_text(Call::new(Method::GET, name, "").query("policy", "")).await?)?;
    Ok(())
}

async fn set_policy(s3: &S3, name: &str, policy: &str) -> anyhow::Result<()> {
    let document = match policy::canned(policy, name) {
        Some(policy::Canned::Nothing) => return remove_policy(s3, name).await,
        Some(policy::Canned::Document(document)) => document,
        None => policy::read(&PathBuf::from(policy))?,
    };
    let call = Call::new(Method::PUT, name, "").query("policy", "").content(Content::Memory(Bytes::from(document)));
    s3.call(call).await?.finish().await?;
    tell!("set the policy of {name}")?;
    Ok(())
}

async fn remove_policy(s3: &S3, name: &str) -> anyhow::Result<()> {
    s3.call(Call::new(Method::DELETE, name, "").query("policy", "")).await?.finish().await?;
    tell!("{name} is private")?;
    Ok(())
}
