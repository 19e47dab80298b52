//! What a person can set, from four places: flag, environment, file, default, in this order.
//!
//! The file is `trilith.toml` in the data folder, or what `--config` names. Its keys are the long flags with underscores; an
//! unknown one is an error that names the nearest key, because a typo that is ignored is a setting that silently isn't.

use anyhow::{Context, bail};
use chunkstore::placement::PlacerChoice;
use chunkstore::settings::ChunkSettings;
use clap::Args;
use filesystem::meta::limits::SOFT_INODES;
use logstore::{Consistency, IndexForm, LogStoreConfig, LudoForm};
use manager::modules::chunks::limits::MAX_SHARD_CHUNKS;
use object::{LEAST_UPLOAD_MEMORY, UploadMemory};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where data goes unless told otherwise.
const DEFAULT_DATA: &str = "./trilith-data";
const DEFAULT_S3_ADDRESS: &str = "127.0.0.1:9000";
const DEFAULT_ADMIN_ADDRESS: &str = "127.0.0.1:9001";
const DEFAULT_REGION: &str = "us-east-1";
/// The store of the manager's state tells too much of itself.
const DEFAULT_LOG: &str = "info,fjall=warn,lsm_tree=warn,openraft=warn";
/// The file in the data folder.
const CONFIG_FILE: &str = "trilith.toml";
/// An unknown key at most this many edits from a known one gets a suggestion.
const MAX_TYPO_EDITS: usize = 4;

