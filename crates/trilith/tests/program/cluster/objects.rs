//! What one node was told, every other one knows: objects small and large, uploads in parts, lists, conditions, deletes, buckets.

use super::NODES;
use super::fixture::Cluster;
use crate::http::{Answer, Connection};
use crate::listing::list;
use std::collections::BTreeMap;

/// Lengths of contents: none, within a record, several chunks of a large object.
const LENGTHS: [usize; 5] = [0, 1, 9_000, 300_000, 3_500_000];
const BUCKET: &str = "shared";
/// The least that a part other than the last may have.
const PART_BYTES: usize = 5 << 20;

/// A connection to each node.
struct Nodes(Vec<Connection>);

impl Nodes {
    fn of(cluster: &Cluster) -> Nodes {
        Nodes(cluster.all_s3().iter().map(|address| Connection::open(address).unwrap()).collect())
    }

    fn ask(&mut self, node: usize, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.0[node % NODES].ask(method, &format!("/{BUCKET}/{path}"), headers, body).unwrap()
    }

    fn put(&mut self, node: usize, path: &str, body: &[u8]) -> String {
        let answer = self.ask(node, "PUT", path, &[], body);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.header("etag").unwrap().to_owned()
    }

    fn get(&mut self, node: usize, path: &str) -> (u16, Vec<u8>) {
        let answer = self.ask(node, "GET", path, &[], b"");
        (answer.status, answer.body)
    }
}

fn content(length: usize, seed: u64) -> Vec<u8> {
    let mut random = bench::random::Random::new(seed, 0);
    (0..length).map(|_| random.next_u64() as u8).collect()
}

/// All of it on one cluster, because to make one takes a while.
#[test]
fn what_one_node_was_told_all_know() {
    let cluster = Cluster::of_three();
    cluster.make_open_bucket(BUCKET);
    let mut nodes = Nodes::of(&cluster);
    objects_of_all_lengths(&mut nodes);
    conditions(&mut nodes);
    uploads_in_parts(&mut nodes);
    buckets_and_credentials(&cluster);
    open_uploads_end_with_their_bucket(&cluster);
    one_id_everywhere(&cluster);
    // Nothing is wrong: that a device is another node's is no reason to complain.
    for node in 0..NODES {
        let said = cluster.run(node, &["status"]);
        assert!(!said.contains("missing"), "{said}");
        let log = cluster.log(node);
        assert!(!log.contains("takes no writes"), "an ordinary start is no trouble of a disk: {log}");
    }
}

/// Of a bucket that is removed at one node, of parts that others took.
fn open_uploads_end_with_their_bucket(cluster: &Cluster) {
    const REMOVED: &str = "half-way";
    cluster.make_open_bucket(REMOVED);
    let mut nodes = Nodes::of(cluster);
    let mut ask = |node: usize, method: &str, path: &str, body: &[u8]| {
        nodes.0[node].ask(method, &format!("/{REMOVED}/{path}"), &[], body).unwrap()
    };
    for node in 0..NODES {
        let opened = ask(node, "POST", "key?uploads", b"").text();
        let id = opened.split("<UploadId>").nth(1).and_then(|rest| rest.split('<').next()).unwrap().to_owned();
        let part = ask((node + 1) % NODES, "PUT", &format!("key?partNumber=1&uploadId={id}"), &content(300_000, 7));
        assert_eq!(part.status, 200, "{}", part.text());
    }
    cluster.run(1, &["bucket", "rm", REMOVED]);
    cluster.make_open_bucket(REMOVED);
    for node in 0..NODES {
        let uploads = ask(node, "GET", "?uploads", b"");
        assert!(uploads.status != 200 || !uploads.text().contains("<Upload>"), "at {node}: {}", uploads.text());
    }
}

/// Caught: a token that named another cluster than the nodes' status did.
fn one_id_everywhere(cluster: &Cluster) {
    let id = cluster.token.split('.').nth(1).unwrap();
    for node in 0..NODES {
        assert_eq!(cluster.status(node).unwrap()["cluster"], id);
        let place = std::fs::read_to_string(cluster.data(node).join("cluster.toml")).unwrap();
        assert!(place.contains(&format!("cluster = \"{id}\"")), "{place}");
        let said = cluster.run(node, &["cluster", "status"]);
        assert!(said.starts_with(&format!("Cluster {id}\n")), "{said}");
    }
}

