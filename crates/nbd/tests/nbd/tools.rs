//! Real clients over real sockets. A tool that is not installed is said to be left out:
//!
//! ```sh
//! apt install qemu-utils libnbd-bin nbdfuse fio e2fsprogs
//! ```

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nbd::{Listener, NbdConfig, NbdServer, Stop, Timeouts};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::memory::{Fixed, Memory};

const SIZE: u64 = 64 << 20;
/// Longest time of one tool.
const TOOL_LIMIT_SECONDS: &str = "60";
const MOUNT_TRIES: usize = 100;

/// A server on a thread of its own, on a Unix socket.
struct Served {
    folder: TempDir,
    stop: watch::Sender<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn start() -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = Listener::unix(&folder.path().join("nbd.sock")).expect("a free path");
        let timeouts = Timeouts { grace: Duration::ZERO, ..Timeouts::default() };
        let exports = Arc::new(Fixed(vec![Arc::new(Memory::new("disk", SIZE)), Arc::new(Memory::new("small", 1 << 20))]));
        let server = NbdServer::new(exports, NbdConfig { timeouts, ..NbdConfig::default() });
        let (stop, stopped) = watch::channel(Stop::Run);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(server.serve(listener, stopped)).expect("it ends well");
        });
        Served { folder, stop, thread: Some(thread) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.path("nbd.sock").display())
    }

    /// An image file with some data and some holes.
    fn image(&self) -> PathBuf {
        let path = self.path("source.img");
        let mut content = vec![0; SIZE as usize];
        for (index, byte) in content[1 << 20..9 << 20].iter_mut().enumerate() {
            *byte = (index * 7 + index / 4096) as u8;
        }
        content[SIZE as usize - 512..].fill(3);
        fs::write(&path, content).expect("room for an image");
        path
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.send_replace(Stop::End);
        let joined = self.thread.take().expect("it is dropped once").join();
        if !std::thread::panicking() {
            joined.expect("the server does not panic");
        }
    }
}

/// Whether all of these are installed; says so if not.
fn have(programs: &[&str]) -> bool {
    let is_there = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).any(|folder| folder.join(program).is_file())
    };
    let missing: Vec<_> = programs.iter().filter(|program| !is_there(program)).collect();
    if !missing.is_empty() {
        leave_out(&format!("not installed: {missing:?}"));
    }
    missing.is_empty()
}

/// Says that the present test is left out. Not by `println!`, which the test runner keeps to itself when a test passes.
fn leave_out(why: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    writeln!(std::io::stderr(), "LEFT OUT: {test}: {why}").expect("there is a standard error");
}

/// Runs a program to its end; what it says.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new("timeout")
        .args([TOOL_LIMIT_SECONDS, program])
        .args(arguments)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{said}", output.status);
    said
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of plain text")
}

#[test]
fn nbdinfo() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let served = Served::start();
    let said = run("nbdinfo", &[&served.uri("disk")]);
    for line in [
        "protocol: newstyle-fixed without TLS, using structured packets",
        "export-size: 67108864",
        "base:allocation",
        "can_fua: true",
        "can_multi_conn: true",
        "can_df: true",
        "block_size_minimum: 512",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let said = run("nbdinfo", &["--list", &served.uri("")]);
    assert!(said.contains("export=\"disk\"") && said.contains("export=\"small\""), "{said}");
    assert_eq!(run("nbdinfo", &["--size", &served.uri("small")]).trim(), "1048576");
}

#[test]
fn nbdcopy_there_and_back_with_a_map_between() {
    if !have(&["nbdcopy", "nbdinfo"]) {
        return;
    }
    let served = Served::start();
    let (image, back) = (served.image(), served.path("back.img"));
    run("nbdcopy", &[text(&image), &served.uri("disk")]);
    let map = run("nbdinfo", &["--map", &served.uri("disk")]);
    let lines: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().collect()).collect();
    let hole = |offset, length| vec![offset, length, "3", "hole,zero"];
    let data = |offset, length| vec![offset, length, "0", "data"];
    let expected = [hole("0", "1048576"), data("1048576", "8388608"), hole("9437184", "57606144"), data("67043328", "65536")];
    assert_eq!(lines, expected, "{map}");
    run("nbdcopy", &["--connections=4", &served.uri("disk"), text(&back)]);
    assert!(fs::read(image).expect("it is there") == fs::read(back).expect("it is there"));
}