/// Flags of `trilith serve`; each has an environment form and a key in the file.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeArgs {
    /// Folder for everything that is kept; made if absent, formatted if empty [default: ./trilith-data]
    #[arg(long, env = "TRILITH_DATA")]
    pub data: Option<PathBuf>,
    /// Configuration file [default: trilith.toml in the data folder, if there is one]
    #[arg(long, env = "TRILITH_CONFIG")]
    pub config: Option<PathBuf>,
    /// Where S3 listens [default: 127.0.0.1:9000]; 0.0.0.0:9000 for everybody
    #[arg(long, env = "TRILITH_S3_ADDR")]
    pub s3_addr: Option<String>,
    /// Where admin API, metrics and health listen [default: 127.0.0.1:9001]
    #[arg(long, env = "TRILITH_ADMIN_ADDR")]
    pub admin_addr: Option<String>,
    /// Root access key, 3 characters or more [default: made at the first start, kept in the data folder]
    #[arg(long, env = "TRILITH_ROOT_USER")]
    pub root_user: Option<String>,
    /// Root secret key, 8 characters or more. Others on this machine can see it here, not in the environment variable
    #[arg(long, env = "TRILITH_ROOT_PASSWORD", hide_env_values = true)]
    pub root_password: Option<String>,
    /// Buckets to make if absent, separated by commas
    #[arg(long, env = "TRILITH_DEFAULT_BUCKETS")]
    pub default_buckets: Option<String>,
    /// Region of all buckets [default: us-east-1]
    #[arg(long, env = "TRILITH_REGION")]
    pub region: Option<String>,
    /// Base domain for virtual-host style requests (bucket.DOMAIN); path style works always
    #[arg(long, env = "TRILITH_DOMAIN")]
    pub domain: Option<String>,
    /// Disks, partitions or files, separated by commas [default: one file in the data folder]. Two copies are kept on two
    /// devices, three on three or more
    #[arg(long, env = "TRILITH_DEVICES")]
    pub devices: Option<String>,
    /// How far a file that stands in for a disk may grow, e.g. 100GiB [default: 80% of the free space]
    #[arg(long, env = "TRILITH_DEVICE_SIZE")]
    pub device_size: Option<String>,
    /// Chunks that a shard of the chunk store takes before the next one is opened; that of the node that leads the manager counts
    /// [default: 131072]
    #[arg(long, env = "TRILITH_SHARD_CHUNKS")]
    pub shard_chunks: Option<String>,
    /// How nodes for chunks are chosen: `least-loaded`, or, to compare with, `crush` or `mapx`. The same at all nodes [default: least-loaded]
    #[arg(long, env = "TRILITH_CHUNK_PLACER")]
    pub chunk_placer: Option<String>,
    /// Whether copies of chunks that are asked for most move from nodes that do far more than others: `on` or `off`. That of the node that leads the
    /// manager counts [default: on, with `least-loaded`]
    #[arg(long, env = "TRILITH_CHUNK_BALANCE")]
    pub chunk_balance: Option<String>,
    /// Files, directories and links that a tree of a file volume has before the volume gets another one. The same at all nodes [default: 4000000]
    #[arg(long, env = "TRILITH_TREE_INODES")]
    pub tree_inodes: Option<String>,
    /// When a write is acknowledged: `always` when it is durable; `batch:MS` before, with a flush at most MS milliseconds
    /// later (a power cut loses that much); `off` never flushed on purpose (a power cut loses any amount) [default: always]
    #[arg(long, env = "TRILITH_SYNC")]
    pub sync: Option<String>,
    /// What readers at the other nodes of a cluster may rely on: `linearizable`, or `read-after-write`, which costs less and lets
    /// them see a write that is not acknowledged yet come and go. Of what is written through this node [default: linearizable]
    #[arg(long, env = "TRILITH_CONSISTENCY")]
    pub consistency: Option<String>,
    /// How much collection and the repair of copies may copy in a second, e.g. 50MiB [default: 200MiB]
    #[arg(long, env = "TRILITH_BACKGROUND_RATE")]
    pub background_rate: Option<String>,
    /// In which time each device is read once to find what has rotted, e.g. 14d, 36h, or off. What is found is copied anew from where it is whole
    /// [default: 14d]
    #[arg(long, env = "TRILITH_SCRUB_PERIOD")]
    pub scrub_period: Option<String>,
    /// How many entries of the index may be in no checkpoint: more make checkpoints rarer and starts longer [default: 65536]
    #[arg(long, env = "TRILITH_CHECKPOINT_ENTRIES")]
    pub checkpoint_entries: Option<String>,
    /// How the places of objects are kept in memory: `full`, or `ludo`, which keeps no keys and takes a quarter of it, for a server of
    /// its own only [default: full]
    #[arg(long, env = "TRILITH_INDEX")]
    pub index: Option<String>,
    /// How much memory all uploads in hand have together, e.g. 1GiB; 64MiB or more. Uploads beyond it wait
    /// [default: an eighth of the memory, from 64MiB to 512MiB]
    #[arg(long, env = "TRILITH_UPLOAD_MEMORY")]
    pub upload_memory: Option<String>,
    /// Threads that serve requests [default: one per processor]
    #[arg(long, env = "TRILITH_CORES")]
    pub cores: Option<String>,
    /// What to log, e.g. warn or logstore=debug,info [default: info, less of libraries]
    #[arg(long, env = "TRILITH_LOG")]
    pub log: Option<String>,
    /// How to log: text or json [default: text]
    #[arg(long, env = "TRILITH_LOG_FORMAT")]
    pub log_format: Option<String>,
}

/// When appends are acknowledged.
pub use ::device::SyncMode;

/// The settings of one server, complete and checked.
#[derive(Clone, Debug)]
pub struct Settings {
    pub data: PathBuf,
    pub s3_address: SocketAddr,
    pub admin_address: SocketAddr,
    pub root: Option<(String, String)>,
    pub default_buckets: Vec<String>,
    pub region: String,
    pub domain: Option<String>,
    /// Empty: one file in the data folder.
    pub devices: Vec<PathBuf>,
    pub device_size: Option<u64>,
    /// Bytes of each new device's region for chunks; 0: none.
    /// Of the node's part of the chunk store.
    pub chunks: ChunkSettings,
    /// Inodes of a tree of a file volume before the volume gets another one.
    pub tree_inodes: u64,
    pub sync: SyncMode,
    /// What a person can set of the log engine; cell and gateway are its own.
    pub engine: LogStoreConfig,
    /// Bytes that all uploads in hand have together.
    pub upload_memory: usize,
    pub cores: usize,
    pub log: String,
    pub log_json: bool,
}

