//! Disks: prepared, taken, looked at, missing.

use crate::http::Connection;
use crate::server::{Home, program, text};
use std::path::{Path, PathBuf};
use std::process::Output;

fn device(arguments: &[&str], path: &Path) -> Output {
    program().arg("device").args(&arguments[..1]).arg(path).args(&arguments[1..]).output().unwrap()
}

fn well(output: Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn wrong(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn a_prepared_disk_is_taken_by_the_next_server() {
    let home = Home::new();
    let (one, two) = (home.path("one"), home.path("two"));
    let format = ["format", "--size", "200MiB", "--zone-size", "8MiB"];
    assert!(wrong(device(&["format"], &one)).contains("--size"));
    well(device(&format, &one));
    well(device(&format, &two));
    assert!(well(device(&["inspect"], &one)).contains("no server has taken it yet"));
    // Nobody has used it, so preparing it again asks for no permission.
    well(device(&format, &one));
    let devices = format!("{},{}", one.display(), two.display());
    let server = home.serve(&["--devices", &devices]);
    server.make_open_bucket("bucket");
    let told = server.run(&["status"]);
    assert!(told.contains("copies   2 of each object"), "{told}");
    let error = wrong(device(&["inspect"], &two));
    assert!(error.contains(&format!("in use by process {}", server.pid())), "{error}");
    server.stop();
    let inspected = well(device(&["inspect", "--zones"], &two));
    assert!(inspected.contains("device      1") && inspected.contains("of 8.0 MiB"), "{inspected}");
    assert!(inspected.contains("finished"), "{inspected}");
    assert!(wrong(device(&format, &two)).contains("--overwrite erases them"));
    // Looking changes nothing: the server still takes it.
    let server = home.serve(&["--devices", &devices]);
    assert!(server.run(&["bucket", "ls"]).contains("bucket"));
}

#[test]
fn foreign_bytes_are_not_overwritten_without_a_word() {
    let home = Home::new();
    let path = home.path("disk");
    let foreign = [vec![0u8; 5000], b"somebody's file system".to_vec(), vec![0u8; 100_000]].concat();
    std::fs::write(&path, &foreign).unwrap();
    let format = ["format", "--size", "1GiB"];
    assert!(wrong(device(&format, &path)).contains("something that is not Trilith's"));
    let error = text(&home.serve_to_the_end(&["--devices", path.to_str().unwrap()]).stderr);
    assert!(error.contains("not a Trilith device") && error.contains("trilith device format"), "{error}");
    assert!(wrong(device(&["inspect"], &path)).contains("not a Trilith device"));
    assert!(std::fs::read(&path).unwrap() == foreign, "nothing was written");
    well(device(&["format", "--size", "1GiB", "--overwrite"], &path));
    home.serve(&["--devices", path.to_str().unwrap()]).stop();
}

/// A disk is prepared, and then used for something else. What that writes leaves some of the superblocks where they are.
#[test]
fn a_disk_that_was_used_since_it_was_prepared_is_not_taken() {
    let home = Home::new();
    let path = home.path("disk");
    let (format, name) = (["format", "--size", "200MiB"], path.to_str().unwrap());
    for (at, length) in [(0, 17 << 10), (600 << 10, 1), (5 << 20, 4096)] {
        well(device(&[&format[..], &["--overwrite"]].concat(), &path));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at..at + length].fill(0xee);
        std::fs::write(&path, &bytes).unwrap();
        let output = home.serve_to_the_end(&["--devices", name]);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains("something else has been written to it since"), "{error}");
        assert!(wrong(device(&format, &path)).contains("something that is not Trilith's"));
        assert!(std::fs::read(&path).unwrap() == bytes, "nothing was written");
    }
    // What stood there does not outlive a person's word.
    well(device(&[&format[..], &["--overwrite"]].concat(), &path));
    well(device(&format, &path));
    home.serve(&["--devices", name]).stop();
}

