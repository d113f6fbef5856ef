//! Stores of profiles, containers and services.

use clap_mangen::roff::bold;

use crate::page::Manual;

/// Appends which store takes what, and what was tried.
pub(crate) fn stores(manual: &mut Manual) {
    manual.section("PROFILE STORES");
    manual.text(
        "sigtop push FILE URL sends a recording or a saved profile to a store, and sigtop record --push URL sends what is new \
         every --push-every. The URL's path says what the store takes, or --push-format does; a URL without a path gets that of \
         the store.",
    );
    manual.example(&[
        "sigtop push a.sigtop http://localhost:4318                              # OTLP: a Collector, Pyroscope, Parca, Elastic, OpenObserve",
        "sigtop record --push http://localhost:4318 --label service.name=checkout -- ./server",
        "sigtop push a.sigtop http://localhost:4040/ingest                       # Pyroscope",
        "sigtop push a.sigtop http://localhost:7070/profiles/writeraw            # Parca",
        "sigtop push a.sigtop http://localhost:8126/profiling/v1/input           # Datadog's agent",
    ]);
    manual.text(
        "Each quantity (CPU time, wall-clock time, allocated bytes, live bytes) is a profile of its own under the store's \
         name for it. Names are demangled. The labels of samples are pid, tid, thread, process, and for waiting threads wait, \
         object and holder, all as text. --label adds attributes of the program. Without --label service.name=…, its \
         name is that of the executable. In names for Pyroscope, what is not a letter, a digit or one of . - / _ becomes _.",
    );
    manual.text(
        "Credentials are headers: Authorization, X-Scope-OrgID (a tenant of Pyroscope), DD-API-KEY. They come from the file \
         of --header-file, with a line such as 'Authorization: Bearer …' for each, and for OTLP also from the environment \
         (OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_PROFILES_HEADERS). No process has them in its arguments, and no message \
         has them. A URL with a password is refused.",
    );
    manual.text(
        "The program curl sends the requests: sigtop has no TLS library, as those for Rust need a C compiler to build or \
         are young. So certificates are verified against those of the system, or against the file of --push-ca, and \
         proxies are those of curl's environment. Redirections are not followed.",
    );
    manual.text(
        "A request that fails for want of an answer, or with status 408, 429, 502, 503 or 504 (not by OTLP also 500), is tried \
         again after a second, two, four, up to a minute, less up to half at random, and not before the time of Retry-After. \
         A body that is too large (413) is halved. A request of which only the answer is lost is sent twice. What a store \
         does not take in the end is counted by cause, and sigtop push exits with 125.",
    );
    manual.text(
        "sigtop record --push never waits for a store. Up to 32 MiB of compressed profiles wait, beyond which the oldest are lost \
         (buffer full). A push waits for names for at most 5 s, and the end of the recording for the last requests for at most 5 s \
         (not in time). If something was lost, the status is 125, unless the program was launched and has its own.",
    );
    manual.text(
        "Times of pushed profiles never go back and never overlap. If the clock of the system is set forward, or the machine was \
         suspended, there is a gap; if it is set back, times go on from the end of the last profile until the clock has reached them. \
         A store that takes no times from the future may refuse profiles for so long; they are counted.",
    );
    manual.text(
        "sigtop record --metrics [ADDR:]PORT answers Prometheus at /metrics: samples, losses by cause, rate, CPU time of the agent \
         and of the program, and a counter for each of the hottest functions, at most 100; all others are function=\"other\". A counter \
         begins at 0 when its function becomes one of the hottest, so that all time is in one series. promtool has checked the text.",
    );
    manual.text(
        "OTLP for profiles is in development. sigtop sends version 1.10 of opentelemetry-proto; servers of another version accept it \
         and may show an empty profile. What was tried against what:",
    );
    for (store, tried) in [
        ("pprof files", "Go's pprof reads each one that is sent"),
        (
            "OTLP",
            "an OpenTelemetry Collector 0.165 with --feature-gates=service.profilesSupport, and the Python classes of opentelemetry-proto 1.45",
        ),
        (
            "Pyroscope",
            "no server, but its clients: requests have the parameters, types and units of pyroscope-go 1.2, which also accepts the names, \
             and of pyroscope-io 1.4; a receiver of our own counts what a server drops by its documentation",
        ),
        ("Parca", "no server, only a receiver of our own"),
        ("Datadog", "its test server (ddapm-test-agent 1.69)"),
    ] {
        manual.entry([bold(store)], tried);
    }
}

/// Appends how programs in containers and services are watched.
pub(crate) fn containers(manual: &mut Manual) {
    manual.section("CONTAINERS AND SERVICES");
    for (words, lines) in [
        (
            "An image whose server is recorded from its start. It needs no right, and the program is one static file:",
            &[
                "COPY sigtop /usr/local/bin/",
                "ENTRYPOINT [\"sigtop\", \"record\", \"--quiet\", \"-o\", \"/profiles/app.pb.gz\", \"--\", \"/app/server\"]",
            ][..],
        ),
        (
            "A sidecar that needs no right either. Both containers run as one user, and share processes (shareProcessNamespace) \
             and a volume. The sidecar begins with the first line, the second starts the server, and the third watches it:",
            &[
                "cp \"$(sigtop env --path)\" /shared/",
                "LD_PRELOAD=$(echo /shared/libsigtop-agent-*.so) exec /app/server",
                "sigtop --pid server",
            ],
        ),
        (
            "A pod that was not prepared, from an image that has sigtop. The profile grants SYS_PTRACE:",
            &["kubectl debug -it POD --image=IMAGE --target=CONTAINER --profile=general -- sigtop --pid 1"],
        ),
        (
            "A service of systemd, with a copy of the agent that its user may read:",
            &[
                "cp \"$(sigtop env --path)\" /usr/local/lib/",
                "systemctl edit app     # [Service] Environment=LD_PRELOAD=/usr/local/lib/libsigtop-agent-….so",
                "sudo sigtop --pid \"$(systemctl show -P MainPID app)\"",
            ],
        ),
    ] {
        manual.text(words);
        manual.example(lines);
    }
}