fn objects_of_all_lengths(nodes: &mut Nodes) {
    let mut expected = BTreeMap::new();
    for (number, length) in LENGTHS.into_iter().enumerate() {
        for node in 0..NODES {
            let (path, bytes) = (format!("objects/{number}/from-{node}"), content(length, number as u64));
            let etag = nodes.put(node, &path, &bytes);
            for reader in 0..NODES {
                assert!(nodes.get(reader, &path) == (200, bytes.clone()), "{path} at {reader}");
            }
            let range = nodes.ask(node + 1, "GET", &path, &[("Range", "bytes=-7")], b"");
            assert!(length == 0 || (range.status == 206 && bytes.ends_with(&range.body)), "{path}: {}", range.status);
            expected.insert(path, etag);
        }
    }
    check_lists(nodes, &expected);
    // Overwritten at the next node, deleted at the one after it.
    for (number, path) in expected.keys().cloned().collect::<Vec<_>>().into_iter().enumerate() {
        if number % 2 == 0 {
            let etag = nodes.put(number + 1, &path, b"new");
            expected.insert(path.clone(), etag);
        } else {
            assert_eq!(nodes.ask(number + 2, "DELETE", &path, &[], b"").status, 204);
            expected.remove(&path);
        }
        for reader in 0..NODES {
            let found = nodes.get(reader, &path);
            let is_right = if number % 2 == 0 { found == (200, b"new".to_vec()) } else { found.0 == 404 };
            assert!(is_right, "{path} at {reader}: {}", found.0);
        }
    }
    check_lists(nodes, &expected);
}

fn check_lists(nodes: &mut Nodes, expected: &BTreeMap<String, String>) {
    for node in &mut nodes.0 {
        for page in [1000, 4] {
            let listed = list(node, BUCKET, "objects/", page).unwrap();
            let listed: BTreeMap<_, _> = listed.into_iter().map(|(key, listed)| (key, listed.etag)).collect();
            assert_eq!(listed, *expected);
        }
    }
}

fn conditions(nodes: &mut Nodes) {
    for round in 0..2 * NODES {
        let path = format!("lock-{round}");
        let mut outcomes: Vec<u16> = Vec::new();
        for node in 0..NODES {
            outcomes.push(nodes.ask(round + node, "PUT", &path, &[("If-None-Match", "*")], &[node as u8]).status);
        }
        assert_eq!(outcomes, [200, 412, 412], "the first has it");
        let tag = nodes.ask(round + 1, "HEAD", &path, &[], b"").header("etag").unwrap().to_owned();
        assert_eq!(nodes.ask(round + 2, "PUT", &path, &[("If-Match", &tag)], b"next").status, 200);
        assert_eq!(nodes.ask(round, "PUT", &path, &[("If-Match", &tag)], b"too late").status, 412);
        assert_eq!(nodes.get(round + 1, &path), (200, b"next".to_vec()));
    }
}

fn uploads_in_parts(nodes: &mut Nodes) {
    let element = |answer: &Answer, name: &str| {
        let text = answer.text();
        let rest = text.split(&format!("<{name}>")).nth(1).unwrap_or_else(|| panic!("no {name} in {text}"));
        rest.split('<').next().unwrap().to_owned()
    };
    for begun_at in 0..NODES {
        let path = format!("parts-{begun_at}");
        let id = element(&nodes.ask(begun_at, "POST", &format!("{path}?uploads"), &[], b""), "UploadId");
        let mut document = "<CompleteMultipartUpload>".to_owned();
        let mut whole = Vec::new();
        for part in 1..=2 {
            let bytes = content(if part == 1 { PART_BYTES } else { 70_000 }, part as u64);
            let answer = nodes.ask(begun_at + part, "PUT", &format!("{path}?partNumber={part}&uploadId={id}"), &[], &bytes);
            assert_eq!(answer.status, 200, "{}", answer.text());
            let etag = answer.header("etag").unwrap();
            document.push_str(&format!("<Part><PartNumber>{part}</PartNumber><ETag>{etag}</ETag></Part>"));
            whole.extend(bytes);
        }
        document.push_str("</CompleteMultipartUpload>");
        assert_eq!(nodes.get(begun_at + 1, &path).0, 404, "nothing is there before the end");
        let completed = nodes.ask(begun_at + 2, "POST", &format!("{path}?uploadId={id}"), &[], document.as_bytes());
        assert_eq!(completed.status, 200, "{}", completed.text());
        for node in 0..NODES {
            assert!(nodes.get(node, &path) == (200, whole.clone()), "at {node}");
        }
    }
}

/// Who was told of a bucket, or of a policy, may use it at any node at once.
fn buckets_and_credentials(cluster: &Cluster) {
    for round in 0..10 {
        let (name, first) = (format!("bucket-{round}"), round % NODES);
        cluster.run(first, &["bucket", "make", &name]);
        for node in 0..NODES {
            let mut put = crate::server::program();
            put.env("TRILITH_ENDPOINT", format!("http://{}", cluster.s3((first + 1 + node) % NODES)));
            put.env("TRILITH_ROOT_USER", crate::server::USER).env("TRILITH_ROOT_PASSWORD", crate::server::PASSWORD);
            let output = put.args(["object", "ls", &name]).output().unwrap();
            assert!(output.status.success(), "{}", crate::server::text(&output.stderr));
        }
    }
}
