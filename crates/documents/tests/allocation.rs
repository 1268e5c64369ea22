//! Writing a document and a key allocates nothing once the buffer is large enough.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use indexmap::IndexMap;
use storebench_documents::{Catalog, CatalogOptions};
use storebench_study::workload::Collection;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's guarantees are those of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees are those of `System`.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's guarantees are those of `System`.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn nothing_is_allocated_for_a_document() {
    #[derive(serde::Deserialize)]
    struct Study {
        collections: IndexMap<String, Collection>,
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("own.jsonl"), "{\"id\":\"a\\nb\"}\n{\"id\":\"c\"}\n").unwrap();
    let study: Study = toml_edit::de::from_str(
        r#"
[collections.own]
from = "own.jsonl"
key = "{id}"
[collections.users]
count = 1000
size = { lognormal = { median = "1KiB", sigma = 1.0 } }
compress_to = 0.7
fields = { name = { words = 2 }, tags = { list = { object = { t = { text = 5 } } } }, own = { ref = "own" }, n = "{i:09}", i = { integer = [0, 9] } }
[collections.books]
per = { users = [1, 9] }
key = "{user}/{seq}/{title}"
fields = { user = "{parent.key}", title = { choice = ["a\"b"] }, like = { ref = "books", same_parent = true, popularity = "zipf:0.5" }, d = { decimal = [0, 1] }, b = { bytes = 17 }, id = { id = "uuid" } }
"#,
    )
    .unwrap();
    let options = CatalogOptions { seed: 1, scale: 1.0, base_dir: dir.path(), scratch_dir: dir.path() };
    let catalog = Catalog::compile(&study.collections, &options).unwrap();
    let mut out = Vec::with_capacity(64 << 20);
    for documents in catalog.iter() {
        let before = ALLOCATIONS.get();
        for index in 0..documents.count() {
            out.clear();
            documents.write_key(index, &mut out);
            documents.write_document(index, 0, &mut out);
            documents.write_document(index, 3, &mut out);
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "{}", documents.name());
    }
}
