//! The phases of one run, and the threads that carry them out.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::args::S3Args;
use super::connection::{Body, Connection};
use super::content::Content;
use super::mix::Op;
use super::report::Report;
use super::request::{Auth, Namespace, PRESIGNED_LIMIT, Presigned, RequestWriter};
use super::sigv4::{Credentials, Signer};
use super::source::{Key, KeySet, Load, Plan, Source, Stripe};
use super::tally::{Failure, Tally};
use super::worker::{Outcome, Pace, READ_BUFFER_BYTES, Settings, Ticker, Window, Worker};
use crate::random::Random;
use crate::{clock, usage};

/// Connections that prepare and clean up, if the load itself has fewer: these phases are not measured and should end soon.
const SWEEP_CONNECTIONS: u32 = 16;

/// A phase that ends with its keys, not at a time.
const ENDLESS: Duration = Duration::from_secs(365 * 86_400);

/// Highest rate of the open loop.
const RATE_LIMIT: f64 = 1e8;

/// One run, its options checked.
pub struct Run<'a> {
    args: &'a S3Args,
    settings: Settings,
    namespace: Arc<Namespace>,
    credentials: Option<Credentials>,
}

impl<'a> Run<'a> {
    /// Checks the options and resolves the endpoint.
    pub fn new(args: &'a S3Args) -> anyhow::Result<Self> {
        let (host, address) = resolve(&args.endpoint)?;
        let credentials = match (&args.access_key, &args.secret_key) {
            (Some(access_key), Some(secret_key)) => {
                Some(Credentials { access_key: access_key.clone(), secret_key: secret_key.clone() })
            }
            _ => None,
        };
        if args.auth != Auth::Anonymous {
            ensure!(credentials.is_some(), "signed requests need --access-key and --secret-key");
        }
        if let Some(rate) = args.rate {
            ensure!(rate > 0.0 && rate <= RATE_LIMIT, "--rate must be above 0 and at most {RATE_LIMIT}");
        }
        ensure!(args.threads <= args.connections, "more threads than connections: {}", args.threads);
        ensure!(!args.duration.is_zero() || args.prepare_only, "--duration is 0");
        let run = (clock::unix_nanos() / 1_000_000) as u32;
        let namespace =
            Namespace { host, bucket: args.bucket.clone(), prefix: args.prefix.clone(), run, sizes: args.size.clone() };
        let settings = Settings { address, verify: args.verify, expected: args.expect.clone(), timeout: args.timeout };
        Ok(Run { args, settings, namespace: Arc::new(namespace), credentials })
    }

    /// All phases, in order.
    pub fn execute(&self) -> anyhow::Result<Report> {
        if self.args.create_bucket {
            self.create_bucket().context("creating the bucket")?;
        }
        if self.args.prepare || self.args.prepare_only {
            for set in self.prepared_sets() {
                self.sweep(Op::Put, set).context("preparing objects")?;
            }
        }
        if self.args.prepare_only {
            return Ok(Report::new(self.args, &Tally::new(), Duration::ZERO));
        }
        let (tally, elapsed) = self.load()?;
        if self.args.clean_up {
            for set in self.prepared_sets() {
                self.sweep(Op::Delete, set).context("cleaning up")?;
            }
        }
        Ok(Report::new(self.args, &tally, elapsed))
    }

    fn deletes(&self) -> bool {
        self.args.mix.has(Op::Delete)
    }

    fn prepared_sets(&self) -> Vec<KeySet> {
        let mut sets = Vec::new();
        let shared_put = self.args.mix.has(Op::Put) && !self.args.unique;
        if shared_put || [Op::Get, Op::Head, Op::List].into_iter().any(|op| self.args.mix.has(op)) {
            sets.push(KeySet::Shared);
        }
        if self.deletes() {
            sets.push(KeySet::Doomed);
        }
        sets
    }

    /// The measured phase, with its warm-up.
    fn load(&self) -> anyhow::Result<(Tally, Duration)> {
        let args = self.args;
        let load = Load {
            mix: args.mix,
            distribution: args.distribution,
            shared: args.keys,
            doomed: if self.deletes() { args.keys } else { 0 },
            unique: args.unique,
            seed: args.seed,
        };
        let presigned = self.presign()?;
        let pace = match args.rate {
            None => Pace::Closed,
            Some(rate) => Pace::Open { gap: Duration::from_secs_f64(f64::from(args.threads) / rate), poisson: args.poisson },
        };
        let phase = Phase {
            plan: Plan::Load(load),
            auth: args.auth,
            presigned,
            connections: args.connections,
            threads: args.threads,
            warm_up: args.warm_up,
            duration: args.duration,
            pace,
        };
        self.run_phase(&phase)
    }

    /// One operation on every key of a set; any failure fails the run.
    fn sweep(&self, op: Op, set: KeySet) -> anyhow::Result<()> {
        let phase = Phase {
            plan: Plan::Sweep { op, set, count: self.args.keys },
            auth: self.args.auth,
            presigned: Arc::default(),
            connections: self.args.connections.max(SWEEP_CONNECTIONS),
            threads: self.args.threads,
            warm_up: Duration::ZERO,
            duration: ENDLESS,
            pace: Pace::Closed,
        };
        let (tally, _) = self.run_phase(&phase)?;
        if tally.errors() > 0 {
            let kinds: Vec<String> = tally.failures.iter().map(|(kind, count)| format!("{kind} ({count} times)")).collect();
            bail!("{} of {} requests failed: {}", tally.errors(), self.args.keys, kinds.join(", "));
        }
        Ok(())
    }

