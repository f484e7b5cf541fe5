//! Terminal output at several widths, and documents against their schema.

mod schema;
mod terminal;
