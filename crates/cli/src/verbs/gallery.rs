//! `gallery FOLDER`: a static site of bundles.

use std::path::Path;

use storebench_report::{GALLERY_MARK, GalleryRow, Life, PAGE_MARK, Recorded, Subject, gallery, page};
use storebench_results::bundle::Bundle;

use super::report::address;
use crate::args::GalleryArgs;
use crate::bundles;
use crate::failure::Failure;
use crate::output::print;
use crate::outputs::{refuse_existing, write_text};

const INDEX: &str = "index.html";
/// The end of a report that a gallery wrote.
const REPORT_MARK: &str = "<!-- A report of `storebench gallery`. -->\n";

pub(crate) fn gallery_of(args: &GalleryArgs) -> Result<u8, Failure> {
    let trusted = bundles::trusted(&args.trust)?;
    let found = bundles::in_folder(&args.folder)?;
    let site = args.output.clone().unwrap_or_else(|| args.folder.join("gallery"));
    let reports = site.join("report");
    std::fs::create_dir_all(&reports)
        .map_err(|error| Failure::bad_input(format!("{}: cannot be created: {error}", site.display())))?;
    let index = site.join(INDEX);
    // Pages of an earlier gallery are replaced, and no other file.
    refuse_existing(&index, is_page(&index, |text| text.contains(GALLERY_MARK)))?;
    let is_report = |place: &Path| is_page(place, |text| text.ends_with(REPORT_MARK));
    let mut written = Vec::new();
    let mut rows = Vec::new();
    let mut unread = 0;
    for path in found {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let shown = Bundle::open(&path).map_err(|error| error.what).and_then(|bundle| {
            bundles::untrusted(&bundle, trusted.as_deref()).map_or(Ok(()), Err)?;
            // Not the page that the bundle contains, which could be anything.
            let text = page_of(&bundle, &stem)?;
            Ok((bundle, text))
        });
        rows.push(match shown {
            Ok((bundle, text)) => {
                let place = reports.join(format!("{stem}.html"));
                refuse_existing(&place, is_report(&place))?;
                write_text(&place, &(text + REPORT_MARK), true)?;
                let row = GalleryRow::new(file, address(&site, &place), Ok((&bundle.result, bundles::signer(&bundle))));
                written.push(place);
                row
            }
            Err(why) => {
                unread += 1;
                GalleryRow::new(file, None, Err(why))
            }
        });
    }
    write_text(&index, &gallery(rows), true)?;
    // Reports of an earlier gallery that no row links to, and no other file.
    for entry in std::fs::read_dir(&reports).into_iter().flatten().flatten() {
        let place = entry.path();
        if !written.contains(&place) && is_report(&place) {
            std::fs::remove_file(&place)
                .map_err(|error| Failure::spoiled(format!("{}: cannot be removed: {error}", place.display())))?;
        }
    }
    print(&format!("{}\n", index.display()))?;
    match unread {
        0 => Ok(0),
        n => Err(Failure::bad_input(format!("{n} of the bundles cannot be shown; the page says why"))),
    }
}

/// The report of a bundle, made again from its data.
fn page_of(bundle: &Bundle, name: &str) -> Result<String, String> {
    let told = |error: std::io::Error| format!("cannot be unpacked: {error}");
    let temporary = tempfile::tempdir().map_err(told)?;
    bundle.unpack(temporary.path(), "run/").map_err(|error| error.to_string())?;
    // The page names the folder.
    let run = temporary.path().join(name);
    std::fs::rename(temporary.path().join("run"), &run).map_err(told)?;
    let subject = Subject::of(vec![Recorded::open(&run).map_err(|error| error.to_string())?]);
    page(&subject, Life::Written).map_err(|error| error.to_string())
}

/// Whether a file is a page of Storebench with this property.
fn is_page(file: &Path, is: impl Fn(&str) -> bool) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.contains(PAGE_MARK) && is(&text))
}
