//! Measures compressibility on a sample, and sets it by bisection.

use std::io::Write;

use super::catalog::{Calibration, Compression};
use super::error::DocumentError;
use super::generate::Scope;
use super::mixture::{Characters, Mixture};
use super::plan::{Plan, Segment};

/// Stores compress pages of about this size.
const PAGE: usize = 32 << 10;
const LEVEL: i32 = 3;
/// Number of pages on which the share is searched.
const PAGES: usize = 16;
/// Pages taken from one place of the collection. Few, so that the sample covers many places even if documents are long.
const PAGES_IN_A_ROW: usize = 2;
/// Bisection steps: the share is found to within 2^-14.
const STEPS: u32 = 14;

/// Appends documents from this one on, until `bytes` are written or the collection ends.
fn append(plans: &[Plan], position: usize, mut index: u64, bytes: usize, out: &mut Vec<u8>) {
    let plan = &plans[position];
    let end = out.len() + bytes;
    while out.len() < end && index < plan.count {
        let before = out.len();
        Scope::new(plans, position, index, 0, plan.related).write_document(out);
        index += 1;
        if out.len() == before {
            break;
        }
    }
}

/// Full pages from places spread over the collection. Returns one partial page if the collection is smaller than a
/// page.
fn pages(plans: &[Plan], position: usize, wanted: usize) -> Vec<Vec<u8>> {
    let count = plans[position].count;
    let places = (wanted.div_ceil(PAGES_IN_A_ROW).max(1) as u64).min(count);
    let mut all = Vec::new();
    for place in 0..places {
        let mut run = Vec::new();
        append(plans, position, place_of(place, places, count), PAGE * PAGES_IN_A_ROW, &mut run);
        all.extend(run.chunks_exact(PAGE).take(PAGES_IN_A_ROW).map(<[u8]>::to_vec));
        if place == 0 && run.len() < PAGE {
            return vec![run];
        }
    }
    all
}

/// The first index of part number `place` if `count` is split into `places` equal parts.
fn place_of(place: u64, places: u64, count: u64) -> u64 {
    (u128::from(place) * u128::from(count) / u128::from(places.max(1))) as u64
}

/// Compressed / raw over pages, each compressed separately.
fn page_ratio(pages: &[Vec<u8>]) -> f64 {
    let (mut raw, mut packed) = (0usize, 0usize);
    let mut buffer = vec![0u8; zstd::zstd_safe::compress_bound(PAGE)];
    let Ok(mut compressor) = zstd::bulk::Compressor::new(LEVEL) else { return 1.0 };
    for page in pages {
        raw += page.len();
        packed += compressor.compress_to_buffer(page, &mut buffer).unwrap_or(page.len());
    }
    if raw == 0 { 1.0 } else { packed as f64 / raw as f64 }
}

fn ratio_of(plans: &mut [Plan], position: usize, share: f64, characters: &Characters) -> f64 {
    plans[position].mixture = Some(Mixture { share, characters: characters.clone() });
    page_ratio(&pages(plans, position, PAGES))
}

/// Sets the mixture of a collection so that its pages compress to `target`.
pub(crate) fn calibrate(
    plans: &mut [Plan],
    position: usize,
    target: f64,
    path: &str,
) -> Result<Calibration, DocumentError> {
    let plan = &plans[position];
    let calibrates =
        plan.slots.iter().any(|slot| slot.versioned) || plan.segments.iter().any(|s| matches!(s, Segment::Fill(_)));
    if !calibrates {
        return Err(DocumentError::new(
            path,
            "there is no text to calibrate; add `size`, or a field such as { text = \"500B\" } that is not part of a key or index",
        ));
    }
    let pairs = Characters::utf8_pairs();
    let least = ratio_of(plans, position, 0.0, &Characters::Ascii);
    let ascii = ratio_of(plans, position, 1.0, &Characters::Ascii);
    let most = ratio_of(plans, position, 1.0, &pairs).max(ascii);
    let round = |x: f64| (x * 1e4).round() / 1e4;
    let reachable = (round(least), round(most));
    if target < reachable.0 || target > reachable.1 {
        return Err(DocumentError::new(
            path,
            format!(
                "these fields can compress to between {:.3} and {:.3}, not to {target}; choose a target in this range, or change how much of a document is text",
                (reachable.0 * 1e3).ceil() / 1e3,
                (reachable.1 * 1e3).floor() / 1e3
            ),
        ));
    }
    let characters = if target <= ascii { Characters::Ascii } else { pairs };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        if ratio_of(plans, position, middle, &characters) < target { low = middle } else { high = middle }
    }
    let share = (low + high) / 2.0;
    let name = characters.name().to_owned();
    plans[position].mixture = Some(Mixture { share, characters });
    Ok(Calibration { target, reachable, share, characters: name })
}

/// Measures how well a collection compresses.
pub(crate) fn measure(plans: &[Plan], position: usize, sample_bytes: u64, long_bytes: u64) -> Compression {
    let plan = &plans[position];
    let wanted = (sample_bytes as usize / PAGE).max(1);
    let sample = pages(plans, position, wanted);
    let (mut documents, mut bytes, mut packed) = (0u64, 0u64, 0u64);
    let mut encoder = snap::raw::Encoder::new();
    let (mut document, mut buffer) = (Vec::new(), Vec::new());
    let places = plan.count.min(4_096);
    for place in 0..places {
        let index = place_of(place, places, plan.count);
        document.clear();
        Scope::new(plans, position, index, 0, plan.related).write_document(&mut document);
        buffer.resize(snap::raw::max_compress_len(document.len()).max(1), 0);
        packed += encoder.compress(&document, &mut buffer).unwrap_or(document.len()) as u64;
        bytes += document.len() as u64;
        documents += 1;
        if bytes >= sample_bytes {
            break;
        }
    }
    Compression {
        sample_documents: documents,
        sample_bytes: bytes,
        doc_snappy: if bytes == 0 { 1.0 } else { packed as f64 / bytes as f64 },
        page_zstd3: page_ratio(&sample),
        long_zstd: (long_bytes > 0).then(|| long_ratio(plans, position, long_bytes)).flatten(),
    }
}

/// Counts the bytes written.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Compressed / raw of consecutive documents, with a window that holds all of them if possible. Stops at the end of the
/// collection, because similar versions of one document are not a flaw of the text.
fn long_ratio(plans: &[Plan], position: usize, bytes: u64) -> Option<f64> {
    let plan = &plans[position];
    let window = (64 - bytes.leading_zeros()).clamp(27, 30);
    let mut encoder = zstd::stream::write::Encoder::new(Counter(0), LEVEL).ok()?;
    encoder.long_distance_matching(true).ok()?;
    encoder.window_log(window).ok()?;
    let (mut raw, mut document) = (0u64, Vec::new());
    for index in 0..plan.count {
        document.clear();
        Scope::new(plans, position, index, 0, plan.related).write_document(&mut document);
        encoder.write_all(&document).ok()?;
        raw += document.len() as u64;
        if raw >= bytes || document.is_empty() {
            break;
        }
    }
    let packed = encoder.finish().ok()?.0;
    (raw > 0).then(|| packed as f64 / raw as f64)
}