#[test]
fn what_can_not_be_formatted_leaves_nothing_behind() {
    let home = Home::new();
    let path = home.path("disk");
    assert!(wrong(device(&["format"], &path)).contains("--size"));
    let too_much = ["--size 4MiB", "--size 200MiB --zone-size 1TiB"];
    for words in too_much.map(|words| words.split(' ').collect::<Vec<&str>>()) {
        wrong(device(&[&["format"][..], &words].concat(), &path));
    }
    assert!(!path.exists());
    let no_disk = no_disk();
    let error = wrong(device(&["format", "--size", "200MiB"], &no_disk));
    assert!(error.contains("there is no disk") && !no_disk.exists(), "{error}");
}

/// A name that no disk has, and that nothing has.
pub fn no_disk() -> PathBuf {
    let path = PathBuf::from(format!("/dev/trilith-no-disk-{}", std::process::id()));
    // A failure may have left it.
    drop(std::fs::remove_file(&path));
    path
}

/// Its disk is late, broken or not mounted: another one in its place would take what is written.
#[test]
fn a_device_that_is_away_is_not_made_anew() {
    let home = Home::new();
    let [one, two, away] = ["one", "two", "away"].map(|name| home.path(name));
    let both = format!("{},{}", one.display(), two.display());
    home.serve(&["--devices", &both]).stop();
    std::fs::rename(&two, &away).unwrap();
    let refused = |devices: &str| {
        let output = home.serve_to_the_end(&["--devices", devices]);
        assert_eq!(output.status.code(), Some(1), "{devices}");
        text(&output.stderr)
    };
    let link = home.path("link");
    std::os::unix::fs::symlink(".", &link).unwrap();
    for devices in [&both, &format!("{},{}", one.display(), link.join("two").display())] {
        let error = refused(devices);
        assert!(error.contains("device 1 was at") && error.contains("trilith device forget 1"), "{error}");
        assert!(!two.exists());
    }
    std::fs::write(&two, b"").unwrap();
    assert!(refused(&both).contains("device 1 was at"));
    assert_eq!(std::fs::metadata(&two).unwrap().len(), 0);
    std::fs::remove_file(&two).unwrap();
    let no_disk = no_disk();
    let error = refused(&format!("{},{}", one.display(), no_disk.display()));
    assert!(error.contains("there is no disk") && !no_disk.exists(), "{error}");
    // It is there, under another name: the place is free.
    let server = home.serve(&["--devices", &format!("{both},{}", away.display())]);
    assert!(server.run(&["status"]).contains("copies   3 of each object"));
    server.stop();
    // A person's word.
    let three = home.path("three");
    std::fs::rename(&two, &three).unwrap();
    assert!(refused(&both).contains("device 2 was at"));
    well(device(&["format", "--size", "200MiB"], &two));
    let server = home.serve(&["--devices", &format!("{both},{},{}", away.display(), three.display())]);
    assert!(server.run(&["status"]).contains("All is well"));
}

#[test]
fn a_disk_of_another_cluster_is_refused() {
    let (home, other) = (Home::new(), Home::new());
    let path = home.path("disk");
    home.serve(&["--devices", path.to_str().unwrap()]).stop();
    let output = other.serve_to_the_end(&["--devices", path.to_str().unwrap()]);
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("of cluster"), "{error}");
}

