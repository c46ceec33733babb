//! Configuration settings.
#![deny(unsafe_code)]

#[cfg(feature = "testing")]
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};

/// What the next fault points do (feature `testing`): `point[:skip]=action`.
#[cfg(feature = "testing")]
pub(crate) static FAULT: GucSetting<Option<std::ffi::CString>> =
    GucSetting::<Option<std::ffi::CString>>::new(None);

/// Registers every setting.
pub(crate) fn register() {
    #[cfg(feature = "testing")]
    GucRegistry::define_string_guc(
        c"blockwise.fault",
        c"What happens at a fault point.",
        c"point[:skip]=action; only in builds for tests.",
        &FAULT,
        GucContext::Suset,
        GucFlags::default(),
    );
}
