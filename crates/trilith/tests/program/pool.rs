//! One pool of space: what objects give up, chunks get, and the other way round.

use crate::server::{Home, Server, text};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

/// Zones of 8 MiB: 24 of them.
const DEVICE: &str = "200MiB";
/// About half a zone.
const CONTENT_BYTES: usize = 3_900_000;
/// Until collection has made room, or has none to make.
const PATIENCE: Duration = Duration::from_secs(15);
/// Until the chunk store has its first shard.
const START_PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);
/// What must fit at least: the reserve, and what is begun, take some of 200 MiB.
const LEAST: usize = 22;

struct Pool {
    server: Server,
    data: PathBuf,
    file: PathBuf,
}

impl Pool {
    fn ask(&self, arguments: &[&str]) -> Output {
        self.server.command(arguments).output().expect("the program starts")
    }

    fn put_object(&self, number: usize) -> Result<String, String> {
        let name = format!("box/{number}");
        let output = self.ask(&["object", "put", show(&self.file), &name]);
        if output.status.success() { Ok(name) } else { Err(text(&output.stderr)) }
    }

    fn put_chunk(&self) -> Result<String, String> {
        let output = self.ask(&["chunk", "put", show(&self.file), "--data", show(&self.data)]);
        if output.status.success() { Ok(text(&output.stdout).trim().to_owned()) } else { Err(text(&output.stderr)) }
    }

    fn remove_object(&self, name: &str) {
        let output = self.ask(&["object", "rm", name]);
        assert!(output.status.success(), "a delete is refused: {}", text(&output.stderr));
    }

    fn remove_chunk(&self, id: &str) {
        let output = self.ask(&["chunk", "rm", id, "--data", show(&self.data)]);
        assert!(output.status.success(), "a delete is refused: {}", text(&output.stderr));
    }

    /// The chunks are whole.
    fn check_chunks(&self, ids: &[String]) {
        let expected = std::fs::read(&self.file).expect("it is there");
        for id in ids {
            let output = self.ask(&["chunk", "get", id, "--data", show(&self.data)]);
            assert!(output.status.success() && output.stdout == expected, "{id}: {}", text(&output.stderr));
        }
    }
}

fn show(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

/// Puts until nothing is taken for a while.
fn fill(mut put: impl FnMut(usize) -> Result<String, String>) -> Vec<String> {
    let mut names = Vec::new();
    let mut pauses = 0;
    loop {
        match put(names.len()) {
            Ok(name) => {
                names.push(name);
                pauses = 0;
            }
            Err(error) if PAUSE * pauses >= if names.is_empty() { START_PATIENCE } else { PATIENCE } => {
                println!("{} fit: {error}", names.len());
                return names;
            }
            Err(_) => {
                std::thread::sleep(PAUSE);
                pauses += 1;
            }
        }
    }
}

#[test]
fn each_part_gets_what_the_other_gives_back() {
    let home = Home::new();
    let server = home.serve(&["--device-size", DEVICE, "--default-buckets", "box"]);
    let file = home.path("content");
    std::fs::write(&file, vec![7; CONTENT_BYTES]).expect("it can be written");
    let pool = Pool { server, data: home.data(), file };

    let objects = fill(|number| pool.put_object(number));
    assert!(objects.len() >= LEAST, "{} objects fit", objects.len());
    let (gone, kept) = objects.split_at(objects.len() / 2);
    gone.iter().for_each(|name| pool.remove_object(name));
    let chunks = fill(|_| pool.put_chunk());
    assert!(chunks.len() * 2 >= gone.len(), "{} chunks where {} objects were", chunks.len(), gone.len());

    // With both full, deletes of either go on, also after a start.
    chunks.iter().skip(1).for_each(|id| pool.remove_chunk(id));
    kept.iter().skip(1).for_each(|name| pool.remove_object(name));
    pool.check_chunks(&chunks[..1]);
    let again = fill(|number| pool.put_object(1000 + number));
    // The rest comes when the unit has had the last chunks forgotten.
    assert!(again.len() * 3 >= objects.len() * 2, "{} objects where {} were", again.len(), objects.len());
    let Pool { server, data, file } = pool;
    server.kill();
    let server = home.serve(&["--device-size", DEVICE]);
    let pool = Pool { server, data, file };
    again.iter().for_each(|name| pool.remove_object(name));
    pool.check_chunks(&chunks[..1]);
    let last = fill(|_| pool.put_chunk());
    assert!(last.len() * 2 >= again.len(), "{} chunks where {} objects were", last.len(), again.len());
}
