//! How calibrated documents compress, measured independently of the calibration.

use storebench_documents::{Catalog, Documents};

use super::{catalog, refusal};

/// zstd level 3 over 32 KiB pages of consecutive documents, from a part of the collection that is mostly outside of the
/// calibration's sample.
fn page_ratio(documents: &Documents, from: u64, bytes: usize) -> f64 {
    let mut all = Vec::new();
    let mut index = from;
    while all.len() < bytes {
        documents.write_document(index, 0, &mut all);
        index += 1;
    }
    let pages: Vec<&[u8]> = all.chunks_exact(32 << 10).collect();
    let packed: usize = pages.iter().map(|page| zstd::bulk::compress(page, 3).unwrap().len()).sum();
    packed as f64 / (pages.len() * (32 << 10)) as f64
}

fn sized(size: &str, target: f64, fields: &str) -> String {
    format!("[collections.a]\ncount = 1_000_000\nsize = {size}\ncompress_to = {target}\n{fields}")
}

fn reachable(size: &str, fields: &str) -> (f64, f64) {
    let error = refusal(&sized(size, 1.0, fields));
    assert_eq!(error.path, "collections.a.compress_to");
    let numbers: Vec<f64> = error.message.split([' ', ',']).filter_map(|w| w.parse().ok()).collect();
    (numbers[0], numbers[1])
}

fn hold(size: &str, fields: &str) {
    let (least, most) = reachable(size, fields);
    assert!(least < 0.12 && most > 0.6, "{size}: {least} to {most}");
    for step in 0..=6 {
        let target = least + (most - least) * f64::from(step) / 6.0;
        let catalog = catalog(&sized(size, target, fields));
        let got = page_ratio(catalog.get(0), 123_456, 1 << 20);
        assert!((got - target).abs() <= 0.02, "{size} {fields}: wanted {target:.3}, got {got:.3}");
        let calibration = catalog.get(0).calibration().unwrap();
        assert_eq!(calibration.target, target);
        assert!((calibration.reachable.1 - most).abs() < 0.002);
    }
}

#[test]
fn targets_are_met_at_every_size() {
    for size in ["200", "\"1KiB\"", "\"4KiB\"", "\"64KiB\""] {
        hold(size, "");
    }
}

#[test]
fn targets_are_met_with_many_fields_and_spread_sizes() {
    let fields = "fields = { name = { words = 3 }, about = { sentences = [2, 4] }, n = { integer = [0, 1000000] }, blob = { bytes = [20, 60] }, at = { time = [\"2006-01-01\", \"2018-01-01\"] } }";
    hold("[\"1KiB\", \"2KiB\"]", fields);
    hold("{ lognormal = { median = \"2KiB\", sigma = 0.7 } }", "");
}

fn long_stays(bytes: u64, catalog: &Catalog) {
    for documents in catalog.iter() {
        let target = documents.calibration().unwrap().target;
        let found = documents.measure_compression(4 << 20, bytes);
        let long = found.long_zstd.unwrap();
        assert!((found.page_zstd3 - target).abs() <= 0.02, "{}: {found:?}", documents.name());
        assert!((long - target).abs() <= 0.05, "{}: {found:?}", documents.name());
        assert!(found.doc_snappy > target - 0.02, "{}: {found:?}", documents.name());
    }
}

const LONG: &str = r#"
[collections.ascii]
count = 1_000_000
size = "2KiB"
compress_to = 0.4
[collections.pairs]
count = 1_000_000
size = "1KiB"
compress_to = 0.88
"#;

#[test]
fn no_repetition_hides_at_long_range() {
    long_stays(16 << 20, &catalog(LONG));
}

#[test]
#[ignore = "soak: 256 MB through zstd"]
fn soak_long_window() {
    long_stays(256 << 20, &catalog(LONG));
}

#[test]
fn plain_text_says_what_it_is() {
    // Uncalibrated text repeats its corpus: the long window shows it.
    let catalog = catalog("[collections.a]\ncount = 1_000_000\nsize = \"2KiB\"");
    let found = catalog.get(0).measure_compression(1 << 20, 16 << 20);
    assert!(found.long_zstd.unwrap() < 0.1 && found.page_zstd3 > 0.3, "{found:?}");
    assert_eq!(catalog.get(0).measure_compression(1 << 16, 0).long_zstd, None);
}
