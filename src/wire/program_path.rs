//! The path by which a program was started through a link, such as `redis-server`, which is a link
//! to `redis-check-rdb` in some distributions. `/proc` names the file alone.

/// Writes the path of a link beside a program's file that has the name in the arguments, ended by a
/// NUL, to `path`. Returns its length without the NUL, or `None` if that is the file's own name or
/// cannot be a file's. The caller checks that it is the same file.
pub fn link_of_program(file: &[u8], argv: &[u8], path: &mut [u8]) -> Option<usize> {
    // Programs that change their arguments write titles there: `redis-server *:6379`.
    let first = argv.split(|&byte| byte == 0 || byte == b':' || byte.is_ascii_whitespace()).next()?;
    let name = first.rsplit(|&byte| byte == b'/').next()?;
    let directory = file.len() - file.rsplit(|&byte| byte == b'/').next()?.len();
    if name.is_empty() || !file.starts_with(b"/") || name == &file[directory..] {
        return None;
    }
    let length = directory + name.len();
    path.get_mut(..directory)?.copy_from_slice(&file[..directory]);
    path.get_mut(directory..length)?.copy_from_slice(name);
    *path.get_mut(length)? = 0;
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_was_typed_is_looked_for_beside_the_file() {
        let link = |argv: &str, length: usize| {
            let mut path = vec![b'x'; length];
            let end = link_of_program(b"/usr/bin/redis-check-rdb", argv.as_bytes(), &mut path)?;
            assert_eq!(path[end], 0);
            Some(String::from_utf8(path[..end].to_vec()).expect("these are texts"))
        };
        for argv in ["redis-server\0--port\x000\0", "/usr/bin/redis-server *:6379\0", "./redis-server"] {
            assert_eq!(link(argv, 100).as_deref(), Some("/usr/bin/redis-server"), "{argv}");
        }
        for argv in ["", "\0", "redis-check-rdb: child\0", " redis-server\0", "/usr/bin/\0"] {
            assert_eq!(link(argv, 100), None, "{argv}");
        }
        assert_eq!((link("redis-server", 21), link("redis-server", 22).is_some()), (None, true));
        assert_eq!(link_of_program(b"redis-check-rdb", b"redis-server", &mut [0; 100]), None);
    }
}
