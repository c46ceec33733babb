//! Locales and collation versions of a database, as the operating system and its libraries see them now.

use super::role::c_name;
use crate::ffi;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;

/// A locale category that databases have.
#[derive(Clone, Copy)]
pub(crate) enum Category {
    /// LC_COLLATE.
    Collate,
    /// LC_CTYPE.
    Ctype,
}

impl Category {
    fn number(self) -> c_int {
        match self {
            Category::Collate => libc::LC_COLLATE,
            Category::Ctype => libc::LC_CTYPE,
        }
    }

    /// The category's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Category::Collate => "LC_COLLATE",
            Category::Ctype => "LC_CTYPE",
        }
    }
}

/// Whether the operating system knows the locale.
pub(crate) fn exists(category: Category, name: &str) -> bool {
    // SAFETY: sets and restores the process's locale; the canonical name is not asked for.
    unsafe { ffi::check_locale(category.number(), c_name(name).as_ptr(), ptr::null_mut()) }
}

/// The version of a collation as its library reports it now; None if the provider has no versions.
pub(crate) fn collation_version(provider: u8, locale: &str) -> Option<String> {
    // SAFETY: returns NULL or a NUL-terminated string in the current memory context.
    unsafe {
        let version = ffi::get_collation_actual_version(provider as c_char, c_name(locale).as_ptr());
        (!version.is_null()).then(|| CStr::from_ptr(version).to_string_lossy().into_owned())
    }
}
