//! Streams beside a device's own, which lanes of a recording are put into.

use cudarc::driver::sys;
use cudarc::driver::{DriverError, result};

use crate::gpu::device::MOST_LANES;

/// Streams beside the device's own, and where they leave it and come back.
pub struct Branch {
    /// One stream for each further lane.
    pub streams: [sys::CUstream; MOST_LANES - 1],
    /// Where all leave the device's own stream.
    pub begin: sys::CUevent,
    /// Where each comes back to it.
    pub ends: [sys::CUevent; MOST_LANES - 1],
}

impl Branch {
    /// The caller has entered its device.
    pub fn new() -> Result<Self, DriverError> {
        let event = || result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        Ok(Self {
            streams: [result::stream::create(result::stream::StreamKind::NonBlocking)?],
            begin: event()?,
            ends: [event()?],
        })
    }

    /// # Safety
    /// The caller has entered its device, and uses none of it any more.
    pub unsafe fn destroy(&self) {
        // SAFETY: as promised.
        unsafe {
            for &stream in &self.streams {
                result::stream::destroy(stream).ok();
            }
            for &event in self.ends.iter().chain([&self.begin]) {
                result::event::destroy(event).ok();
            }
        }
    }
}
