//! Buckets and objects through the command line.

use crate::server::{Home, Server, program, text};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Bytes that no two offsets share for long.
fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut random = bench::random::Random::new(seed, 0);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn show(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn files_become_objects_and_files_again() {
    let home = Home::new();
    let server = home.serve(&[]);
    let (file, back) = (home.path("cat.jpg"), home.path("back.jpg"));
    write(&file, &pattern(100_000, 1));
    assert_eq!(server.run(&["bucket", "make", "photos"]), "made photos\n");
    assert!(server.run(&["bucket", "ls"]).contains("  photos\n"));
    server.run(&["object", "put", show(&file), "photos/2024/"]);
    assert!(server.run(&["object", "ls", "photos"]).contains("folder  2024/"));
    let listed = server.run(&["object", "ls", "s3://photos/2024/"]);
    assert!(listed.contains("100000  2024/cat.jpg"), "{listed}");
    server.run(&["object", "get", "photos/2024/cat.jpg", show(&back)]);
    assert!(std::fs::read(&file).unwrap() == std::fs::read(&back).unwrap(), "the same bytes come back");
    server.run(&["object", "cp", "photos/2024/cat.jpg", "photos/copy of cat & co.jpg"]);
    assert!(server.run(&["object", "ls", "--recursive", "photos"]).contains("100000  copy of cat & co.jpg\n"));
    server.run(&["object", "rm", "photos/2024/cat.jpg"]);
    let error = server.fail(&["object", "get", "photos/2024/cat.jpg", "-"]);
    assert!(error.contains("photos/2024/cat.jpg: The specified key does not exist. (NoSuchKey)"), "{error}");
    let error = server.fail(&["bucket", "rm", "photos"]);
    assert!(error.contains("BucketNotEmpty") && error.contains("trilith object rm --recursive"), "{error}");
    server.run(&["object", "rm", "--recursive", "photos"]);
    server.run(&["bucket", "rm", "photos"]);
    assert_eq!(server.run(&["bucket", "ls"]), "");
}

#[test]
fn long_content_goes_in_parts_from_files_and_from_pipes() {
    let home = Home::new();
    let server = home.serve(&[]);
    let content = pattern((64 << 20) + 12_345, 2);
    let file = home.path("long");
    write(&file, &content);
    server.run(&["bucket", "make", "long"]);
    server.run(&["object", "put", show(&file), "long/from-file"]);
    put_from_pipe(&server, "long/from-pipe", &content);
    put_from_pipe(&server, "long/empty", b"");
    for (key, expected) in [("from-file", content.as_slice()), ("from-pipe", &content), ("empty", b"")] {
        let output = server.command(&["object", "get", &format!("long/{key}"), "-"]).output().unwrap();
        assert!(output.status.success() && output.stdout == expected, "{key}: {}", text(&output.stderr));
    }
    // A tag of parts says that they were two.
    let mut connection = {
        server.run(&["bucket", "policy", "set", "long", "public-read"]);
        crate::http::Connection::open(&server.s3).unwrap()
    };
    let head = connection.ask("HEAD", "/long/from-file", &[], b"").unwrap();
    assert!(head.header("etag").unwrap().ends_with("-2\""), "{:?}", head.header("etag"));
}

#[test]
fn a_media_type_is_kept_however_the_content_comes() {
    let home = Home::new();
    let server = home.serve(&[]);
    server.make_open_bucket("typed");
    let (folder, long) = (home.path("folder"), home.path("long"));
    write(&folder.join("small"), b"<svg/>");
    // One byte more than goes in one request.
    write(&long, &vec![7; (64 << 20) + 1]);
    let put = ["object", "put", "--content-type", "image/svg+xml"];
    server.run(&[&put[..], &[show(&folder.join("small")), "typed/file"]].concat());
    server.run(&[&put[..], &[show(&long), "typed/parts"]].concat());
    server.run(&[&put[..], &["--recursive", show(&folder), "typed/folder"]].concat());
    server.run(&[&put[..], &["-", "typed/input"]].concat());
    server.run(&["object", "put", show(&folder.join("small")), "typed/untold"]);
    let mut connection = crate::http::Connection::open(&server.s3).unwrap();
    for key in ["file", "parts", "folder/small", "input", "untold"] {
        let head = connection.ask("HEAD", &format!("/typed/{key}"), &[], b"").unwrap();
        let expected = if key == "untold" { "binary/octet-stream" } else { "image/svg+xml" };
        assert_eq!((head.status, head.header("content-type")), (200, Some(expected)), "{key}");
    }
}

fn put_from_pipe(server: &Server, target: &str, content: &[u8]) {
    let mut command = server.command(&["object", "put", "-", target]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn folders_go_up_and_come_down_as_they_were() {
    let home = Home::new();
    let server = home.serve(&[]);
    let names = ["a.txt", "sub/b.txt", "sub/deep/c ü%+&.txt", "sub.txt", "empty"];
    for (name, seed) in names.iter().zip(1..) {
        let length = if *name == "empty" { 0 } else { 1000 * seed };
        write(&home.path("up").join(name), &pattern(length, seed as u64));
    }
    server.run(&["bucket", "make", "tree"]);
    server.run(&["object", "put", "--recursive", show(&home.path("up")), "tree/copy"]);
    server.run(&["object", "get", "--recursive", "tree/copy", show(&home.path("down"))]);
    for name in names {
        let (up, down) = (std::fs::read(home.path("up").join(name)), std::fs::read(home.path("down").join(name)));
        assert!(up.unwrap() == down.unwrap(), "{name}");
    }
    server.run(&["object", "rm", "--recursive", "tree/copy/sub/"]);
    let left = server.run(&["object", "ls", "--recursive", "tree"]);
    assert_eq!(left.lines().count(), 3, "{left}");
}

/// A pipe that has a name.
fn pipe(home: &Home, name: &str) -> PathBuf {
    let path = home.path(name);
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

#[test]
fn what_has_no_length_is_read_to_its_end() {
    let home = Home::new();
    let server = home.serve(&["--default-buckets", "box"]);
    // The system composes it when it is read: its length is 0.
    server.run(&["object", "put", "/proc/version", "box/version"]);
    assert_eq!(server.run(&["object", "get", "box/version", "-"]), std::fs::read_to_string("/proc/version").unwrap());
    let path = pipe(&home, "pipe");
    std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(&path, b"through a pipe").unwrap());
        server.run(&["object", "put", show(&path), "box/pipe"]);
    });
    assert_eq!(server.run(&["object", "get", "box/pipe", "-"]), "through a pipe");
}

#[test]
fn what_is_no_file_stays_what_it_is() {
    let home = Home::new();
    let server = home.serve(&["--default-buckets", "box"]);
    put_from_pipe(&server, "box/key", b"content");
    let get = |target: &Path| server.run(&["object", "get", "box/key", show(target)]);
    let (path, kind) = (pipe(&home, "pipe"), |path: &Path| std::fs::symlink_metadata(path).unwrap().file_type());
    // Opened for both, so that nobody waits for a reader that never comes.
    let mut both = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    get(&path);
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind(&path)), "the pipe is in its place");
    let mut read = [0; 7];
    std::io::Read::read_exact(&mut both, &mut read).unwrap();
    assert_eq!(&read, b"content");
    let (file, link, lost) = (home.path("file"), home.path("link"), home.path("lost"));
    write(&file, b"longer than what comes");
    std::os::unix::fs::symlink("file", &link).unwrap();
    get(&link);
    assert!(kind(&link).is_symlink() && std::fs::read(&file).unwrap() == b"content");
    std::os::unix::fs::symlink("nowhere", &lost).unwrap();
    assert!(server.fail(&["object", "get", "box/key", show(&lost)]).contains("leads to nothing"));
    assert!(kind(&lost).is_symlink());
}

