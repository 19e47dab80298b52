//! Dates as S3 writes them. A date stands in every answer to a GET and in every line of a list, hence without the general
//! machinery.

const DAY_MS: u64 = 86_400_000;

/// Bytes of [`iso8601`].
pub const ISO8601_BYTES: usize = 24;

/// Bytes of [`http_date`].
pub const HTTP_DATE_BYTES: usize = 29;

/// Year, month (1 to 12), day of the month (1 to 31).
fn civil(days_since_1970: u64) -> (u64, u64, u64) {
    // A calendar whose year begins in March has its leap day last; eras of 400 years all have 146,097 days.
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// `2009-10-12T17:50:30.000Z`. Years beyond 9999 are shown as 9999: no client could read them.
pub fn iso8601(ms_since_1970: u64) -> [u8; ISO8601_BYTES] {
    let (year, month, day) = civil(ms_since_1970 / DAY_MS);
    let ms = ms_since_1970 % DAY_MS;
    let mut text = *b"0000-00-00T00:00:00.000Z";
    digits(&mut text[0..4], year.min(9999));
    digits(&mut text[5..7], month);
    digits(&mut text[8..10], day);
    digits(&mut text[11..13], ms / 3_600_000);
    digits(&mut text[14..16], ms / 60_000 % 60);
    digits(&mut text[17..19], ms / 1_000 % 60);
    digits(&mut text[20..23], ms % 1_000);
    text
}

/// `Mon, 12 Oct 2009 17:50:30 GMT` (RFC 9110, section 5.6.7).
pub fn http_date(ms_since_1970: u64) -> [u8; HTTP_DATE_BYTES] {
    const WEEKDAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let days = ms_since_1970 / DAY_MS;
    let (year, month, day) = civil(days);
    let seconds = ms_since_1970 % DAY_MS / 1_000;
    let weekday = 3 * (days % 7) as usize;
    let month = 3 * (month - 1) as usize;
    let mut text = *b"Thu, 00 Jan 0000 00:00:00 GMT";
    text[0..3].copy_from_slice(&WEEKDAYS[weekday..weekday + 3]);
    digits(&mut text[5..7], day);
    text[8..11].copy_from_slice(&MONTHS[month..month + 3]);
    digits(&mut text[12..16], year.min(9999));
    digits(&mut text[17..19], seconds / 3_600);
    digits(&mut text[20..22], seconds / 60 % 60);
    digits(&mut text[23..25], seconds % 60);
    text
}

/// Seconds since 1970 of an HTTP date in any of its three forms; `None` for what is none. Dates before 1970 count as 1970.
pub fn seconds_of_http_date(text: &str) -> Option<u64> {
    let time = httpdate::parse_http_date(text).ok()?;
    Some(time.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

fn digits(place: &mut [u8], number: u64) {
    let mut rest = number;
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests;
