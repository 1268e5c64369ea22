//! Exit codes. They are promised: scripts and workflows read them.

/// Nothing is wrong.
pub const FINE: u8 = 0;
/// Data is lost, wrong or could not be read back, a gate failed, or a verb failed before it finished.
pub const SPOILED: u8 = 1;
/// Bad input: nothing was started.
pub const BAD_INPUT: u8 = 2;
/// A store could not be reached, or failed before anything was written.
pub const UNREACHABLE: u8 = 3;
/// The measurement is invalid by its own checks, or was cut short; a gate could not have seen what it must; of a
/// history of operations, some key is undecided.
pub const INVALID: u8 = 4;
/// A gate is undecided, or `history check`: too few runs, or the newest one has no value that counts.
pub const UNDECIDED: u8 = 5;
/// Ended by Ctrl-C. Shells report the same.
pub const INTERRUPTED: u8 = 130;
