//! Dehydrator: a data type for Redis and Valkey that puts elements away and gives them back when they
//! are due. So far: the structure inside, which the module will be built on.

#![allow(dead_code)]

mod lawn;
