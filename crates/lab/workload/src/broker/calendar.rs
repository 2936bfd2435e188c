//! Days and moments of the loaded past, as texts that PostgreSQL reads.

use super::origin::Origin;

/// The first day on which something was traded, for statements; day 0 of everything here.
pub(super) const FIRST_DAY: &str = "2020-01-01";
/// The same since 1970.
const FIRST_DAY_SINCE_1970: i32 = 18_262;
/// Trades are made in eight hours a day, from nine o'clock.
pub(super) const TRADING_SECONDS: i64 = 8 * 3600;
const OPEN_SECONDS: i64 = 9 * 3600;

/// A day, by its distance from the first one.
pub(super) fn date(day: i32) -> String {
    let (year, month, day) = civil(day + FIRST_DAY_SINCE_1970);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A moment, by the milliseconds of trading before it.
pub(super) fn moment(trading_millis: i64) -> String {
    let seconds = trading_millis / 1000;
    let (day, second) = (seconds / TRADING_SECONDS, seconds % TRADING_SECONDS + OPEN_SECONDS);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{} {hour:02}:{minute:02}:{:02}.{:03}", date(day as i32), second % 60, trading_millis % 1000)
}

/// A moment of trading as seconds since the first midnight, as statements take it.
pub(super) fn since_midnight(trading_second: i64) -> i32 {
    let (day, second) = (trading_second / TRADING_SECONDS, trading_second % TRADING_SECONDS);
    (day * 86_400 + second + OPEN_SECONDS) as i32
}

/// How much was traded before a loaded trade was asked for: they are spread evenly over all days.
pub(super) fn trading_millis(origin: &Origin, trade: i64) -> i64 {
    let all = i128::from(i64::from(origin.size.trade_days) * TRADING_SECONDS * 1000);
    (i128::from(trade - 1) * all / i128::from(origin.trades())) as i64
}

/// The day of a loaded trade.
pub(super) fn day_of(origin: &Origin, trade: i64) -> i32 {
    (trading_millis(origin, trade) / (TRADING_SECONDS * 1000)) as i32
}

/// Year, month and day of so many days since 1970, in the Gregorian calendar. Years begin in March here, so
/// that the day that not all years have is their last.
fn civil(days: i32) -> (i32, i32, i32) {
    const ERA: i32 = 146_097;
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i32::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_moments_are_those_of_the_calendar() {
        assert_eq!(date(0), FIRST_DAY);
        assert_eq!(
            [date(-1), date(59), date(60), date(366)],
            ["2019-12-31", "2020-02-29", "2020-03-01", "2021-01-01"]
        );
        assert_eq!(date(-1305), "2016-06-05");
        assert_eq!(moment(0), "2020-01-01 09:00:00.000");
        assert_eq!(moment(TRADING_SECONDS * 1000 + 61_007), "2020-01-02 09:01:01.007");
        assert_eq!(since_midnight(TRADING_SECONDS + 5), 86_400 + 9 * 3600 + 5);
    }
}
