//! Ports that are taken, and the processes that have them. A start looks before it does anything else: what it says then is for the person who
//! has started it, and names what to stop.
//!
//! The kernel tells which socket listens (`/proc/net/tcp`), and of each process which sockets it has (`/proc/PID/fd`), as far as this user may know.

use crate::settings::Settings;
use anyhow::bail;
use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;

/// The kernel's number of a socket that listens.
const LISTENS: &str = "0A";
/// Most characters of a process's command line that are shown.
const MAX_COMMAND_CHARACTERS: usize = 80;

/// Refuses settings whose ports are taken.
pub fn check(settings: &Settings, is_gateway: bool) -> anyhow::Result<()> {
    if is_gateway {
        check_free(settings.s3_address, "choose another address with --s3-addr, TRILITH_S3_ADDR or `s3_addr`")?;
    }
    check_free(settings.admin_address, "choose another address with --admin-addr, TRILITH_ADMIN_ADDR or `admin_addr`")
}

/// Refuses an address for the other nodes that is taken. One that can't be read is for its listener to refuse.
pub fn check_cluster(address: &str) -> anyhow::Result<()> {
    match address.parse() {
        Ok(address) => check_free(address, "give this node another `address` in cluster.toml"),
        Err(_) => Ok(()),
    }
}

/// Refuses an address at which a program listens, and names it.
pub fn check_free(address: SocketAddr, advice: &str) -> anyhow::Result<()> {
    match TcpListener::bind(address) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let holder = holder(address).map_or_else(|| "another program".to_owned(), |holder| holder.to_string());
            bail!("{address} is taken: {holder} listens there. Stop it, or {advice}")
        }
        // What else is wrong with it, the one that listens there says.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    id: u32,
    command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.id, self.command)
    }
}

/// The process that listens at an address, if it may be known.
fn holder(address: SocketAddr) -> Option<Holder> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|path| std::fs::read_to_string(path).ok());
    let socket = tables.into_iter().find_map(|table| listening(&table, address))?;
    let link = format!("socket:[{socket}]");
    let processes = std::fs::read_dir("/proc").ok()?.map_while(Result::ok);
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let id = ids.find(|id| has_open(*id, Path::new(&link)))?;
    Some(Holder { id, command: command_of(id) })
}

fn has_open(process: u32, link: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    entries.map_while(Result::ok).any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == link))
}

fn command_of(process: u32) -> String {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    let words = read("cmdline").trim_end_matches('\0').replace('\0', " ");
    let command = if words.is_empty() { read("comm").trim_end().to_owned() } else { words };
    command.chars().filter(|character| !character.is_control()).take(MAX_COMMAND_CHARACTERS).collect()
}

/// The number of the socket that keeps others from an address, by one of the kernel's tables.
fn listening(table: &str, address: SocketAddr) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (local, state, socket) = (local_address(fields.get(1)?)?, *fields.get(3)?, fields.get(9)?);
        let is_same = local.ip() == address.ip() || local.ip().is_unspecified() || address.ip().is_unspecified();
        let is_it = state == LISTENS && local.port() == address.port() && is_same;
        if is_it { socket.parse().ok() } else { None }
    })
}

/// `0100007F:2328`: words of 32 bits in the machine's order, and the port.
fn local_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::new();
    for word in ip.as_bytes().chunks(8) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::{check_free, holder, listening};
    use std::net::{SocketAddr, TcpListener};

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
           0: 0100007F:2328 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0\n\
           1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0 10 0\n\
           2: 0100007F:2329 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0 20 4 30 10 -1\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_kernels_table_names_the_socket_that_listens() {
        let socket = |address: &str| listening(TABLE, address.parse().unwrap());
        assert_eq!(socket("127.0.0.1:9000"), Some(4711));
        assert_eq!(socket("0.0.0.0:9000"), Some(4711));
        assert_eq!(socket("127.0.0.2:9000"), None, "each address has ports of its own");
        assert_eq!(socket("127.0.0.2:8080"), Some(4712), "of all addresses");
        assert_eq!(socket("127.0.0.1:9001"), None, "a connection is no listener");
    }

    #[test]
    fn a_taken_port_is_told_with_the_process_that_has_it() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let address: SocketAddr = listener.local_addr().unwrap();
            assert_eq!(holder(address).unwrap().id, std::process::id());
            let error = check_free(address, "choose another").unwrap_err().to_string();
            let process = format!("process {} (", std::process::id());
            assert!(
                error.contains(&address.to_string()) && error.contains(&process) && error.ends_with("choose another"),
                "{error}"
            );
            drop(listener);
            check_free(address, "").unwrap();
        }
    }
}
