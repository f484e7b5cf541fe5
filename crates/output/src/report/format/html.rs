//! One self-contained HTML page.

use super::Format;
use crate::report::html;

pub(super) static FORMAT: Format = Format {
    name: "html",
    about: "one HTML page that needs no other file and no network",
    extension: "html",
    run: Some(|of| Ok(html::page(std::slice::from_ref(of.run), &[])?)),
    comparison: Some(|of| Ok(html::comparison(of)?)),
    tables: Some(|reports, _| Ok(html::replayed(reports)?)),
    ..Format::NONE
};
