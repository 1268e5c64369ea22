//! What tests of this crate share.

/// Whether a test that needs root may run. One that is not root fails, unless `STOREBENCH_NO_ROOT` is set: then it says that
/// it was skipped.
pub(crate) fn root(test: &str) -> bool {
    if std::env::var_os("STOREBENCH_NO_ROOT").is_some() {
        println!("{test} was skipped: STOREBENCH_NO_ROOT is set");
        return false;
    }
    assert!(rustix::process::geteuid().is_root(), "{test} needs root; set STOREBENCH_NO_ROOT=1 to skip what does");
    true
}

/// Waits until something holds, and fails when it does not for a long time.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
