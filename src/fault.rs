//! Fault points: where a test stops, breaks or kills a clone between two steps.
//!
//! They exist only in builds with the feature `testing`; in all others a point is an empty function. The setting
//! `blockwise.fault` says `point[:skip]=action`: at the named point, after `skip` earlier passes in this session.
#![deny(unsafe_code)]

/// A place between two steps.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub(crate) fn point(_name: &'static str) -> crate::error::Result<()> {
    Ok(())
}

#[cfg(feature = "testing")]
pub(crate) use testing::point;

#[cfg(feature = "testing")]
mod testing {
    use crate::error::{Error, Result};
    use crate::settings::FAULT;
    use crate::storage::{exit, lock};
    use std::cell::RefCell;

    /// The advisory lock that the action `wait` passes through.
    const GATE: i64 = 7_355_608;

    thread_local! {
        /// The setting's value when passes were last counted, and the passes since.
        static PASSES: RefCell<(String, u64)> = const { RefCell::new((String::new(), 0)) };
    }

    /// A place between two steps.
    pub(crate) fn point(name: &'static str) -> Result<()> {
        let Some(setting) = FAULT.get().and_then(|value| value.into_string().ok()) else {
            return Ok(());
        };
        let Some((place, action)) = setting.split_once('=') else {
            return Ok(());
        };
        let (wanted, skip) = match place.split_once(':') {
            Some((wanted, skip)) => (wanted, skip.parse().unwrap_or(0)),
            None => (place, 0),
        };
        if wanted != name || passes(&setting) != skip {
            return Ok(());
        }
        act(name, action)
    }

    /// How often the point was passed before since the setting got its value.
    fn passes(setting: &str) -> u64 {
        PASSES.with_borrow_mut(|(counted, passes)| {
            if counted != setting {
                *counted = setting.to_string();
                *passes = 0;
            }
            *passes += 1;
            *passes - 1
        })
    }

    fn act(name: &'static str, action: &str) -> Result<()> {
        match action {
            "error" => Err(Error::Fault { point: name }),
            "panic" => std::panic::panic_any(format!("panic at fault point {name}")),
            "fatal" => exit::exit_fatally(),
            "terminate" => signal(libc::SIGTERM),
            "cancel" => signal(libc::SIGINT),
            "kill" => signal(libc::SIGKILL),
            "wait" => {
                lock::pass_advisory_lock(GATE);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Sends this process a signal and serves it.
    fn signal(signal: i32) -> Result<()> {
        exit::signal_self(signal);
        pgrx::check_for_interrupts!();
        Ok(())
    }
}
