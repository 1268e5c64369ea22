//! What machines and stores tell of themselves to whoever asks over HTTP, as Prometheus does.

#[cfg(test)]
mod fuzz;
mod host;
mod scrape;
mod text;

pub use host::HostMetrics;
pub use scrape::scrape;

/// One value that an endpoint tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What it is, such as `node_cpu_seconds_total`.
    pub name: String,
    /// Of what it is, such as `cpu` and `0`, in their order.
    pub labels: Vec<(String, String)>,
    /// In the unit that the name tells. It may be infinite, or no number.
    pub value: f64,
}

impl Sample {
    /// The value of this label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}