impl ServeArgs {
    /// Fills in what neither flags nor environment say, and checks everything.
    pub fn settle(&self) -> anyhow::Result<Settings> {
        let data = self.data.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DATA));
        let file = ConfigFile::read(&data, self.config.as_deref())?;
        let pick = |flag: &Option<String>, key: &str| flag.clone().or_else(|| file.get(key));
        let root = match (pick(&self.root_user, "root_user"), pick(&self.root_password, "root_password")) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            _ => bail!("root_user and root_password belong together: set both, or neither"),
        };
        let data = if self.data.is_none() { file.get("data").map_or(data, PathBuf::from) } else { data };
        let log_format = pick(&self.log_format, "log_format").unwrap_or_else(|| "text".to_owned());
        Ok(Settings {
            data,
            s3_address: address("s3_addr", pick(&self.s3_addr, "s3_addr"), DEFAULT_S3_ADDRESS)?,
            admin_address: address("admin_addr", pick(&self.admin_addr, "admin_addr"), DEFAULT_ADMIN_ADDRESS)?,
            root,
            default_buckets: list(pick(&self.default_buckets, "default_buckets")),
            region: pick(&self.region, "region").unwrap_or_else(|| DEFAULT_REGION.to_owned()),
            domain: pick(&self.domain, "domain"),
            devices: list(pick(&self.devices, "devices")).into_iter().map(PathBuf::from).collect(),
            device_size: pick(&self.device_size, "device_size").map(|text| size("device_size", &text)).transpose()?,
            chunks: chunks(
                pick(&self.shard_chunks, "shard_chunks"),
                pick(&self.chunk_placer, "chunk_placer"),
                pick(&self.chunk_balance, "chunk_balance"),
            )?,
            tree_inodes: tree_inodes(pick(&self.tree_inodes, "tree_inodes").as_deref())?,
            sync: sync_mode(pick(&self.sync, "sync").as_deref().unwrap_or("always"))?,
            engine: engine(|flag, key| pick(flag, key), self)?,
            upload_memory: upload_memory(pick(&self.upload_memory, "upload_memory").as_deref())?,
            cores: cores(pick(&self.cores, "cores"))?,
            log: pick(&self.log, "log").unwrap_or_else(|| DEFAULT_LOG.to_owned()),
            log_json: match log_format.as_str() {
                "json" => true,
                "text" => false,
                other => bail!("log_format is `text` or `json`, not `{other}`"),
            },
        })
    }
}

/// Keys of the file.
const KEYS: &[&str] = &[
    "data",
    "s3_addr",
    "admin_addr",
    "root_user",
    "root_password",
    "default_buckets",
    "region",
    "domain",
    "devices",
    "device_size",
    "shard_chunks",
    "chunk_placer",
    "chunk_balance",
    "tree_inodes",
    "sync",
    "consistency",
    "background_rate",
    "scrub_period",
    "checkpoint_entries",
    "index",
    "upload_memory",
    "cores",
    "log",
    "log_format",
];

/// What the configuration file says.
#[derive(Default)]
struct ConfigFile(toml::Table);

impl ConfigFile {
    fn read(data: &Path, named: Option<&Path>) -> anyhow::Result<Self> {
        let path = named.map_or_else(|| data.join(CONFIG_FILE), Path::to_owned);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => return Ok(ConfigFile::default()),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let table: toml::Table = text.parse()?;
        for (key, value) in &table {
            if !KEYS.contains(&key.as_str()) {
                bail!("there is no key `{key}`{}", suggestion(key));
            }
            if value.is_table() {
                bail!("`{key}` is a table; write `{key} = ...`");
            }
        }
        Ok(ConfigFile(table))
    }

