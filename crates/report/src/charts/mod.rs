//! Every chart of a report, in page order. One file for each kind of chart.

mod cost;
mod factors;
mod heat;
mod means;
mod percentiles;
mod probes;
mod resources;
mod timeline;
mod work;

use crate::data::Chart;
use crate::recorded::ReportError;
use crate::subject::Subject;

/// All charts that are not empty. What the study searches or varies comes first, because the study asks about it.
///
/// # Errors
/// A histogram log is damaged.
pub(crate) fn charts(subject: &Subject) -> Result<Vec<Chart>, ReportError> {
    let axis = timeline::Timeline::of(subject);
    let merged = percentiles::merged(subject)?;
    let mut all = probes::charts(subject);
    all.extend(factors::charts(subject));
    all.extend(timeline::charts(subject, &axis));
    all.extend(percentiles::charts(subject, &merged));
    all.extend(heat::charts(subject, &merged));
    all.extend(resources::charts(subject, &axis));
    all.extend(cost::charts(subject));
    all.retain(|chart| !chart.is_empty());
    Ok(all)
}
