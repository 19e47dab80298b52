//! Times as signatures carry them: `20130524T000000Z`.

use crate::dates::iso8601;

/// Bytes of such a time.
const BASIC_TIME_BYTES: usize = 16;

/// Seconds since 1970; `None` when the text is not such a time.
pub fn seconds_of_basic_time(text: &str) -> Option<u64> {
    let bytes: &[u8; BASIC_TIME_BYTES] = text.as_bytes().try_into().ok()?;
    if bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let (year, month, day) = (number(&bytes[0..4])?, number(&bytes[4..6])?, number(&bytes[6..8])?);
    let (hour, minute, second) = (number(&bytes[9..11])?, number(&bytes[11..13])?, number(&bytes[13..15])?);
    if year < 1970 || !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Such a time from seconds since 1970.
pub fn basic_time_of(seconds: u64) -> String {
    let long = iso8601(seconds * 1000);
    let digits = long.iter().filter(|byte| !matches!(byte, b'-' | b':')).take(BASIC_TIME_BYTES - 1);
    digits.map(|byte| char::from(*byte)).chain(['Z']).collect()
}

fn number(digits: &[u8]) -> Option<u64> {
    let mut number = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + u64::from(digit - b'0');
    }
    Some(number)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counts in a calendar whose year begins in March, so that the leap day is its last.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let (march_year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let days = march_year * 365 + march_year / 4 - march_year / 100 + march_year / 400 + day_of_year;
    // Days from 1 March of year 0 to 1 January 1970.
    days - 719_468
}