    /// A value as its flag would be written.
    fn get(&self, key: &str) -> Option<String> {
        let text = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.0.get(key).map(|value| match value.as_array() {
            Some(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
            None => text(value),
        })
    }
}

/// The log engine's settings.
fn engine(pick: impl Fn(&Option<String>, &str) -> Option<String>, args: &ServeArgs) -> anyhow::Result<LogStoreConfig> {
    let default = LogStoreConfig::default();
    let rate = pick(&args.background_rate, "background_rate").map(|text| size("background_rate", &text)).transpose()?;
    let scrub_period = pick(&args.scrub_period, "scrub_period").map(|text| period("scrub_period", &text)).transpose()?;
    let entries = pick(&args.checkpoint_entries, "checkpoint_entries").map(|text| match text.parse() {
        Ok(entries) if entries > 0 => Ok(entries),
        _ => Err(anyhow::anyhow!("checkpoint_entries is a number of 1 or more, not `{text}`")),
    });
    Ok(LogStoreConfig {
        consistency: consistency(pick(&args.consistency, "consistency").as_deref())?,
        collect_bytes_per_second: rate.unwrap_or(default.collect_bytes_per_second).max(1),
        scrub_period: scrub_period.unwrap_or(default.scrub_period),
        checkpoint_entries: entries.transpose()?.unwrap_or(default.checkpoint_entries),
        index: index(pick(&args.index, "index").as_deref())?,
        ..default
    })
}

fn index(text: Option<&str>) -> anyhow::Result<IndexForm> {
    match text {
        None | Some("full") => Ok(IndexForm::Full),
        Some("ludo") => Ok(IndexForm::Ludo(LudoForm::default())),
        Some(other) => bail!("index is `full` or `ludo`, not `{other}`"),
    }
}

fn consistency(text: Option<&str>) -> anyhow::Result<Consistency> {
    match text {
        None | Some("linearizable") => Ok(Consistency::Linearizable),
        Some("read-after-write") => Ok(Consistency::ReadAfterWrite),
        Some(other) => bail!("consistency is `linearizable` or `read-after-write`, not `{other}`"),
    }
}

fn suggestion(key: &str) -> String {
    let nearest = KEYS.iter().map(|known| (edits(key, known), known)).min();
    match nearest {
        Some((edits, known)) if edits <= MAX_TYPO_EDITS => format!("; did you mean `{known}`?"),
        _ => format!("; the keys are {}", KEYS.join(", ")),
    }
}

/// Levenshtein distance.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

fn list(text: Option<String>) -> Vec<String> {
    let text = text.unwrap_or_default();
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

fn address(key: &str, text: Option<String>, default: &str) -> anyhow::Result<SocketAddr> {
    let text = text.unwrap_or_else(|| default.to_owned());
    text.parse().with_context(|| format!("{key} is an address and a port such as {default}, not `{text}`"))
}

fn cores(text: Option<String>) -> anyhow::Result<usize> {
    match text {
        None => Ok(std::thread::available_parallelism().map_or(1, |cores| cores.get())),
        Some(text) => match text.parse() {
            Ok(cores) if cores > 0 => Ok(cores),
            _ => bail!("cores is a number from 1, not `{text}`"),
        },
    }
}

fn upload_memory(text: Option<&str>) -> anyhow::Result<usize> {
    let Some(text) = text else { return Ok(UploadMemory::default_bytes(env::memory_bytes())) };
    match usize::try_from(size("upload_memory", text)?) {
        Ok(bytes) if bytes >= LEAST_UPLOAD_MEMORY => Ok(bytes),
        _ => bail!("upload_memory is {} MiB or more, not `{text}`", LEAST_UPLOAD_MEMORY >> 20),
    }
}

fn sync_mode(text: &str) -> anyhow::Result<SyncMode> {
    if let Some(milliseconds) = text.strip_prefix("batch:") {
        let flush_interval_ms = milliseconds.parse().ok().filter(|ms| *ms > 0);
        let flush_interval_ms =
            flush_interval_ms.with_context(|| format!("sync=batch:MS needs a number of milliseconds, not `{milliseconds}`"))?;
        return Ok(SyncMode::Batch { flush_interval_ms });
    }
    match text {
        "always" => Ok(SyncMode::Always),
        "off" => Ok(SyncMode::Off),
        other => bail!("sync is `always`, `batch:MS` or `off`, not `{other}`"),
    }
}

fn tree_inodes(text: Option<&str>) -> anyhow::Result<u64> {
    let Some(text) = text else { return Ok(SOFT_INODES) };
    let count = text.parse().ok().filter(|count| *count > 0);
    count.with_context(|| format!("tree_inodes is a number of 1 or more, not `{text}`"))
}

fn chunks(shard_chunks: Option<String>, placer: Option<String>, balance: Option<String>) -> anyhow::Result<ChunkSettings> {
    let mut settings = ChunkSettings::default();
    if let Some(text) = shard_chunks {
        let count = text.parse().ok().filter(|count| (1..=MAX_SHARD_CHUNKS).contains(count));
        settings.shard_chunks =
            count.with_context(|| format!("shard_chunks is a number from 1 to {MAX_SHARD_CHUNKS}, not `{text}`"))?;
    }
    if let Some(name) = placer {
        settings.placer = name.parse().context("chunk_placer")?;
    }
    settings.is_balanced = match balance.as_deref() {
        None => settings.placer == PlacerChoice::LeastLoaded,
        Some("off") => false,
        Some("on") if settings.placer == PlacerChoice::LeastLoaded => true,
        Some("on") => {
            bail!("chunk_balance is `off` where chunk_placer is not `least-loaded`: copies stand where that has them")
        }
        Some(other) => bail!("chunk_balance is `on` or `off`, not `{other}`"),
    };
    Ok(settings)
}

/// A time with its unit, at most some years; zero for `off`.
fn period(key: &str, text: &str) -> anyhow::Result<Duration> {
    if text == "off" {
        return Ok(Duration::ZERO);
    }
    time(text).with_context(|| format!("{key} is a time such as 14d or 36h, or `off`, not `{text}`"))
}

/// A time with its unit, s, m, h or d; none of what is no time, or none at all.
pub fn time(text: &str) -> Option<Duration> {
    let seconds = match text.chars().last()? {
        'd' => 24 * 3600,
        'h' => 3600,
        'm' => 60,
        's' => 1,
        _ => return None,
    };
    let count = text[..text.len() - 1].parse::<u32>().ok().filter(|count| *count > 0)?;
    Some(Duration::from_secs(u64::from(count) * seconds))
}

/// A number of bytes, with a unit: 512MiB, 100GB, 1TiB.
pub fn size(key: &str, text: &str) -> anyhow::Result<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        unit => bail!("{key}: `{unit}` is no unit of size; write for example 100GiB"),
    };
    let number: u64 =
        text[..digits].parse().with_context(|| format!("{key}: `{text}` is no size; write for example 100GiB"))?;
    number.checked_mul(unit).with_context(|| format!("{key}: {text} is more than can be counted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_named_with_the_nearest_key() {
        let error = ConfigFile::parse("s3_adr = \"127.0.0.1:9000\"").err().unwrap().to_string();
        assert_eq!(error, "there is no key `s3_adr`; did you mean `s3_addr`?");
        let error = ConfigFile::parse("zzzzzzzzzzzzz = 1").err().unwrap().to_string();
        assert!(error.contains("the keys are data, s3_addr"), "{error}");
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join(CONFIG_FILE),
            "region = \"eu-1\"\ns3_addr = \"127.0.0.1:7\"\ndefault_buckets = [\"a\", \"b\"]\ncores = 3\n\
             consistency = \"read-after-write\"\nbackground_rate = \"1MiB\"\ncheckpoint_entries = 9\n\
             scrub_period = \"36h\"\nupload_memory = \"1GiB\"\nindex = \"ludo\"\nshard_chunks = 500\nchunk_placer = \"mapx\"\n\
             tree_inodes = 7\n",
        )
        .unwrap();
        let args =
            ServeArgs { data: Some(folder.path().to_owned()), s3_addr: Some("127.0.0.1:8".to_owned()), ..ServeArgs::default() };
        let settings = args.settle().unwrap();
        assert_eq!(settings.s3_address.port(), 8);
        assert_eq!(settings.region, "eu-1");
        assert_eq!(settings.default_buckets, ["a", "b"]);
        assert_eq!((settings.cores, settings.upload_memory, settings.tree_inodes), (3, 1 << 30, 7));
        assert_eq!(settings.engine.consistency, Consistency::ReadAfterWrite);
        assert_eq!((settings.engine.collect_bytes_per_second, settings.engine.checkpoint_entries), (1 << 20, 9));
        assert_eq!(settings.engine.scrub_period, Duration::from_secs(36 * 3600));
        assert_eq!(settings.engine.index, IndexForm::Ludo(LudoForm::default()));
        assert_eq!(
            settings.chunks,
            ChunkSettings { shard_chunks: 500, placer: PlacerChoice::MapX, is_balanced: false, ..ChunkSettings::default() }
        );
        assert_eq!(settings.admin_address.port(), 9001);
    }

