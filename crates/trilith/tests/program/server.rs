//! A server of a test: its own folder, ports that the system chooses, and a deadline on everything that is waited for.

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;
use tempfile::TempDir;

pub const USER: &str = "tester";
pub const PASSWORD: &str = "tester-secret";
/// Until a server serves, or ends.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something that is waited for.
pub const LOOK: Duration = Duration::from_millis(2);

/// A folder for servers that come after one another.
pub struct Home {
    folder: TempDir,
}

impl Home {
    pub fn new() -> Home {
        Home { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Keeps the folder for whoever looks into a failure.
    fn keep_after_failure(&mut self) {
        self.folder.disable_cleanup(true);
        println!("what the servers left is in {}", self.folder.path().display());
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// A server on this folder's data, with root credentials and ports of its own; `more` flags come last.
    pub fn serve(&self, more: &[&str]) -> Server {
        let known = ["--root-user", USER, "--root-password", PASSWORD];
        self.serve_bare(&[&known, more].concat())
    }

    /// The same, with its log on a full disk.
    pub fn serve_with_full_log(&self, more: &[&str]) -> Server {
        let known = ["--root-user", USER, "--root-password", PASSWORD];
        Server::start(&self.data(), Path::new("/dev/full"), &[&known, more].concat())
    }

    /// The same without credentials.
    pub fn serve_bare(&self, more: &[&str]) -> Server {
        Server::start(&self.data(), &self.path("server.log"), more)
    }

    /// One that goes on where a file may not grow any more ([`Server::limit_files`]).
    pub fn serve_limited(&self) -> Server {
        let mut shell = Command::new("/bin/sh");
        shell.env_clear().stdin(Stdio::null());
        shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_trilith")]);
        let command = set_up_to_serve(shell, &self.data(), &["--root-user", USER, "--root-password", PASSWORD]);
        Server::begin(command, &self.data(), &self.path("server.log"))
    }

    /// What the servers have logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("server.log")).expect("a log")
    }

    /// A server that nobody waits for.
    pub fn spawn(&self, more: &[&str]) -> Child {
        let mut command = serve_command(&self.data(), more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
    }

    /// A server that is expected to end by itself.
    pub fn serve_to_the_end(&self, more: &[&str]) -> Output {
        let mut child = self.spawn(more);
        if wait(&mut child).is_none() {
            // It may have ended just now.
            drop(child.kill());
            let output = child.wait_with_output().expect("a child can be waited for");
            panic!("it serves with {more:?}: {}{}", text(&output.stdout), text(&output.stderr));
        }
        child.wait_with_output().expect("a child can be waited for")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.keep_after_failure();
        }
    }
}

/// The program without a word of the environment that would change its settings.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trilith"));
    command.env_clear().stdin(Stdio::null());
    command
}

fn serve_command(data: &Path, more: &[&str]) -> Command {
    set_up_to_serve(program(), data, more)
}

fn set_up_to_serve(mut command: Command, data: &Path, more: &[&str]) -> Command {
    // In the environment, so that flags win.
    command.env("TRILITH_S3_ADDR", "127.0.0.1:0").env("TRILITH_ADMIN_ADDR", "127.0.0.1:0");
    command.env("TRILITH_DEVICE_SIZE", "1GiB").env("TRILITH_CORES", "2").env("TRILITH_DATA", data);
    command.arg("serve").args(more);
    command
}

/// A running server. Dropped, it is killed.
pub struct Server {
    child: Child,
    pub s3: String,
    pub admin: String,
    data: PathBuf,
    /// What it has printed so far, and what comes.
    printed: Option<(Vec<String>, Receiver<String>)>,
}

impl Server {
    fn start(data: &Path, log: &Path, more: &[&str]) -> Server {
        Server::begin(serve_command(data, more), data, log)
    }

    fn begin(mut command: Command, data: &Path, log: &Path) -> Server {
        let log_file = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        let mut child = command.stdout(Stdio::piped()).stderr(log_file).spawn().expect("the program starts");
        let lines = lines_of(child.stdout.take().expect("piped"));
        let mut seen = Vec::new();
        let mut address = |mark: &str| loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let rest =
                        line.contains(mark).then(|| line.split("http://").nth(1).expect("the greeting names an address"));
                    let address = rest.map(|rest| rest.split(' ').next().unwrap_or_default().to_owned());
                    seen.push(line);
                    if let Some(address) = address {
                        break address;
                    }
                }
                Err(_) => panic!("no greeting; the log says:\n{}", std::fs::read_to_string(log).unwrap_or_default()),
            }
        };
        let s3 = address("serves S3");
        let admin = address("admin");
        Server { child, s3, admin, data: data.to_owned(), printed: Some((seen, lines)) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A command of the program against this server, with root credentials.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command.env("TRILITH_ENDPOINT", format!("http://{}", self.s3)).env("TRILITH_ADMIN_ADDR", &self.admin);
        command.env("TRILITH_ROOT_USER", USER).env("TRILITH_ROOT_PASSWORD", PASSWORD).env("TRILITH_DATA", &self.data);
        command.args(arguments);
        command
    }

    /// Runs a command that must succeed; its output.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("the program runs");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs a command that must fail; what it complains about.
    pub fn fail(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stderr)
    }

    /// Makes a bucket that everybody may use.
    pub fn make_open_bucket(&self, name: &str) {
        self.run(&["bucket", "make", name]);
        self.run(&["bucket", "policy", "set", name, "public-read-write"]);
    }

    /// No file of the server grows beyond this from here on, as if there was no room.
    pub fn limit_files(&self, bytes: u64) {
        let limit = Rlimit { current: Some(bytes), ..getrlimit(Resource::Fsize) };
        prlimit(Some(self.process()), Resource::Fsize, limit).expect("our own child can be limited");
    }

    /// Tells the server to stop.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends the server in the middle of whatever it does.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("a child can be waited for");
    }

    /// Waits until the server has ended.
    pub fn ended(mut self) -> ExitStatus {
        wait(&mut self.child).unwrap_or_else(|| panic!("the server did not end in {PATIENCE:?}"))
    }

    /// Stops the server in order.
    pub fn stop(self) {
        self.terminate();
        let status = self.ended();
        assert!(status.success(), "{status}");
    }

    /// Stops the server in order; all that it printed.
    pub fn stop_and_tell(mut self) -> String {
        let (mut seen, rest) = self.printed.take().expect("taken here only");
        self.stop();
        // The pipe ends with the process.
        seen.extend(rest);
        seen.join("\n")
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.process(), signal).expect("our own child can be signalled");
    }

    fn process(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32).expect("a process id")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits for a server's end; `None` if it takes too long.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let env = env::Env::real_with_cores(1);
    let deadline = env.now() + PATIENCE;
    loop {
        let ended = child.try_wait().expect("a child can be waited for");
        if ended.is_some() || env.now() >= deadline {
            return ended;
        }
        std::thread::sleep(LOOK);
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines of a pipe, read to its end so that its writer never waits.
fn lines_of(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = sync_channel(64);
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // Nobody listens after the greeting.
            drop(sender.try_send(line));
        }
    });
    receiver
}
