//! A proxy in front of the database that loses connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What the proxy does with the next commit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Plan {
    /// Forwards it.
    Pass,
    /// Cuts the connection before it arrives.
    CutBefore,
    /// Forwards it, and cuts the connection before the answer.
    CutAfter,
    /// The same, but the database does not notice the cut.
    HangAfter,
    /// Forwards it, cuts the connection before the answer, and accepts no new one.
    CutForGood,
}

/// A proxy between a server and its database.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    plan: Arc<Mutex<Plan>>,
    /// Connections left open, so that the database does not notice.
    _hanging: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub(crate) fn to(database: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let plan = Arc::new(Mutex::new(Plan::Pass));
        let hanging = Arc::new(Mutex::new(Vec::new()));
        let (database, plan_there, hanging_there) = (database.to_owned(), plan.clone(), hanging.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if *plan_there.lock().unwrap() == Plan::CutForGood {
                    continue;
                }
                let server = TcpStream::connect(&database).unwrap();
                pass(&client, &server, &plan_there, &hanging_there);
            }
        });
        Self { port, plan, _hanging: hanging }
    }

    pub(crate) fn plan(&self, plan: Plan) {
        *self.plan.lock().unwrap() = plan;
    }
}

fn pass(client: &TcpStream, server: &TcpStream, plan: &Arc<Mutex<Plan>>, hanging: &Arc<Mutex<Vec<TcpStream>>>) {
    let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let swallow = Arc::new(Mutex::new(false));
    let swallow_there = swallow.clone();
    thread::spawn(move || {
        forward(from, to, |_, _| !*swallow_there.lock().unwrap());
    });
    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (plan, hanging, client) = (plan.clone(), hanging.clone(), client.try_clone().unwrap());
    thread::spawn(move || {
        forward(from, to, |bytes, server| {
            let mut plan = plan.lock().unwrap();
            let commit = bytes.windows(7).any(|window| window == b"COMMIT\0");
            if !commit || *plan == Plan::Pass {
                return true;
            }
            if *plan != Plan::CutBefore {
                *swallow.lock().unwrap() = true;
                server.write_all(bytes).unwrap();
                thread::sleep(std::time::Duration::from_millis(200));
            }
            if *plan == Plan::HangAfter {
                hanging.lock().unwrap().push(server.try_clone().unwrap());
            } else {
                let _ = server.shutdown(Shutdown::Both);
            }
            let _ = client.shutdown(Shutdown::Both);
            if *plan != Plan::CutForGood {
                *plan = Plan::Pass;
            }
            false
        });
    });
}

/// Forwards until one side ends, or `allow` returns false.
fn forward(mut from: TcpStream, mut to: TcpStream, mut allow: impl FnMut(&[u8], &mut TcpStream) -> bool) {
    let mut bytes = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !allow(&bytes[..count], &mut to) || to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