/// An object's name may be any: on its way it has none that a file could have.
#[test]
fn no_file_is_lost_to_one_that_comes() {
    let home = Home::new();
    let server = home.serve(&["--default-buckets", "box"]);
    put_from_pipe(&server, "box/key", b"content");
    let folder = home.path("folder");
    write(&folder.join("key.trilith-part"), b"somebody's");
    server.run(&["object", "get", "--recursive", "box", show(&folder)]);
    let mut names: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["key", "key.trilith-part"]);
    assert_eq!(std::fs::read(folder.join("key.trilith-part")).unwrap(), b"somebody's");
}

/// Keys are any text. Caught: a command that ended with the first key that is no path, and left unfinished files.
#[test]
fn what_a_file_system_can_hold_is_fetched_and_the_rest_is_named() {
    let home = Home::new();
    let server = home.serve(&[]);
    server.make_open_bucket("box");
    let mut s3 = crate::http::Connection::open(&server.s3).unwrap();
    let too_long = format!("l/{}", "n".repeat(300));
    for key in ["g/a", "g/a-b", "g/a/b", "g/z", "h//x", "p/..", "s/sign/", "t/content/", &too_long] {
        let content = if key == "s/sign/" { "" } else { key };
        assert_eq!(s3.ask("PUT", &format!("/box/{key}"), &[], content.as_bytes()).unwrap().status, 200, "{key}");
    }
    let folder = home.path("folder");
    let output = server.command(&["object", "get", "-r", "box", show(&folder)]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).contains("got 3 objects")), (Some(1), true), "{said}");
    for left_out in ["g/a/b", "h//x", "p/..", "t/content/", "l/nnn"] {
        assert!(said.lines().any(|line| line.starts_with(&format!("trilith: {left_out}"))), "{left_out}: {said}");
    }
    assert!(said.contains("5 objects were left out"), "{said}");
    assert_eq!(names_below(&folder), ["g/a", "g/a-b", "g/z"]);
    for key in ["g/a", "g/a-b", "g/z"] {
        assert_eq!(std::fs::read(folder.join(key)).unwrap(), key.as_bytes());
    }
    // A folder that is there stands where a file is meant.
    std::fs::remove_file(folder.join("g/a")).unwrap();
    std::fs::create_dir(folder.join("g/a")).unwrap();
    let said = server.fail(&["object", "get", "-r", "box/g", show(&folder.join("g"))]);
    assert!(said.contains("trilith: g/a is left out") && said.contains("2 objects were left out"), "{said}");
    assert_eq!(names_below(&folder), ["g/a-b", "g/z"]);
}

