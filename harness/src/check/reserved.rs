//! Ports that checks have for their servers.

use std::os::{
    linux::net::SocketAddrExt,
    unix::net::{SocketAddr, UnixDatagram},
};

/// A port for a server. Until this is dropped, no other check looks whether it is free, or takes it.
#[derive(Debug)]
pub struct Reserved {
    /// The port.
    pub number: u16,
    /// To find a port free and to listen on it are two steps, and a look whether it is free keeps others from listening for
    /// a moment. To take this name is one.
    _name: Option<UnixDatagram>,
}

impl Reserved {
    /// `None` where another check has it.
    pub(super) fn take(number: u16) -> Option<Reserved> {
        let name = SocketAddr::from_abstract_name(format!("termdrill-port-{number}"));
        let name = name.and_then(|name| UnixDatagram::bind_addr(&name)).ok()?;
        Some(Reserved { number, _name: Some(name) })
    }

    /// The port, whoever has it.
    pub(super) fn unnamed(number: u16) -> Reserved {
        Reserved { number, _name: None }
    }

    /// The first that no other check has and that is free.
    pub(super) fn first(numbers: impl IntoIterator<Item = u16>, is_free: impl Fn(u16) -> bool) -> Option<Reserved> {
        numbers.into_iter().find_map(|number| Reserved::take(number).filter(|_| is_free(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::start;

    #[test]
    fn a_port_that_another_check_has_is_not_taken() {
        let [one, other] = [(); 2].map(|()| start::port(None).unwrap());
        assert_ne!(one.number, other.number);
        let numbers = [one.number, other.number];
        assert!(Reserved::first(numbers, |_| true).is_none());
        assert!(start::port(Some(numbers[1])).is_ok(), "who asks for it gets it");
        drop(other);
        assert_eq!(Reserved::first(numbers, |_| true).unwrap().number, numbers[1]);
    }
}
