//! Sizes and times for people.

const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// `1.5 GiB`; bytes below 1 KiB are counted out.
pub fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would be printed as 1024.0 of one unit is 1.0 of the next.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// `3 d 04:05:06`.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match seconds / 86_400 {
        0 => clock,
        days => format!("{days} d {clock}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{duration, human};

    #[test]
    fn sizes_and_times_read_well() {
        assert_eq!(human(0), "0 B");
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(1536), "1.5 KiB");
        assert_eq!(human((1 << 20) - 1), "1.0 MiB");
        assert_eq!(human(5 << 40), "5.0 TiB");
        assert_eq!(duration(3_661_000), "01:01:01");
        assert_eq!(duration(90_061_000), "1 d 01:01:01");
    }
}
