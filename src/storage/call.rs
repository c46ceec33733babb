//! Entry points that pgrx's macros cannot express: procedures with many arguments and a row as result.
//!
//! Arguments are read by position as the hand-written SQL declares them; a mismatch between the two files shows in
//! the first regression test.

use crate::error::{Error, Result};
use pgrx::pg_sys;
use pgrx::pg_sys::Datum;
use pgrx::prelude::*;

/// Declares a version-1 C function `$symbol` that calls the safe function `$body` with a [`Call`].
macro_rules! sql_entry_point {
    ($symbol:ident, $info:ident, $body:path) => {
        /// What tells the backend that the function uses the version-1 calling convention.
        #[unsafe(no_mangle)]
        pub extern "C" fn $info() -> &'static pgrx::pg_sys::Pg_finfo_record {
            const INFO: pgrx::pg_sys::Pg_finfo_record = pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
            &INFO
        }

        /// The entry point named in the CREATE PROCEDURE.
        #[unsafe(no_mangle)]
        #[pgrx::pg_guard]
        pub extern "C-unwind" fn $symbol(fcinfo: pgrx::pg_sys::FunctionCallInfo) -> pgrx::pg_sys::Datum {
            $crate::storage::call::run(fcinfo, $body)
        }
    };
}
pub(crate) use sql_entry_point;

/// One call of a function: its arguments and its result.
pub(crate) struct Call {
    fcinfo: pg_sys::FunctionCallInfo,
}

/// Runs a body for an entry point, and raises the error it returns.
pub(crate) fn run(fcinfo: pg_sys::FunctionCallInfo, body: fn(&mut Call) -> Result<Datum>) -> Datum {
    let mut call = Call { fcinfo };
    match body(&mut call) {
        Ok(datum) => datum,
        Err(error) => error.raise(),
    }
}

impl Call {
    fn argument(&self, position: usize) -> Option<Datum> {
        // SAFETY: the backend passes a valid frame; the slice has as many arguments as it says.
        let argument = unsafe {
            let frame = &*self.fcinfo;
            frame
                .args
                .as_slice(usize::from(frame.nargs as u16))
                .get(position)
                .copied()
        };
        argument
            .filter(|argument| !argument.isnull)
            .map(|argument| argument.value)
    }

    /// A text argument.
    pub(crate) fn text(&self, position: usize) -> Option<String> {
        // SAFETY: the SQL declares the argument as text.
        self.argument(position)
            .and_then(|datum| unsafe { String::from_datum(datum, false) })
    }

    /// An int4 argument.
    pub(crate) fn int(&self, position: usize) -> Option<i32> {
        // SAFETY: the SQL declares the argument as int4.
        self.argument(position)
            .and_then(|datum| unsafe { i32::from_datum(datum, false) })
    }

    /// A boolean argument.
    pub(crate) fn bool(&self, position: usize) -> Option<bool> {
        // SAFETY: the SQL declares the argument as boolean.
        self.argument(position)
            .and_then(|datum| unsafe { bool::from_datum(datum, false) })
    }

    /// An interval argument.
    pub(crate) fn interval(&self, position: usize) -> Option<IntervalParts> {
        let datum = self.argument(position)?;
        // SAFETY: the SQL declares the argument as interval, which is passed by reference.
        let interval = unsafe { *datum.cast_mut_ptr::<pg_sys::Interval>() };
        Some(IntervalParts {
            months: interval.month,
            days: interval.day,
            microseconds: interval.time,
        })
    }

    /// Whether the call may not end its transaction: true unless it comes from a CALL that says otherwise.
    pub(crate) fn is_atomic(&self) -> bool {
        // SAFETY: the context is NULL or a node; only a CallContext is looked into.
        unsafe {
            let context = (*self.fcinfo).context;
            context.is_null()
                || (*context).type_ != pg_sys::NodeTag::T_CallContext
                || (*context.cast::<pg_sys::CallContext>()).atomic
        }
    }

    /// The row that the call returns, in the order of its output columns.
    pub(crate) fn row(&mut self, values: Vec<Option<Datum>>) -> Result<Datum> {
        let mut nulls: Vec<bool> = values.iter().map(Option::is_none).collect();
        let mut values: Vec<Datum> = values.into_iter().map(|v| v.unwrap_or(Datum::from(0))).collect();
        // SAFETY: the tuple descriptor is the declared one; both arrays have as many entries as it has columns.
        unsafe {
            let mut descriptor = std::ptr::null_mut();
            let class = pg_sys::get_call_result_type(self.fcinfo, std::ptr::null_mut(), &mut descriptor);
            if class != pg_sys::TypeFuncClass::TYPEFUNC_COMPOSITE
                || (*descriptor).natts as usize != values.len()
            {
                return Err(Error::NullArgument {
                    argument: "result row",
                });
            }
            let descriptor = pg_sys::BlessTupleDesc(descriptor);
            let tuple = pg_sys::heap_form_tuple(descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
            (*self.fcinfo).isnull = false;
            Ok(pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data))
        }
    }
}

/// An interval as PostgreSQL keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntervalParts {
    /// Months.
    pub(crate) months: i32,
    /// Days.
    pub(crate) days: i32,
    /// Microseconds.
    pub(crate) microseconds: i64,
}
