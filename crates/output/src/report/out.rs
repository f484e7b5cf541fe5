//! Writer that keeps errors until the end, so that they never stop a run.

use std::io::{self, Write};

pub(super) struct Out<W: Write> {
    to: W,
    /// The first error; `Ok` after a broken pipe (`| head`), which is no error.
    ended: Option<io::Result<()>>,
}

impl<W: Write> Out<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, ended: None }
    }

    pub(super) fn write(&mut self, text: &str) {
        if self.ended.is_none()
            && let Err(e) = self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush())
        {
            self.ended = Some(if e.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(e) });
        }
    }

    /// Ends writing; returns the first error of earlier writes. A broken pipe is no error.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.ended.replace(Ok(())).unwrap_or(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(io::ErrorKind, usize);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_gone_is_a_quiet_end_and_other_troubles_are_told_there() {
        let mut broken = Broken(io::ErrorKind::BrokenPipe, 0);
        let mut out = Out::new(&mut broken);
        out.write("a");
        out.write("b");
        assert!(out.end().is_ok());
        assert_eq!(broken.1, 1);
        let mut out = Out::new(Broken(io::ErrorKind::StorageFull, 0));
        out.write("a");
        assert_eq!(out.end().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
