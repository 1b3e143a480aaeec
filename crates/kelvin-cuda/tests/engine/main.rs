//! The engine that experiments see: known posteriors, devices side by side, engines kept from call to call.

#[path = "../general/networks.rs"]
mod networks;
mod posterior_support;
mod posteriors;
mod reuse;
mod several_devices;
#[path = "../support/mod.rs"]
mod support;
