//! Metrics that machines and stores publish over HTTP for Prometheus.

#[cfg(test)]
mod fuzz;
mod host;
mod scrape;
mod text;

pub use host::HostMetrics;
pub use scrape::scrape;

/// One value of an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The name, such as `node_cpu_seconds_total`.
    pub name: String,
    /// The labels, such as `cpu` and `0`, in their order.
    pub labels: Vec<(String, String)>,
    /// The value, in the unit that the name gives. It may be infinite or NaN.
    pub value: f64,
}

impl Sample {
    /// The value of this label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}
