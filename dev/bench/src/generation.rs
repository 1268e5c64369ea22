//! How fast documents are generated, in bytes per second of one core's processor time.

use std::hint::black_box;

use fake::Fake;
use fake::faker::lorem::en::{Paragraph, Sentence};
use fake::rand::SeedableRng;
use fake::rand::rngs::StdRng;
use serde_json::json;
use storebench_documents::keys::Rng;
use storebench_engine::measure::thread_cpu_ns;

use crate::Failure;
use crate::figure::{Figure, Samples, Target, Unit};
use crate::options::Options;
use crate::pin::pinned;
use crate::rounds::interleave;
use crate::subject::Subject;

pub(crate) const FIGURES: &[&str] = &["text", "calibrated"];

const TOPIC: &str = "generation";
/// 2.2 KiB.
const DOCUMENT_BYTES: usize = 2_253;
const CORPUS_BYTES: usize = 1 << 20;
/// The size of the pieces of text, and so of each copy.
const PIECE_BYTES: usize = 1_024;
/// Targets of compressibility: easy, typical, and one that needs two-byte characters.
const RATIOS: [f64; 3] = [0.4, 0.7, 0.85];

fn study(compress_to: Option<f64>) -> String {
    let compress = compress_to.map_or(String::new(), |ratio| format!("compress_to = {ratio}"));
    format!(
        r#"
title = "Text documents"
seed = 435
[collections.documents]
count = 100_000_000
size = "{DOCUMENT_BYTES}B"
{compress}
fields = {{ text = {{ text = "fill" }} }}
[[phases]]
name = "load"
load = ["documents"]
"#
    )
}

/// Calls `make` this many times; it returns the number of bytes. Returns GB per second of processor time.
fn gb_per_s(times: u64, mut make: impl FnMut(u64) -> usize) -> f64 {
    let before = thread_cpu_ns();
    let bytes: usize = (0..times).map(&mut make).sum();
    bytes as f64 / (thread_cpu_ns() - before).max(1) as f64
}

pub(crate) fn measure(options: &Options) -> Result<Vec<Figure>, Failure> {
    let times = options.work(400_000);
    let mut figures = Vec::new();
    if options.wants(TOPIC, "text") {
        let [ours, memcpy, fake] = pinned(|| text(options.rounds, times))?;
        figures.push(
            Figure::new(TOPIC, "text, 2.2 KiB documents", Unit::GbPerS, ours.clone())
                .beside("memcpy of such slices", memcpy)
                .target(Target::AtLeast(3.0)),
        );
        figures.push(Figure::new(TOPIC, "the same", Unit::GbPerS, ours).beside("fake into serde_json", fake));
    }
    if options.wants(TOPIC, "calibrated") {
        let subjects = RATIOS.map(|ratio| Subject::new(&study(Some(ratio))));
        let subjects = subjects.into_iter().collect::<Result<Vec<_>, _>>()?;
        let plain = Subject::new(&study(None))?;
        let mut values = pinned(|| calibrated(options.rounds, times, &subjects, &plain))?;
        let plain = values.pop().unwrap_or_default();
        for ((ratio, subject), ours) in RATIOS.iter().zip(&subjects).zip(values) {
            let characters = subject.documents().calibration().map_or("", |c| c.characters.as_str());
            figures.push(
                Figure::new(TOPIC, format!("calibrated to {ratio} ({characters})"), Unit::GbPerS, ours)
                    .beside("not calibrated", plain.clone())
                    .target(Target::AtLeast(1.0)),
            );
        }
    }
    Ok(figures)
}

/// One document after the other, into the same buffer.
fn documents(subject: &Subject, times: u64) -> f64 {
    let documents = subject.documents();
    let mut out = Vec::with_capacity(2 * DOCUMENT_BYTES);
    gb_per_s(times, |index| {
        out.clear();
        documents.write_document(index, 0, &mut out);
        black_box(&out).len()
    })
}

fn text(rounds: usize, times: u64) -> Result<[Samples; 3], Failure> {
    let subject = Subject::new(&study(None))?;
    let mut ours = || Ok([documents(&subject, times)]);
    let corpus: Vec<u8> = (0..CORPUS_BYTES).map(|i| b'a' + (i % 26) as u8).collect();
    let mut rng = Rng::new(1);
    let mut memcpy = || {
        let mut out = Vec::with_capacity(2 * DOCUMENT_BYTES);
        Ok([gb_per_s(times, |_| {
            out.clear();
            let mut rest = DOCUMENT_BYTES;
            while rest > 0 {
                let take = rest.min(PIECE_BYTES);
                let at = rng.below((CORPUS_BYTES - take) as u64) as usize;
                out.extend_from_slice(black_box(&corpus[at..at + take]));
                rest -= take;
            }
            black_box(&out).len()
        })])
    };
    let mut seeded = StdRng::seed_from_u64(1);
    let mut fake = || {
        let mut out = Vec::with_capacity(2 * DOCUMENT_BYTES);
        // A hundredth of the documents takes about the same time.
        Ok([gb_per_s(times.div_ceil(100), |index| {
            out.clear();
            let title: String = Sentence(3..8).fake_with_rng(&mut seeded);
            let text: String = Paragraph(42..46).fake_with_rng(&mut seeded);
            // Writing to a Vec cannot fail.
            let _ = serde_json::to_writer(&mut out, &json!({ "index": index, "title": title, "text": text }));
            black_box(&out).len()
        })])
    };
    let all = interleave::<1>(rounds, vec![&mut ours, &mut memcpy, &mut fake])?;
    let mut all = all.into_iter().map(|[samples]| samples);
    Ok(std::array::from_fn(|_| all.next().unwrap_or_default()))
}

/// The speed of each subject, then of the plain one.
fn calibrated(rounds: usize, times: u64, subjects: &[Subject], plain: &Subject) -> Result<Vec<Samples>, Failure> {
    let mut sides: Vec<_> =
        subjects.iter().chain([plain]).map(|subject| move || Ok([documents(subject, times)])).collect();
    let sides = sides.iter_mut().map(|side| side as crate::rounds::Side<'_, 1>).collect();
    Ok(interleave::<1>(rounds, sides)?.into_iter().map(|[samples]| samples).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_size_that_is_guaranteed() {
        for ratio in [None, Some(0.4)] {
            let subject = Subject::new(&study(ratio)).unwrap();
            let mut out = Vec::new();
            subject.documents().write_document(7, 0, &mut out);
            assert_eq!(out.len(), DOCUMENT_BYTES);
        }
    }
}
