//! Writer that keeps errors until the end, so that they never stop a run.

use std::io::{self, Write};

/// Writes whole texts until the first error.
pub(super) struct Out<W: Write> {
    to: W,
    state: State,
}

enum State {
    Open,
    /// Broken pipe (`| head`), which is no error.
    Closed,
    Failed(io::Error),
}

impl<W: Write> Out<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, state: State::Open }
    }

    pub(super) fn write(&mut self, text: &str) {
        if !matches!(self.state, State::Open) {
            return;
        }
        match self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush()) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => self.state = State::Closed,
            Err(e) => self.state = State::Failed(e),
        }
    }

    /// Returns the error that stopped writing, except for a broken pipe.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Failed(e) => Err(e),
            State::Open | State::Closed => Ok(()),
        }
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
    fn a_reader_that_has_gone_is_a_quiet_end() {
        let mut broken = Broken(io::ErrorKind::BrokenPipe, 0);
        let mut out = Out::new(&mut broken);
        out.write("a");
        out.write("b");
        assert!(out.end().is_ok());
        assert_eq!(broken.1, 1);
    }

    #[test]
    fn other_troubles_are_told_at_the_end() {
        let mut out = Out::new(Broken(io::ErrorKind::StorageFull, 0));
        out.write("a");
        out.write("b");
        assert_eq!(out.end().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
