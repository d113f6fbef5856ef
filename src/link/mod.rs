//! Between the two processes: the wire, the viewer's end of its sockets (`door`: where agents come in; `peer`: one of
//! them; [`receive`]: the thread that serves them all), and the wire kept in a file ([`record`]; [`aside`]: how a file is
//! put in its place). [`legacy`] is the other format that an agent writes.

#[cfg(feature = "viewer")]
pub mod aside;
#[cfg(feature = "viewer")]
mod door;
pub mod legacy;
#[cfg(feature = "viewer")]
mod peer;
#[cfg(feature = "viewer")]
pub mod receive;
#[cfg(feature = "viewer")]
pub mod record;
pub mod wire;
