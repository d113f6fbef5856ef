//! The environment variable through which a viewer launches this process.

use core::cell::UnsafeCell;

use crate::agent::cpuprofile::env;
use crate::agent::sampling::counters::TimerConfig;
use crate::wire::{Clock, LINK_VARIABLE};

/// The viewer that launched this process, as the environment describes it.
#[derive(Clone, Copy)]
pub(crate) struct Link<'a> {
    /// The token that the Hello returns to the viewer.
    pub(crate) token: u64,
    /// The viewer's pid in the viewer's own namespace.
    pub(crate) viewer: u32,
    /// The initial configuration.
    pub(crate) config: TimerConfig,
    /// The path of the viewer's socket.
    pub(crate) path: &'a [u8],
}

struct LinkStore(UnsafeCell<(Link<'static>, [u8; 108])>);

// SAFETY: written by the constructor alone, before any thread or handler of ours.
unsafe impl Sync for LinkStore {}

pub(crate) const NO_LINK: Link<'static> =
    Link { token: 0, viewer: 0, config: TimerConfig { clock: Clock::Prof, period_ns: 10_101_010 }, path: &[] };
static LINK: LinkStore = LinkStore(UnsafeCell::new((NO_LINK, [0; 108])));

/// Returns the viewer that launched this process.
pub(crate) fn link() -> Option<Link<'static>> {
    // SAFETY: it is not written after the constructor.
    let (link, _) = unsafe { &*LINK.0.get() };
    (!link.path.is_empty()).then_some(*link)
}

/// Parses `TOKEN:VIEWER_PID:PERIOD_NS:CLOCK:PATH`, the first four as decimal numbers.
fn parse(text: &[u8]) -> Option<Link<'_>> {
    let mut parts = text.splitn(5, |&byte| byte == b':');
    let mut number = || core::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
    let (token, viewer, period_ns, clock) = (number()?, number()?, number()?, number()?);
    let path = parts.next().filter(|path| !path.is_empty() && path.len() < 108)?;
    let clock = Clock::from_wire(u8::try_from(clock).ok()?).ok().filter(|&clock| clock == clock.sampled())?;
    clock.periods().contains(&period_ns).then_some(Link {
        token,
        viewer: viewer as u32,
        config: TimerConfig { clock, period_ns },
        path,
    })
}

/// Reads the variable that a viewer has put into the environment.
///
/// # Safety
/// Only the constructor may call it.
pub(crate) unsafe fn read_link() {
    // SAFETY: the caller vouches for it; the link is not read yet.
    unsafe {
        if let Some(link) = env::value(LINK_VARIABLE.as_bytes()).and_then(parse) {
            // The path is copied, because programs overwrite their environment.
            let (store, bytes) = &mut *LINK.0.get();
            bytes[..link.path.len()].copy_from_slice(link.path);
            *store = Link { path: &bytes[..link.path.len()], ..link };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_read_or_refused() {
        let link = parse(b"77:41:10101010:0:/run/user/0/a:b.sock").expect("valid");
        assert_eq!((link.token, link.viewer, link.path), (77, 41, &b"/run/user/0/a:b.sock"[..]));
        assert_eq!(link.config, TimerConfig { clock: Clock::Prof, period_ns: 10_101_010 });
        let refused: [&[u8]; 5] =
            [b"", b"77:41:10101010:0:", b"77:41:10:0:/x", b"x:41:10101010:0:/x", b"7:4:10101010:9:/x"];
        for text in refused {
            assert!(parse(text).is_none());
        }
        let long = [b"77:41:10101010:0:".as_slice(), &[b'/'; 108]].concat();
        assert!(parse(&long).is_none());
    }
}
