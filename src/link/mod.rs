//! Between the two processes: the wire, and the viewer's end of its sockets (`door`: where agents come in; `peer`: one of
//! them; [`receive`]: the thread that serves them all).

#[cfg(feature = "viewer")]
mod door;
#[cfg(feature = "viewer")]
mod peer;
#[cfg(feature = "viewer")]
pub mod receive;
pub mod wire;