/// The files below a folder, in order.
fn names_below(folder: &Path) -> Vec<String> {
    let (mut folders, mut names) = (vec![folder.to_owned()], Vec::new());
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                names.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    names.sort();
    names
}

#[test]
fn a_key_does_not_lead_out_of_the_folder_it_is_fetched_into() {
    let home = Home::new();
    let server = home.serve(&[]);
    server.run(&["bucket", "make", "evil"]);
    put_from_pipe(&server, "evil/x/../../escaped", b"!");
    let error = server.fail(&["object", "get", "--recursive", "evil", show(&home.path("in"))]);
    assert!(error.contains("no path below a folder"), "{error}");
    assert!(!home.path("escaped").exists());
}

#[test]
fn policies_open_and_close_a_bucket() {
    let home = Home::new();
    let server = home.serve(&["--default-buckets", "open"]);
    let file = home.path("x");
    write(&file, b"content");
    let put = ["object", "put", "--anonymous", show(&file), "open/x"];
    assert!(server.fail(&put).contains("AccessDenied"));
    server.run(&["bucket", "policy", "set", "open", "public-read-write"]);
    server.run(&put);
    server.run(&["bucket", "policy", "set", "open", "public-read"]);
    assert!(server.fail(&put).contains("AccessDenied"));
    assert_eq!(server.run(&["object", "get", "--anonymous", "open/x", "-"]), "content");
    assert!(server.run(&["bucket", "policy", "get", "open"]).contains("arn:aws:s3:::open/*"));
    server.run(&["bucket", "policy", "set", "open", "private"]);
    assert!(server.fail(&["object", "ls", "--anonymous", "open"]).contains("AccessDenied"));
    assert!(server.fail(&["bucket", "policy", "get", "open"]).contains("NoSuchBucketPolicy"));
    let wrong = home.path("policy.json");
    write(&wrong, br#"{"Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"*"}]}"#);
    assert!(server.fail(&["bucket", "policy", "set", "open", show(&wrong)]).contains("MalformedPolicy"));
    assert!(server.fail(&["bucket", "policy", "set", "open", "publik"]).contains("neither public-read"));
}

#[test]
fn wrong_credentials_and_a_missing_server_are_explained() {
    let home = Home::new();
    let server = home.serve(&[]);
    let error = server.fail(&["bucket", "ls", "--access-key", "nobody", "--secret-key", "whatever"]);
    assert!(error.contains("InvalidAccessKeyId") && error.contains("--access-key"), "{error}");
    let error = server.fail(&["bucket", "ls", "--access-key", "tester", "--secret-key", "wrong-secret"]);
    assert!(error.contains("SignatureDoesNotMatch"), "{error}");
    let error = server.fail(&["bucket", "ls", "--access-key", "tester"]);
    assert!(error.contains("belong together"), "{error}");
    assert!(server.fail(&["object", "get", "photos"]).contains("BUCKET/KEY"));
    let address = server.s3.clone();
    server.stop();
    let mut command = program();
    let output = command.args(["bucket", "ls", "--anonymous", "--endpoint", &address]).output().unwrap();
    assert!(text(&output.stderr).contains("does `trilith serve` run there?"), "{}", text(&output.stderr));
}

#[test]
fn the_first_start_makes_credentials_that_the_commands_find() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let server = home.serve_bare(&["--default-buckets", "one,two"]);
    let path = home.data().join("credentials");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut command = program();
    let output = command.args(["bucket", "ls", "--endpoint", &server.s3, "--data", show(&home.data())]).output().unwrap();
    let listed = text(&output.stdout);
    assert!(listed.contains("one") && listed.contains("two"), "{listed}{}", text(&output.stderr));
    let output = program().args(["bucket", "ls", "--endpoint", &server.s3, "--data", "/nowhere"]).output().unwrap();
    assert!(text(&output.stderr).contains("no credentials"), "{}", text(&output.stderr));
}
