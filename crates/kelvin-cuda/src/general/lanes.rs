//! The memories that an engine keeps, one for each lane: runs and evaluations take what is large enough, and make the rest.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, MutexGuard};

use super::core::Core;
use super::memory::GroupMemory;

use crate::gpu::device::{DeviceError, MOST_LANES};

/// Lanes that are asked for: how many, and room for how many chains and images each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Lanes that step beside each other.
    pub count: usize,
    /// Chains of a lane.
    pub num_chains: usize,
    /// Images of a chain's batch.
    pub num_images: usize,
}

impl Wanted {
    fn is_served_by(&self, lane: &GroupMemory) -> bool {
        lane.num_chains >= self.num_chains && lane.num_images >= self.num_images
    }
}

/// Chains of a lane of a group. Half of a group's chains step beside the other half, so that blocks of one fill the
/// multiprocessors that the last blocks of a launch of the other leave idle.
pub fn lane_of(group: usize) -> usize {
    group.div_ceil(MOST_LANES)
}

/// The lanes of a group.
pub fn wanted(group: usize, num_images: usize) -> Wanted {
    let num_chains = lane_of(group);
    Wanted { count: group.div_ceil(num_chains), num_chains, num_images }
}

/// Memories that are kept, as many as a recording has lanes. What is too small makes room only for as many as must be made:
/// runs of few chains and evaluations of many draws, in turn, each find theirs again.
#[derive(Default)]
pub struct Lanes {
    kept: Mutex<Vec<Arc<GroupMemory>>>,
    in_use: Mutex<()>,
}

impl Lanes {
    /// To be held by who launches what writes to a lane, until all of it is done.
    pub fn use_alone(&self) -> MutexGuard<'_, ()> {
        lock(&self.in_use)
    }

    /// The most images that a kept memory has room for.
    pub fn most_images(&self) -> Option<usize> {
        lock(&self.kept).iter().map(|lane| lane.num_images).max()
    }

    /// Bytes more that lanes would take, and bytes that would be given back for them.
    pub fn change(&self, core: &Core, wanted: Wanted) -> (usize, usize) {
        let mut kept = lock(&self.kept);
        let (serving, staying) = arrange(&mut kept, wanted);
        // What a run still uses is not given back before it ends.
        let idle = kept[staying..].iter().filter(|lane| Arc::strong_count(lane) == 1);
        let given_back = idle.map(|lane| core.lane_bytes(lane.num_chains, lane.num_images)).sum();
        ((wanted.count - serving) * core.lane_bytes(wanted.num_chains, wanted.num_images), given_back)
    }

    /// The lanes, made where there are none.
    pub fn take(&self, core: &Core, wanted: Wanted) -> Result<Vec<Arc<GroupMemory>>, DeviceError> {
        let mut kept = lock(&self.kept);
        let (serving, staying) = arrange(&mut kept, wanted);
        // What is too small is given back first.
        kept.truncate(staying);
        let mut taken = kept[..serving].to_vec();
        while taken.len() < wanted.count {
            let made = Arc::new(core.lane(wanted.num_chains, wanted.num_images)?);
            kept.push(Arc::clone(&made));
            taken.push(made);
        }
        Ok(taken)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Puts memories that serve first, and large ones before small ones: how many of the first serve, and how many of all stay.
fn arrange(kept: &mut [Arc<GroupMemory>], wanted: Wanted) -> (usize, usize) {
    kept.sort_by_key(|lane| (!wanted.is_served_by(lane), Reverse(lane.num_chains * lane.num_images)));
    let serving = kept.iter().take(wanted.count).filter(|lane| wanted.is_served_by(lane)).count();
    (serving, kept.len().min(MOST_LANES + serving - wanted.count))
}
