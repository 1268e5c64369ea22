//! `compressible-payload`: do documents compress further than real ones?

use crate::human::percent;
use crate::validity::check::{Check, Configurations, Finding, Looks, Severity};

pub(super) const CHECK: Check =
    Check::new("compressible-payload", "the documents compress unusually well", &[Looks::Configurations(look)]);

/// Documents that zstd over pages reduces to less than this share are unlike real ones.
pub(super) const COMPRESSED: f64 = 0.25;
/// How far below the pages' ratio the ratio of a long window may lie before repeated text is the reason.
pub(super) const REPEATS: f64 = 0.10;

/// Whether a store or disk that compresses gains more than it would with real documents.
fn look(configurations: &Configurations<'_>) -> Vec<Finding> {
    let threshold = format!(
        "caution below {}, or if {} of the bytes repeat within a long window",
        percent(COMPRESSED),
        percent(REPEATS)
    );
    configurations.result
        .documents
        .iter()
        .filter_map(|c| {
            let found = c.compression.as_ref()?;
            let mut observed = format!(
                "{}: zstd over 32 KiB pages leaves {}, snappy by document {}",
                c.named(),
                percent(found.page_zstd3),
                percent(found.doc_snappy)
            );
            if let Some(long) = found.long_zstd {
                observed += &format!(", zstd with a long window {}", percent(long));
            }
            let small = found.page_zstd3 < COMPRESSED;
            let repeats = found.long_zstd.is_some_and(|long| long < found.page_zstd3 - REPEATS);
            if c.own {
                observed += "; these are your own documents";
            }
            let (severity, advice) = match () {
                () if c.own => (Severity::Note, "compare only with runs on the same file"),
                () if small => (
                    Severity::Caution,
                    "this favours stores that compress: set `compress_to` (0.4 is common for JSON), or use your own documents with `from`",
                ),
                () if repeats => (
                    Severity::Caution,
                    "text repeats between documents, which favours stores that compress large blocks: set `compress_to` (0.4 is common for JSON), or use your own documents with `from`",
                ),
                () => (Severity::Pass, ""),
            };
            Some(Finding::new(severity, observed, threshold.clone(), advice))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::CollectionResult;
    use crate::validity::testing::{CAUTION, NOTE, PASS, closed, severity};
    use crate::validity::{Severity, judge};

    #[test]
    fn compressible_payload() {
        let with = |page: f64, own: bool| {
            let mut result = closed(|_| ());
            result.documents[0].own = own;
            result.documents[0].compression.as_mut().unwrap().page_zstd3 = page;
            severity(&result, "compressible-payload")
        };
        assert_eq!(with(0.25, false), PASS);
        assert_eq!(with(0.249, false), CAUTION);
        assert_eq!(with(0.01, true), NOTE);
    }

    #[test]
    fn documents_of_any_configuration_count() {
        let mut result = closed(|_| ());
        let first = result.documents[0].clone();
        result.documents[0].configurations = vec!["a".into()];
        result.documents.push(CollectionResult { configurations: vec!["b".into(), "c".into(), "d".into()], ..first });
        result.documents[1].compression.as_mut().unwrap().page_zstd3 = 0.1;
        let found =
            judge(&result).into_iter().find(|v| v.check == "compressible-payload" && v.severity == Severity::Caution);
        assert!(found.unwrap().observed.starts_with("books (b, c and 1 more): "));
    }
}
