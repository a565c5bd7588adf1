//! The compared stores: one file per family.

pub mod any_length;
pub mod delay_queue;
pub mod floors;
pub mod hierarchy;
pub mod list;
pub mod ours;
pub mod overflow_wheel;
pub mod paper;
pub mod quad_wheel;
pub mod tree;
pub mod wheel;

/// Calls a generic function for the [`Store`](crate::store::Store) with this name.
#[macro_export]
macro_rules! for_store {
    ($name:expr, $function:ident($($argument:expr),*)) => {{
        use $crate::named::Named;
        use $crate::stores::*;
        match $name {
            "lawn" => $function::<ours::Ours>($($argument),*),
            "paper" => $function::<Named<paper::Paper>>($($argument),*),
            "unordered-list" => $function::<Named<list::Unordered>>($($argument),*),
            "ordered-list" => $function::<Named<list::Ordered>>($($argument),*),
            "heap" => $function::<Named<tree::Heap>>($($argument),*),
            "btree" => $function::<Named<tree::Tree>>($($argument),*),
            "simple-wheel" => $function::<Named<wheel::Simple>>($($argument),*),
            "overflow-wheel" => $function::<Named<overflow_wheel::OverflowWheel>>($($argument),*),
            "hashed-sorted" => $function::<Named<wheel::HashedSorted>>($($argument),*),
            "hashed-unsorted" => $function::<Named<wheel::HashedUnsorted>>($($argument),*),
            "hierarchy" => $function::<Named<hierarchy::Hierarchy>>($($argument),*),
            "hierarchy-any" => $function::<any_length::AnyLength>($($argument),*),
            "quad-wheel" => $function::<Named<quad_wheel::QuadWheel>>($($argument),*),
            "delay-queue" => $function::<delay_queue::Delayed>($($argument),*),
            "floor-boxes" => $function::<floors::Boxes>($($argument),*),
            "floor-arena" => $function::<floors::Arena>($($argument),*),
            other => panic!("there is no store called {other}"),
        }
    }};
}

/// Returns the name of a store in tables.
pub fn label(store: &str) -> &'static str {
    fn of<S: crate::store::Store>() -> &'static str {
        S::LABEL
    }
    for_store!(store, of())
}

/// All stores, in the order of the tables.
pub const ALL: [&str; 16] = [
    "lawn",
    "paper",
    "hierarchy",
    "hierarchy-any",
    "quad-wheel",
    "delay-queue",
    "hashed-unsorted",
    "hashed-sorted",
    "simple-wheel",
    "overflow-wheel",
    "heap",
    "btree",
    "ordered-list",
    "unordered-list",
    "floor-arena",
    "floor-boxes",
];