    #[test]
    fn wrong_values_say_what_is_right() {
        let balance = |placer: &str, balance: &str| chunks(None, Some(placer.to_owned()), Some(balance.to_owned()));
        assert!(balance("crush", "on").unwrap_err().to_string().contains("`least-loaded`"));
        assert!(balance("least-loaded", "perhaps").unwrap_err().to_string().contains("`on` or `off`"));
        assert!(!balance("least-loaded", "off").unwrap().is_balanced && chunks(None, None, None).unwrap().is_balanced);
        assert!(sync_mode("batch:0").is_err());
        assert_eq!(sync_mode("batch:5").unwrap(), SyncMode::Batch { flush_interval_ms: 5 });
        assert!(sync_mode("sometimes").unwrap_err().to_string().contains("`always`"));
        assert_eq!(size("x", "3GiB").unwrap(), 3 << 30);
        assert_eq!(size("x", "5mb").unwrap(), 5_000_000);
        assert!(size("x", "5 parsecs").is_err());
        assert_eq!(period("x", "14d").unwrap(), Duration::from_secs(14 * 24 * 3600));
        assert_eq!(period("x", "off").unwrap(), Duration::ZERO);
        for wrong in ["", "d", "0h", "-1d", "14", "1 fortnight"] {
            assert!(period("x", wrong).unwrap_err().to_string().contains("such as 14d"), "{wrong}");
        }
        assert_eq!(consistency(None).unwrap(), Consistency::Linearizable);
        assert_eq!(consistency(Some("read-after-write")).unwrap(), Consistency::ReadAfterWrite);
        assert!(consistency(Some("eventual")).unwrap_err().to_string().contains("`read-after-write`"));
        assert_eq!((index(None).unwrap(), index(Some("full")).unwrap()), (IndexForm::Full, IndexForm::Full));
        for wrong in ["0", "many", "-1"] {
            assert!(chunks(Some(wrong.to_owned()), None, None).unwrap_err().to_string().contains("from 1 to"), "{wrong}");
        }
        assert!(format!("{:#}", chunks(None, Some("hash".to_owned()), None).unwrap_err()).contains("`crush`"));
        assert!(upload_memory(Some("63MiB")).unwrap_err().to_string().contains("64 MiB or more"));
        assert!(upload_memory(None).unwrap() >= LEAST_UPLOAD_MEMORY);
        assert!(index(Some("hash")).unwrap_err().to_string().contains("`ludo`"));
        assert!(address("s3_addr", Some("9000".to_owned()), DEFAULT_S3_ADDRESS).is_err());
    }
}