#[test]
fn a_missing_device_is_told_and_its_copies_are_read_elsewhere() {
    let home = Home::new();
    let paths = ["one", "two", "three"].map(|name| home.path(name));
    let names = paths.each_ref().map(|path| path.to_str().unwrap());
    let server = home.serve(&["--devices", &names.join(",")]);
    server.make_open_bucket("bucket");
    let mut s3 = crate::http::Connection::open(&server.s3).unwrap();
    for index in 0..50 {
        assert_eq!(s3.ask("PUT", &format!("/bucket/{index}"), &[], format!("of {index}").as_bytes()).unwrap().status, 200);
    }
    server.stop();
    let server = home.serve(&["--devices", &names[..2].join(",")]);
    let mut s3 = crate::http::Connection::open(&server.s3).unwrap();
    for index in 0..50 {
        let answer = s3.get(&format!("/bucket/{index}")).unwrap();
        assert!(answer.status == 200 && answer.text() == format!("of {index}"), "{index}: {} {}", answer.status, answer.text());
    }
    let output = server.command(&["status"]).output().unwrap();
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("copies   2 of each object"), "those that are there: {told}");
    assert!(told.contains("WRONG: device 2") && told.contains("is missing") && told.contains("--devices"), "{told}");
}
/// A byte of an object changes on one of two disks; a scrub that is asked for finds it and makes the copy again.
#[test]
fn a_scrub_that_is_asked_for_heals_a_byte_that_changed() {
    let home = Home::new();
    let paths = ["one", "two"].map(|name| home.path(name));
    let devices = format!("{},{}", paths[0].display(), paths[1].display());
    let server = home.serve(&["--devices", &devices, "--device-size", "200MiB"]);
    server.make_open_bucket("bucket");
    let mut s3 = Connection::open(&server.s3).unwrap();
    let content: Vec<u8> = (0..20_000u32).map(|at| (at * 7 + at / 251) as u8).collect();
    for number in 0..4 {
        let body = [&[number][..], &content].concat();
        assert_eq!(s3.ask("PUT", &format!("/bucket/object-{number}"), &[], &body).unwrap().status, 200);
    }
    drop(s3);
    // A start finishes the zones that were written to.
    server.stop();
    let sought = [&[2u8][..], &content[..500]].concat();
    let at = flip_bytes(&paths[1], &sought);
    assert_eq!(at.len(), 1, "the disk holds the object once");
    let server = home.serve(&["--devices", &devices, "--device-size", "200MiB"]);
    let scrub = |more: &[&str]| server.command(&[&["device", "scrub"], more].concat()).output().unwrap();
    let told = wrong(scrub(&["--device", "7"]));
    assert!(told.contains("device 7 is not one of this server"), "{told}");
    let told = well(scrub(&["--wait"]));
    let counts: Vec<Vec<&str>> = told.lines().skip(1).take(2).map(|line| line.split_whitespace().collect()).collect();
    // Device, bytes and their unit, damaged frames, copies, made again, left.
    assert_eq!((counts[0][0], &counts[0][3..]), ("0", &["0", "0", "0", "0"][..]), "{told}");
    assert_eq!((counts[1][0], &counts[1][3..]), ("1", &["1", "1", "1", "0"][..]), "{told}");
    assert!(told.contains("All is well again."), "{told}");
    assert!(well(scrub(&["--device", "1"])).contains("Device 1 is being read"));
    server.stop();
    // The copy that is wrong is garbage now: the other disk is not needed any more.
    let told =
        text(&program().args(["fsck", "--data"]).arg(home.data()).args(["--devices", &devices]).output().unwrap().stdout);
    assert!(told.contains("All is well."), "byte {at:?}: {told}");
}

/// Changes a byte wherever a file holds something; tells where.
pub fn flip_bytes(path: &Path, sought: &[u8]) -> Vec<u64> {
    use std::os::unix::fs::FileExt;
    let bytes = std::fs::read(path).unwrap();
    let is_there = |at: &usize| bytes[*at] == sought[0] && bytes[*at..].starts_with(sought);
    let middles = (0..bytes.len() - sought.len()).filter(is_there).map(|at| at + sought.len() / 2);
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let flipped = middles.map(|at| {
        file.write_all_at(&[bytes[at] ^ 0x10], at as u64).unwrap();
        at as u64
    });
    let flipped = flipped.collect();
    file.sync_all().unwrap();
    flipped
}
