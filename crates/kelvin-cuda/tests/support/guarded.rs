//! Memory between two pages that must not be touched, its odd ends filled with a pattern that must stay.

use std::ptr::null_mut;

/// Memory is aligned to this, and so is its end.
const ALIGNMENT: usize = 256;
const PATTERN: u8 = 0xA5;

/// Zeroed memory: `[no access | pattern | the bytes | pattern | no access]`.
pub struct GuardedMemory {
    mapping: *mut u8,
    mapping_len: usize,
    page: usize,
    start: *mut u8,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, whichever thread drops it.
unsafe impl Send for GuardedMemory {}

impl GuardedMemory {
    /// So many zero bytes; `None` where the system has no more.
    pub fn new(len: usize) -> Option<Self> {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let room = len.max(1).next_multiple_of(ALIGNMENT);
        let pages = room.next_multiple_of(page);
        let mapping_len = pages + 2 * page;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping of no file at a place of the system's choice.
        let mapping = unsafe { libc::mmap(null_mut(), mapping_len, access, kind, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return None;
        }
        let mapping = mapping.cast::<u8>();
        // SAFETY: both pages and all that is filled lie in the mapping.
        let start = unsafe {
            libc::mprotect(mapping.cast(), page, libc::PROT_NONE);
            libc::mprotect(mapping.add(page + pages).cast(), page, libc::PROT_NONE);
            let start = mapping.add(page + pages - room);
            mapping.add(page).write_bytes(PATTERN, pages - room);
            start.add(len).write_bytes(PATTERN, room - len);
            start
        };
        Some(Self { mapping, mapping_len, page, start, len })
    }

    pub fn start(&self) -> *mut u8 {
        self.start
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written before or behind the bytes.
    pub fn is_intact(&self) -> bool {
        // SAFETY: from the first page's end to the last page's start the mapping can be read.
        let (before, behind) = unsafe {
            let (first, end) = (self.mapping.add(self.page), self.start.add(self.len));
            let last = self.mapping.add(self.mapping_len - self.page);
            (
                std::slice::from_raw_parts(first, self.start.offset_from_unsigned(first)),
                std::slice::from_raw_parts(end, last.offset_from_unsigned(end)),
            )
        };
        before.iter().chain(behind).all(|&byte| byte == PATTERN)
    }
}

impl Drop for GuardedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and nobody uses it any more.
        unsafe { libc::munmap(self.mapping.cast(), self.mapping_len) };
    }
}
