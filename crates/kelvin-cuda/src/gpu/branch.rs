//! Streams beside a device's own, which lanes of a recording are put into, and what is launched beside a lane.

use std::ptr;

use cudarc::driver::sys;
use cudarc::driver::{DriverError, result};

use crate::gpu::device::MOST_LANES;

/// What everything waits for goes first; what is launched beside it fills what is left.
const OF_LANES: i32 = -1;
const BESIDE: i32 = 0;

/// Streams beside the device's own, and where they leave it and come back.
pub struct Branch {
    /// One stream for each further lane.
    pub streams: [sys::CUstream; MOST_LANES - 1],
    /// Where all leave the device's own stream.
    pub begin: sys::CUevent,
    /// Where each comes back to it.
    pub ends: [sys::CUevent; MOST_LANES - 1],
    /// What is launched beside each lane.
    pub asides: [Aside; MOST_LANES],
}

/// A stream for what is launched beside a lane.
pub struct Aside {
    /// The stream.
    pub stream: sys::CUstream,
    /// Where it leaves the lane.
    pub leaves: sys::CUevent,
    /// Where it comes back.
    pub returns: sys::CUevent,
}

/// A stream for a lane; the caller has entered its device.
pub fn lane_stream() -> Result<sys::CUstream, DriverError> {
    stream(OF_LANES)
}

fn stream(priority: i32) -> Result<sys::CUstream, DriverError> {
    let mut stream = ptr::null_mut();
    let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: the caller has entered a device; the driver writes the one handle.
    unsafe { sys::cuStreamCreateWithPriority(&mut stream, flags, priority) }.result()?;
    Ok(stream)
}

fn event() -> Result<sys::CUevent, DriverError> {
    result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
}

impl Aside {
    fn new() -> Result<Self, DriverError> {
        Ok(Self { stream: stream(BESIDE)?, leaves: event()?, returns: event()? })
    }
}

impl Branch {
    /// The caller has entered its device.
    pub fn new() -> Result<Self, DriverError> {
        Ok(Self {
            streams: [lane_stream()?],
            begin: event()?,
            ends: [event()?],
            asides: [Aside::new()?, Aside::new()?],
        })
    }

    /// # Safety
    /// The caller has entered its device, and uses none of it any more.
    pub unsafe fn destroy(&self) {
        let streams = self.streams.iter().chain(self.asides.iter().map(|aside| &aside.stream));
        let of_asides = self.asides.iter().flat_map(|aside| [&aside.leaves, &aside.returns]);
        // SAFETY: as promised.
        unsafe {
            for &stream in streams {
                result::stream::destroy(stream).ok();
            }
            for &event in self.ends.iter().chain([&self.begin]).chain(of_asides) {
                result::event::destroy(event).ok();
            }
        }
    }
}
