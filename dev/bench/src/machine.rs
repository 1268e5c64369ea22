//! The machine on which the figures were measured, and whether anything else ran on it.

use std::fmt;

/// The machine at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
    /// Runnable threads, over the last minute.
    pub(crate) load: f64,
    /// How this program was built.
    pub(crate) profile: &'static str,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let named = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let memory = named(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let memory_kib: f64 = memory.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0.0);
        Self {
            processor: named(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown processor".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_kib / f64::from(1 << 20),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            load: read("/proc/loadavg").split_whitespace().next().and_then(|l| l.parse().ok()).unwrap_or(0.0),
            profile: profile(),
        }
    }
}

/// The name of the folder that the program was built into, which is that of the profile.
fn profile() -> &'static str {
    let folder = std::env::current_exe().ok();
    let folder = folder.as_deref().and_then(|path| path.parent()?.file_name()?.to_str());
    match folder {
        Some("release") => "release",
        Some("demo") => "demo (without link-time optimisation)",
        Some("debug") => "DEV, SLOW: use --release",
        _ => "an unknown profile",
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} cores, {:.0} GiB, kernel {}; built as {}",
            self.processor, self.cores, self.memory_gib, self.kernel, self.profile
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_can_be_seen() {
        let machine = Machine::look();
        assert!(machine.cores > 0 && machine.memory_gib > 0.0);
        assert!(machine.to_string().contains(&machine.kernel));
    }
}
