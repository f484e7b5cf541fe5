//! One self-contained HTML page.

use super::Format;
use crate::report::html;

pub(super) static FORMAT: Format = Format {
    name: "html",
    about: "one HTML page that needs no other file and no network",
    extension: "html",
    run: Some(|of, out| {
        let page = html::page(std::slice::from_ref(of.run), &[])?;
        out.write_all(page.as_bytes())
    }),
    comparison: Some(|of, out| out.write_all(html::comparison(of)?.as_bytes())),
    tables: Some(|of, out| out.write_all(html::replayed(of.reports)?.as_bytes())),
    ..Format::NONE
};
