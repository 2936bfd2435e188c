//! Walks the map pages on drives below a root, each page once however many trees share it.

use ashlar_format::Pointer;
use ashlar_format::page::PAGE_POINTERS;
use ashlar_map::{Missing, Page, ROOT_LEVEL};
use ashlar_runtime::LocalFuture;
use rustc_hash::FxHashMap;

use crate::Result;
use crate::applier::load_map_page;
use crate::engine::Inner;

/// What a walk tells.
pub(crate) trait Visitor {
    /// A page, before its children.
    fn page(&mut self, pointer: Pointer);
    /// A leaf's pointers.
    fn leaf(&mut self, pointers: &[Pointer]);
}

/// Pages to look at before others get a turn.
const PAGES_PER_TURN: u64 = 32;

/// A walk over any number of roots.
pub(crate) struct Walk<'a> {
    inner: &'a Inner,
    /// Take pages from memory where they are there; `check` must not.
    is_memory_allowed: bool,
    /// Data blocks below each page seen.
    blocks: FxHashMap<Pointer, u64>,
    pub(crate) pages: u64,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(inner: &'a Inner, is_memory_allowed: bool) -> Walk<'a> {
        Walk { inner, is_memory_allowed, blocks: FxHashMap::default(), pages: 0 }
    }

    /// Visits everything below a root on a drive that was not visited before. Returns the data
    /// blocks below it.
    pub(crate) async fn visit_root(&mut self, root: Pointer, visitor: &mut dyn Visitor) -> Result<u64> {
        if !root.is_page() {
            return Ok(0);
        }
        self.visit(Missing { pointer: root, level: ROOT_LEVEL, index: 0 }, visitor).await
    }

    fn visit<'b>(&'b mut self, at: Missing, visitor: &'b mut dyn Visitor) -> LocalFuture<'b, Result<u64>> {
        Box::pin(async move {
            if let Some(blocks) = self.blocks.get(&at.pointer) {
                return Ok(*blocks);
            }
            self.inner.check_not_closing()?;
            let page = self.load(at).await?;
            self.pages += 1;
            if self.pages.is_multiple_of(PAGES_PER_TURN) {
                self.inner.runtime.yield_now().await;
            }
            visitor.page(at.pointer);
            let mut blocks = 0;
            if at.level == 0 {
                visitor.leaf(&page[..]);
                blocks = page.iter().filter(|pointer| pointer.is_data()).count() as u64;
            } else {
                for (slot, pointer) in page.iter().enumerate().filter(|(_, pointer)| pointer.is_page()) {
                    let index = at.index * PAGE_POINTERS as u64 + slot as u64;
                    let child = Missing { pointer: *pointer, level: at.level - 1, index };
                    blocks += self.visit(child, visitor).await?;
                }
            }
            self.blocks.insert(at.pointer, blocks);
            Ok(blocks)
        })
    }

    async fn load(&self, at: Missing) -> Result<Box<Page>> {
        if self.is_memory_allowed {
            let tree = self.inner.tree.borrow();
            if let Some(page) = tree.arena.loaded(at.pointer, at.level) {
                return Ok(Box::new(*page));
            }
        }
        load_map_page(&self.inner.media, at).await
    }
}
