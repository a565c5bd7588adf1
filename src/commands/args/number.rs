//! Numbers, and what a client is told that sent none.

use crate::server::string::Args;
use crate::server::{Error, Str, error::Result};
use lawn::DEADLINE_MAX;

use super::required;
use super::word::shown;

/// Reads a TTL. Whether now plus this fits is known when the clock is read.
pub fn ttl(arg: Str<'_>) -> Result<u64> {
    ttl_of(arg.bytes())
}

/// Reads how many milliseconds a back-off is. Whether now plus this fits is known when the clock is read.
pub fn back_off(arg: Str<'_>) -> Result<u64> {
    let wanted = "a whole number of milliseconds from 0 on";
    number(arg.bytes()).map_err(|error| error.of("ms", arg.bytes(), wanted))
}

/// As [`ttl`], of a part of a word.
pub fn ttl_of(word: &[u8]) -> Result<u64> {
    let wanted = "a whole number of milliseconds from 0 on";
    number(word).map_err(|error| error.of("ttl", word, wanted))
}

/// Rounds a TTL up to the coarsest power-of-two step by which it is at most `slack` late, so that
/// elements which may wait a little share queues.
pub fn with_slack(ttl: u64, slack: Option<u64>) -> Result<u64> {
    let Some(slack) = slack else { return Ok(ttl) };
    // Rounding up to a step adds at most the step less one. Both are below 2^63.
    let step = 1 << (slack + 1).ilog2();
    let rounded = ttl.next_multiple_of(step);
    if rounded > DEADLINE_MAX {
        return Err(
            format!("ttl '{ttl}' is too large: with its slack it must fit in 63 bits").into()
        );
    }
    Ok(rounded)
}

/// Why a word is no number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotNumber {
    /// It is one that does not fit in 63 bits.
    TooLarge,
    Other,
}

impl NotNumber {
    /// Says what a client is told who sent it as `name`, where `wanted` should be.
    pub fn of(self, name: &str, word: &[u8], wanted: &str) -> Error {
        let word = shown(word);
        match self {
            Self::TooLarge if name == "ttl" => {
                format!("ttl '{word}' is too large: now + ttl must fit in 63 bits").into()
            }
            Self::TooLarge => {
                format!("{name} '{word}' is too large: it must fit in 63 bits").into()
            }
            Self::Other => format!("{name} '{word}' is not {wanted}").into(),
        }
    }
}

/// Reads a number from 1 on.
pub fn positive(name: &str, word: &[u8], wanted: &str) -> Result<u64> {
    let number =
        number(word).and_then(|number| if number > 0 { Ok(number) } else { Err(NotNumber::Other) });
    number.map_err(|error| error.of(name, word, wanted))
}

/// Reads how many words follow, which are there.
pub fn counted(name: &str, nouns: &str, args: Args<'_>, at: usize) -> Result<usize> {
    let word = required(args, at)?.bytes();
    let number = positive(name, word, "a whole number from 1 on")?;
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    if args.from(at + 1).take(number).count() < number {
        let word = shown(word);
        return Err(format!("{name} '{word}' is greater than the number of {nouns}").into());
    }
    Ok(number)
}

/// Reads a decimal number up to 2^63 - 1, written as the server writes numbers: digits alone, no sign, no space, no
/// leading zero.
pub fn number(bytes: &[u8]) -> std::result::Result<u64, NotNumber> {
    let is_canonical = bytes == b"0" || !bytes.starts_with(b"0");
    if bytes.is_empty() || !is_canonical || !bytes.iter().all(u8::is_ascii_digit) {
        return Err(NotNumber::Other);
    }
    let number = bytes.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add((digit - b'0').into())
    });
    number.filter(|number| *number <= DEADLINE_MAX).ok_or(NotNumber::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_what_the_server_would_write() {
        for good in [0, 1, 9, 10, 1000, DEADLINE_MAX - 1, DEADLINE_MAX] {
            assert_eq!(number(good.to_string().as_bytes()), Ok(good));
        }
        let bad = [
            "",
            " ",
            "-",
            "+1",
            "-1",
            "-0",
            " 5",
            "5 ",
            "5\n",
            "00",
            "05",
            "1.5",
            "1e3",
            "0x10",
            "ten",
            "１",
            "9223372036854775808x",
        ];
        for bad in bad {
            assert_eq!(number(bad.as_bytes()), Err(NotNumber::Other), "{bad:?}");
        }
        assert_eq!(number(b"1\0"), Err(NotNumber::Other));
        for large in
            ["9223372036854775808", "18446744073709551616", "100000000000000000000000000000"]
        {
            assert_eq!(number(large.as_bytes()), Err(NotNumber::TooLarge), "{large:?}");
        }
    }

    #[test]
    fn slack_rounds_up_never_early_and_never_later_than_it_says() {
        assert_eq!(with_slack(1000, None), Ok(1000));
        assert_eq!(with_slack(1000, Some(0)), Ok(1000));
        assert_eq!(with_slack(1001, Some(1)), Ok(1002));
        assert_eq!(with_slack(1000, Some(100)), Ok(1024));
        assert_eq!(with_slack(0, Some(1000)), Ok(0));
        for ttl in (0..100_000).step_by(37) {
            for slack in [0, 1, 2, 3, 7, 10, 63, 64, 100, 1000, 60_000] {
                let rounded = with_slack(ttl, Some(slack)).expect("it is small");
                assert!((ttl..=ttl + slack).contains(&rounded), "{ttl} with {slack}: {rounded}");
            }
        }
        assert!(with_slack(DEADLINE_MAX, Some(1)).is_err());
        assert!(with_slack(DEADLINE_MAX, Some(DEADLINE_MAX)).is_err());
        assert_eq!(with_slack(0, Some(DEADLINE_MAX)), Ok(0));
    }
}
