//! Every chart of a report, in the order of the page. One file for each kind of view.

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

/// All charts that have something to show. What a study varies or searches comes first: it is what was asked.
///
/// # Errors
/// A histogram log is damaged.
pub(crate) fn charts(subject: &Subject) -> Result<Vec<Chart>, ReportError> {
    let axis = timeline::Timeline::of(subject);
    let merged = percentiles::Merged::of(subject)?;
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
