//! Content that came back: how long it took each time, and whether it was what it had been.

use ashlar_report::{Page, bytes, nanos};

use crate::Outcome;
use crate::figures::Figures;

impl Outcome {
    /// Nothing where nothing was brought back.
    pub(super) fn restored(&self, page: &mut Page) {
        let rows: Vec<Vec<String>> = self.runs.iter().filter_map(row).collect();
        if rows.is_empty() {
            return;
        }
        page.heading("What came back, run by run");
        let header = [
            "Run",
            "Files",
            "Size",
            "Written anew before",
            "Until it is back",
            "Of that the array",
            "Content",
        ];
        page.table(&header, &[1, 2, 3, 4, 5], &rows);
        page.remark(
            "Until it is back: with a snapshot, the file system is unmounted, the volume set back, and the file \
             system mounted; with a copy, the files are deleted, copied from another volume of the pool, and \
             flushed. Then every byte of every file is read from the volume and held against what was written \
             before the snapshot or the copy was made.",
        );
    }
}

fn row(figures: &Figures) -> Option<Vec<String>> {
    let found = figures.restored.as_ref()?;
    Some(vec![
        figures.id.clone(),
        found.files.to_string(),
        bytes(found.bytes),
        found.changed.to_string(),
        nanos(found.back_nanos as f64),
        found.array_nanos.map_or_else(String::new, |array| nanos(array as f64)),
        match found.offences.is_empty() {
            true => "every byte as it was".into(),
            false => found.offences.join("; "),
        },
    ])
}
