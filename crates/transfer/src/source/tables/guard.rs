//! The table libraries panic on some damaged files. This turns the panics into errors.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs work and returns its result. If it panics, the error is the panic's message, and nothing is printed. The state
/// that the work used must then not be used again.
pub(super) fn guard<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                usual(info);
            }
        }));
    });
    let before = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        format!("its data is damaged ({})", text.unwrap_or("the reader gave up"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_the_next_work_is_done() {
        assert_eq!(guard(|| 7), Ok(7));
        let told = guard(|| -> u8 { panic!("index {} of 1", 2) }).unwrap_err();
        assert_eq!(told, "its data is damaged (index 2 of 1)");
        assert!(!GUARDED.get() && guard(|| 8) == Ok(8));
    }
}
