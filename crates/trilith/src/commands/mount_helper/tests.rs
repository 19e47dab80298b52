use super::*;

fn asked(options: &str) -> anyhow::Result<Wanted> {
    let args = HelperArgs::try_parse_from([NAME, "home", "/mnt", "-n", "-t", "fuse.trilith", "-o", options])?;
    wanted(&args.options, args.is_sloppy)
}

fn mounted(words: &[&str]) -> Wanted {
    Wanted::Mount(words.iter().map(|word| (*word).to_owned()).collect())
}

#[test]
fn options_become_words_of_the_mount_command() {
    let fstab = "rw,nosuid,nodev,_netdev,nofail,x-systemd.requires=trilith.service,data=/srv/t,wait=1m";
    assert_eq!(asked(fstab).unwrap(), mounted(&["--detach", "--data", "/srv/t", "--wait", "1m"]));
    let guest = "ro,cluster=10.0.0.1:9002,cluster=10.0.0.2:9002,key_file=/etc/home.key,private";
    let words = [
        "--detach",
        "--read-only",
        "--cluster",
        "10.0.0.1:9002",
        "--cluster",
        "10.0.0.2:9002",
        "--key-file",
        "/etc/home.key",
        "--private",
    ];
    assert_eq!(asked(guest).unwrap(), mounted(&words));
}

#[test]
fn what_would_not_hold_is_refused() {
    for option in ["noexec", "suid", "dev", "strictatime", "data", "size=1", "ro=1"] {
        let refused = asked(&format!("rw,{option}")).unwrap_err().to_string();
        assert!(refused.contains(&format!("`{option}`")), "{refused}");
    }
}

#[test]
fn a_sloppy_call_passes_over_what_is_not_known() {
    assert_eq!(wanted(&["noexec".to_owned()], true).unwrap(), mounted(&["--detach"]));
}

#[test]
fn a_mount_is_changed_to_what_is_named() {
    assert_eq!(asked("remount,ro,data=/srv/t").unwrap(), Wanted::Remount { read_only: true });
    assert_eq!(asked("rw,remount").unwrap(), Wanted::Remount { read_only: false });
}

#[test]
fn the_name_decides_and_its_folder_does_not() {
    assert!(is_called(Some(OsStr::new("/sbin/mount.fuse.trilith"))));
    assert!(!is_called(Some(OsStr::new("/usr/bin/trilith"))));
    assert!(!is_called(None));
}
