//! A data set in the device's memory: images as they are, and their targets.

use std::sync::Arc;

use kelvin::data::{Examples, Inputs, Targets};

use crate::gpu::device::{Address, Buffer, Device, DeviceError};

/// Images and targets on the device.
pub struct DeviceData {
    pixels: Pixels,
    targets: Buffer<u32>,
}

enum Pixels {
    Bytes(Buffer<u8>),
    Numbers(Buffer<f32>),
}

impl DeviceData {
    /// Copies examples to the device.
    pub fn new(device: &Arc<dyn Device>, examples: &Examples) -> Result<Self, DeviceError> {
        let pixels = match &examples.inputs {
            Inputs::Bytes(bytes) => Pixels::Bytes(Buffer::of(device, bytes)?),
            Inputs::Numbers(numbers) => Pixels::Numbers(Buffer::of(device, numbers)?),
        };
        let targets = match &examples.targets {
            Targets::Classes(labels) => Buffer::of(device, labels)?,
            // The kernel knows them for what they are.
            Targets::Real(numbers) => Buffer::of(device, bytemuck::cast_slice(numbers))?,
        };
        Ok(Self { pixels, targets })
    }

    /// Whether pixels are bytes.
    pub fn is_bytes(&self) -> bool {
        matches!(self.pixels, Pixels::Bytes(_))
    }

    /// Where the pixels of the first image lie.
    pub fn pixels(&self) -> Address {
        match &self.pixels {
            Pixels::Bytes(bytes) => bytes.at(0),
            Pixels::Numbers(numbers) => numbers.at(0),
        }
    }

    /// Where targets lie, f32 or u32.
    pub fn targets(&self) -> Address {
        self.targets.at(0)
    }
}
