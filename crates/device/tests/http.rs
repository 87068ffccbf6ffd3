//! Devices over real sockets, with stores in real folders.

mod common;

use common::{Fault, Server, enrolment, http, options};
use sottovoce_device::{Device, FileStore, HttpOptions, HttpTransport, Key, NextStep, Request, Transport, WaitReason};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1_000_000);

fn get(max_response_bytes: u64) -> Request {
    let path = "/v1/federations/films/catalog".to_owned();
    Request { path, max_response_bytes, ..Request::default() }
}

#[test]
fn takes_part_over_http_and_survives_restarts() {
    let server = Server::new();
    let transport = HttpTransport::new(&http::serve(server.clone()), &HttpOptions::default()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let open = || Box::new(FileStore::open(place.path(), Key::new([3; 32])).unwrap());
    let mut device = Device::enrol(open(), enrolment(0), options()).unwrap();
    for round in 0..3 {
        // The answer to each upload is lost once; the device is begun anew, and sends the same bytes.
        let before_upload = if round == 0 { 4 } else { 2 };
        server.with(|world| world.faults = [vec![None; before_upload], vec![Some(Fault::After)]].concat());
        assert!(matches!(device.step(&transport, NOW).unwrap(), NextStep::Wait(_, WaitReason::Failed { .. })));
        drop(device);
        device = Device::open(open(), options()).unwrap();
        assert_eq!(
            device.step(&transport, NOW).unwrap(),
            NextStep::Wait(Duration::ZERO, WaitReason::UpdateAccepted { round })
        );
        assert_eq!(server.with(|world| world.updates[&(0, round)].2), 2);
        server.close_round();
    }
    assert_eq!(device.ledger().totals().updates, 3);
    assert_eq!(device.recommend(4).unwrap().items.len(), 4);
}

#[test]
fn rejects_responses_past_the_limit() {
    let server = Server::new();
    let transport = HttpTransport::new(&http::serve(server), &HttpOptions::default()).unwrap();
    assert_eq!(transport.send(&get(1 << 20)).unwrap().status, 200);
    assert!(transport.send(&get(100)).is_err());
}

/// Answers every connection with these bytes.
fn answers(with: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(with);
            // An answer that is not complete stays so for a while.
            thread::sleep(Duration::from_secs(2));
        }
    });
    address
}

#[test]
fn does_not_follow_redirects_and_times_out() {
    let elsewhere = answers(b"HTTP/1.1 307 x\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n");
    let options = HttpOptions { request_timeout: Duration::from_millis(500), ..HttpOptions::default() };
    let transport = HttpTransport::new(&elsewhere, &options).unwrap();
    assert_eq!(transport.send(&get(100)).unwrap().status, 307);
    let slow = answers(b"HTTP/1.1 200 x\r\ncontent-length: 50\r\n\r\nhalf");
    let transport = HttpTransport::new(&slow, &options).unwrap();
    let error = transport.send(&get(100)).unwrap_err();
    assert!(error.0.contains("timeout"), "{error}");
}
