//! `kelvin watch`: a run on its way as a local page that updates by itself.

use std::net::TcpListener;

use anyhow::Context;

use crate::arguments::WatchArguments;
use crate::output::{print_result, say};
use crate::watch::server::serve;
use kelvin_study::folder::check_is_run;

pub fn watch(arguments: &WatchArguments) -> anyhow::Result<()> {
    let WatchArguments { run, port, host } = arguments;
    check_is_run(run)?;
    let listener = TcpListener::bind((*host, *port))
        .with_context(|| format!("cannot listen at {host}, port {port}; name another --port, or none"))?;
    let address = listener.local_addr().context("cannot learn the port to listen at")?;
    if !host.is_loopback() {
        say(&format!("note: whoever can reach {host} can read this run; 127.0.0.1 is for this machine alone\n"));
    }
    print_result(&format!("watching {} at http://{address}/ (Ctrl-C ends)\n", run.display()))?;
    serve(&listener, run);
    Ok(())
}
