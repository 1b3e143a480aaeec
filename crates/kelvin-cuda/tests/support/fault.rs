//! Turns a kernel's access to memory that is not the device's into an error of its launch.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// Ends a running launch of the emulator; does not return.
pub type Touched = unsafe extern "C" fn(address: *const c_void);

thread_local! {
    static RUNNING: Cell<Option<Touched>> = const { Cell::new(None) };
}

/// The handlers that were there before.
static BEFORE: OnceLock<[libc::sigaction; 2]> = OnceLock::new();
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Runs `launch`; what it touches wrongly is told to `touched`.
pub fn catching<R>(touched: Touched, launch: impl FnOnce() -> R) -> R {
    BEFORE.get_or_init(|| SIGNALS.map(install));
    RUNNING.set(Some(touched));
    let result = launch();
    RUNNING.set(None);
    result
}

fn install(signal: c_int) -> libc::sigaction {
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
    // SAFETY: an action of all zeros is one; it is filled in before it is used, and `handle` takes what SA_SIGINFO says.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        let mut before: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(signal, &action, &mut before);
        before
    }
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the system gives a valid `info`; a launch that is running on this thread can be ended by its library.
    unsafe {
        if let Some(touched) = RUNNING.take() {
            touched((*info).si_addr());
        }
        // Not a kernel: whoever handled it before does so, when the instruction is tried again.
        if let Some(before) = BEFORE.get() {
            libc::sigaction(signal, &before[usize::from(signal == SIGNALS[1])], std::ptr::null_mut());
        }
    }
}