    /// Runs one phase on all threads and returns what it saw and how long it measured.
    fn run_phase(&self, phase: &Phase) -> anyhow::Result<(Tally, Duration)> {
        let mut workers = Vec::new();
        for worker in 0..phase.threads {
            let stripe = Stripe { worker: u64::from(worker), workers: u64::from(phase.threads) };
            let connections = share(phase.connections, phase.threads, worker);
            let source = Source::new(phase.plan.clone(), stripe);
            let writer = self.writer(phase.auth, phase.presigned.clone());
            let opened = Worker::open(&self.settings, &self.namespace, writer, source, connections as usize);
            workers.push(opened.with_context(|| format!("connecting to {}", self.settings.address))?);
        }
        let start = clock::now();
        let window = Window { from: start + phase.warm_up, until: start + phase.warm_up + phase.duration };
        let barrier = Barrier::new(workers.len());
        let outcomes: Vec<anyhow::Result<Outcome>> = std::thread::scope(|scope| {
            let threads: Vec<_> = workers
                .into_iter()
                .enumerate()
                .map(|(index, worker)| {
                    let (barrier, ticker) = (&barrier, phase.ticker(index, start, self.args.seed));
                    scope.spawn(move || {
                        barrier.wait();
                        let mut outcome = worker.run(window, ticker)?;
                        outcome.tally.cpu = usage::thread_cpu()?;
                        Ok(outcome)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a worker panicked")).collect()
        });
        let mut tally = Tally::new();
        let mut last_answer = window.from;
        for outcome in outcomes {
            let outcome = outcome.context("running a worker")?;
            tally.merge(&outcome.tally);
            last_answer = last_answer.max(outcome.last_answer.unwrap_or(window.from));
        }
        // A phase that ran out of keys measured up to its last answer.
        let elapsed = last_answer.min(window.until).saturating_duration_since(window.from);
        Ok((tally, if clock::now() >= window.until { phase.duration } else { elapsed }))
    }

    fn writer(&self, auth: Auth, presigned: Arc<Presigned>) -> RequestWriter {
        let signer = self.credentials.clone().map(|credentials| Signer::new(credentials, self.args.region.clone()));
        RequestWriter::new(self.namespace.clone(), auth, signer, presigned, self.args.page_size)
    }

    /// The URLs of all prepared keys, for every operation of the mix.
    fn presign(&self) -> anyhow::Result<Arc<Presigned>> {
        let mut urls: Presigned = HashMap::new();
        if self.args.auth != Auth::Presigned {
            return Ok(Arc::new(urls));
        }
        let mut writer = self.writer(Auth::Presigned, Arc::default());
        for op in [Op::Put, Op::Get, Op::Head, Op::Delete].into_iter().filter(|op| self.args.mix.has(*op)) {
            let set = match op {
                Op::Delete => KeySet::Doomed,
                Op::Put if self.args.unique => continue,
                _ => KeySet::Shared,
            };
            ensure!(urls.len() as u64 + self.args.keys <= PRESIGNED_LIMIT, "more than {PRESIGNED_LIMIT} URLs to presign");
            for index in 0..self.args.keys {
                let key = Key { set, index };
                urls.insert((op, key), writer.presign(op, key));
            }
        }
        Ok(Arc::new(urls))
    }

    fn create_bucket(&self) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.settings.address)?;
        self.writer(self.args.auth, Arc::default()).write_create_bucket(connection.head_buffer());
        connection.start(Content::empty(), false, Body::Discard)?;
        let mut buffer = vec![0; READ_BUFFER_BYTES];
        let deadline = clock::now() + self.settings.timeout;
        while !connection.receive(&mut buffer, true)? {
            ensure!(clock::now() < deadline, "no answer within {:?}", self.settings.timeout);
            std::thread::sleep(Duration::from_millis(1));
        }
        match connection.answer.verdict(&[]) {
            Ok(_) => Ok(()),
            Err(Failure::Status { status: 409, code })
                if code == "BucketAlreadyOwnedByYou" || code == "BucketAlreadyExists" =>
            {
                Ok(())
            }
            Err(failure) => Err(failure.into()),
        }
    }
}

struct Phase {
    plan: Plan,
    auth: Auth,
    presigned: Arc<Presigned>,
    connections: u32,
    threads: u32,
    warm_up: Duration,
    duration: Duration,
    pace: Pace,
}

impl Phase {
    /// Workers of an open loop start one after the other within the first gap, so that they do not send in step.
    fn ticker(&self, worker: usize, start: Instant, seed: u64) -> Ticker {
        let first = match self.pace {
            Pace::Closed => start,
            Pace::Open { gap, .. } => start + gap.mul_f64(worker as f64 / f64::from(self.threads)),
        };
        Ticker::new(self.pace, first, Random::new(seed ^ 0x7469_636b, worker as u64))
    }
}

/// Connections of one worker, the remainder going to the first ones.
fn share(connections: u32, threads: u32, worker: u32) -> u32 {
    connections / threads + u32::from(worker < connections % threads)
}

fn resolve(endpoint: &str) -> anyhow::Result<(String, SocketAddr)> {
    if endpoint.starts_with("https://") {
        bail!("{endpoint}: only plain HTTP is measured; give an http:// endpoint");
    }
    let host = endpoint.strip_prefix("http://").unwrap_or(endpoint).trim_end_matches('/');
    ensure!(!host.is_empty() && !host.contains('/'), "{endpoint:?} is not http://HOST:PORT");
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let with_port = if has_port { host.to_owned() } else { format!("{host}:80") };
    let mut addresses = with_port.to_socket_addrs().with_context(|| format!("resolving {host}"))?;
    let address = addresses.next().with_context(|| format!("{host} has no address"))?;
    Ok((host.to_owned(), address))
}