#[test]
fn qemu_img() {
    if !have(&["qemu-img"]) {
        return;
    }
    let served = Served::start();
    let (image, qcow) = (served.image(), served.path("back.qcow2"));
    let uri = served.uri("disk");
    run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", text(&image), &uri]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", text(&image), &uri]);
    run("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, text(&qcow)]);
    run("qemu-img", &["compare", text(&image), text(&qcow)]);
    let said = run("qemu-img", &["info", &uri]);
    assert!(said.contains("virtual size: 64 MiB"), "{said}");
    let said = run("qemu-img", &["map", "--output=json", "-f", "raw", &uri]);
    assert!(said.contains(r#""start": 1048576, "length": 8388608"#), "{said}");
}

#[test]
fn qemu_io() {
    if !have(&["qemu-io"]) {
        return;
    }
    let served = Served::start();
    let commands = [
        "write -f -P 7 0 64k",
        "write -z 64k 1M",
        "write -P 5 2M 2M",
        "write -z -u -f 2M 1M",
        "discard 8M 1M",
        "flush",
        "aio_write -P 3 20M 16M",
        "aio_write -P 4 40M 512",
        "aio_flush",
        "read -P 7 0 64k",
        "read -P 0 64k 1M",
        "read -P 0 2M 1M",
        "read -P 5 3M 1M",
        "read -P 3 20M 16M",
        "read -P 4 40M 512",
        "read 0 32M",
    ];
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    let uri = served.uri("disk");
    arguments.push(&uri);
    let said = run("qemu-io", &arguments);
    assert!(!said.contains("failed"), "{said}");
}

#[test]
fn fio() {
    if !have(&["fio"]) {
        return;
    }
    let served = Served::start();
    let uri = served.uri("disk");
    let engines = run("fio", &["--enghelp"]);
    if !engines.lines().any(|line| line.trim() == "nbd") {
        leave_out("this fio has no nbd engine");
        return;
    }
    let uri = format!("--uri={uri}");
    for pattern in ["randwrite", "randrw", "write"] {
        let pattern = format!("--rw={pattern}");
        let arguments = [
            "--name=nbd",
            "--ioengine=nbd",
            &uri,
            &pattern,
            "--bsrange=512-128k",
            "--bs_unaligned=0",
            "--blockalign=512",
            "--iodepth=32",
            "--size=32M",
            "--verify=crc32c",
            "--fsync=64",
            "--minimal",
        ];
        run("fio", &arguments);
    }
}

#[test]
fn a_file_system_over_nbdfuse_and_a_loop_device() {
    if !have(&["nbdfuse", "mkfs.ext4", "losetup", "mount", "fstrim"]) {
        return;
    }
    if !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() || run("id", &["-u"]).trim() != "0" {
        leave_out("needs root, /dev/fuse and loop devices");
        return;
    }
    let served = Served::start();
    let (file, folder) = (served.path("fuse"), served.path("mounted"));
    fs::create_dir(&folder).expect("a new folder");
    fs::write(&file, "").expect("a new file");
    let mut fuse = Command::new("timeout")
        .args([TOOL_LIMIT_SECONDS, "nbdfuse", text(&file), &served.uri("disk")])
        .spawn()
        .expect("nbdfuse starts");
    let script = format!(
        "set -e
         for try in $(seq {MOUNT_TRIES}); do [ \"$(stat -c %s {file})\" = {SIZE} ] && break; sleep 0.1; done
         device=$(losetup -f --show {file})
         trap 'umount {folder} 2>/dev/null || true; losetup -d $device; fusermount3 -u {file}' EXIT
         mkfs.ext4 -q $device
         mount $device {folder}
         seq 1 200000 > {folder}/numbers
         sync
         umount {folder}
         e2fsck -fn $device
         mount $device {folder}
         seq 1 200000 | cmp - {folder}/numbers
         rm {folder}/numbers
         fstrim {folder}",
        file = file.display(),
        folder = folder.display(),
    );
    run("bash", &["-c", &script]);
    fuse.wait().expect("it was started");
}
