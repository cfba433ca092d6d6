// A worker for termdrill in Java, 17 or newer, without packages: termdrill run NAME --worker 'java Worker.java', or faster
// after javac Worker.java: --worker 'java -cp DIRECTORY Worker'
//
// It keeps to docs/worker-contract.md. The JDK has no datagram sockets for NOTIFY_SOCKET and no SQLite: it tells its readiness
// by TERMDRILL_NOTIFY_PIPE and commits to TERMDRILL_STORE_LINES.
//
// A JVM catches SIGTERM from its start and ends with 143, as PID 1 too. So a worker that is to do nothing about SIGTERM is
// one only with `java -Xrs`, which leaves the signal alone; and then it can't drain.

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.HashSet;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public final class Worker {
    private static final int MAX_BODY = 64 * 1024;
    private static final Pattern REQUEST = Pattern.compile("\"request\"\\s*:\\s*(\\d{1,5})\\s*[,}]");
    private static final Pattern ADDENDS = Pattern.compile("\"addends\"\\s*:\\s*\\[([\\d,\\s]*)\\]");

    private final String name = setting("TERMDRILL_WORKER", "worker-1");
    private final int port = (int) number("PORT", 8080);
    private final int slots = (int) number("TERMDRILL_SLOTS", 4);
    private final long originNs = number("TERMDRILL_ORIGIN_NS", System.nanoTime());
    private final long tickNs = number("TERMDRILL_TICK_NS", 100_000_000);
    private final long readyTick = number("TERMDRILL_READY_TICK", 40);
    private final long invocationTicks = number("TERMDRILL_INVOCATION_TICKS", 200);
    private final boolean failBoot = oneOf("TERMDRILL_FAIL_BOOT", "false", "true", "false").equals("true");
    private final long pid = ProcessHandle.current().pid();

    private OutputStream store;
    private volatile HttpServer server;
    // All of it under the lock of this object.
    private String phase = "starting";
    private int answers = 0;
    private final TreeSet<Integer> taken = new TreeSet<>();
    private final Set<Integer> known = new HashSet<>();

    public static void main(String[] arguments) throws Exception {
        String onSigterm = oneOf("TERMDRILL_ON_SIGTERM", "default", "drain", "default", "ignore");
        boolean afterBoot =
                oneOf("TERMDRILL_HANDLER_INSTALLED", "at_start", "at_start", "after_boot").equals("after_boot");
        Worker worker = new Worker();
        if (onSigterm.equals("ignore")) {
            sun.misc.Signal.handle(new sun.misc.Signal("TERM"), sun.misc.SignalHandler.SIG_IGN);
        } else if (onSigterm.equals("drain") && !afterBoot) {
            worker.drainOnSigterm();
        }
        worker.live(onSigterm.equals("drain") && afterBoot);
    }

    private void live(boolean handlerAfterBoot) throws Exception {
        // Lines of an answer must not wait for each other's acknowledgement (Nagle's algorithm, tcp(7)).
        System.setProperty("sun.net.httpserver.nodelay", "true");
        if (System.getenv("TERMDRILL_STORE_LINES") != null) {
            store = new FileOutputStream(System.getenv("TERMDRILL_STORE_LINES"), true);
        }
        // Java listens with SO_REUSEADDR, which is needed: the harness keeps the port for this worker until it listens.
        server = HttpServer.create(new InetSocketAddress("0.0.0.0", port), 128);
        server.createContext("/livez", exchange -> answered(exchange, () -> answer(exchange, 200, state())));
        server.createContext("/readyz", exchange -> answered(exchange, () -> answer(exchange, isReady() ? 200 : 503, state())));
        server.createContext("/invocations", exchange -> answered(exchange, () -> invocation(exchange)));
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
        System.out.println("listens on port " + port);
        warmUp();

        sleepUntil(startOf(readyTick));
        if (failBoot) {
            Runtime.getRuntime().halt(1);
        }
        if (handlerAfterBoot) {
            drainOnSigterm();
        }
        if (turn("ready")) {
            tell("READY");
        }
        Thread.currentThread().join();
    }

    /** The first requests of a JVM take tens of milliseconds, in which classes are loaded; those are asked here. */
    private void warmUp() throws IOException {
        String body = "{\"request\":0,\"addends\":[1]}";
        String post = "POST /invocations HTTP/1.1\r\nHost: self\r\nContent-Length: " + body.length() + "\r\n\r\n" + body;
        for (String request : List.of("GET /livez HTTP/1.1\r\nHost: self\r\n\r\n", post, post)) {
            try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
                socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
                socket.getInputStream().read(new byte[4096]);
            }
        }
        progress(0, 0, "\"event\":\"accepted\",\"slot\":1");
    }

    // SIGTERM.

    /** The JVM calls its hooks when it gets SIGTERM, and would end with 143 after them; halt ends it with 0. */
    private void drainOnSigterm() {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            turn("draining");
            try {
                tell("STOPPING");
            } catch (IOException gone) {
                System.err.println("nobody hears that it stops: " + gone.getMessage());
            }
            synchronized (this) {
                while (answers > 0) {
                    try {
                        wait();
                    } catch (InterruptedException again) {
                        // Nobody interrupts it; it goes on waiting.
                    }
                }
            }
            // A JVM that ends waits 0.3 s for threads in system calls, and the server has one that waits for connections.
            HttpServer listening = server;
            if (listening != null) {
                listening.stop(0);
            }
            Runtime.getRuntime().halt(0);
        }));
    }

    /** False where it drains already, which nothing takes back. */
    private synchronized boolean turn(String next) {
        if (phase.equals("draining")) {
            return false;
        }
        phase = next;
        return true;
    }

    /** The empty line ends the message. One write of so few bytes is never mixed with another's (pipe(7)). */
    private void tell(String state) throws IOException {
        String path = System.getenv("TERMDRILL_NOTIFY_PIPE");
        if (path != null) {
            String text = "MAINPID=" + pid + "\n" + state + "=1\nMONOTONIC_USEC=" + System.nanoTime() / 1000 + "\n\n";
            try (FileOutputStream pipe = new FileOutputStream(path, true)) {
                pipe.write(text.getBytes(StandardCharsets.US_ASCII));
            }
        }
    }

    // HTTP.

    private interface Answering {
        void run() throws IOException;
    }

    /** Answers, and lets a drain wait for it until the last byte is the kernel's. */
    private void answered(HttpExchange exchange, Answering answering) {
        synchronized (this) {
            answers += 1;
        }
        try {
            answering.run();
        } catch (IOException gone) {
            System.err.println("the client is gone: " + gone.getMessage());
        } finally {
            exchange.close();
            synchronized (this) {
                answers -= 1;
                notifyAll();
            }
        }
    }

    private synchronized boolean isReady() {
        return phase.equals("ready");
    }

    private synchronized String state() {
        return "{\"phase\":\"" + phase + "\"}";
    }

    private void answer(HttpExchange exchange, int status, String body) throws IOException {
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        if (status == 503) {
            exchange.getResponseHeaders().set("Retry-After", "1");
        }
        byte[] bytes = (body + "\n").getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, bytes.length);
        exchange.getResponseBody().write(bytes);
    }

    private void invocation(HttpExchange exchange) throws IOException {
        if (!exchange.getRequestMethod().equals("POST")) {
            answer(exchange, 405, "{\"error\":\"allowed here: POST\"}");
            return;
        }
        byte[] bytes = exchange.getRequestBody().readNBytes(MAX_BODY + 1);
        String body = new String(bytes, StandardCharsets.UTF_8);
        Matcher request = REQUEST.matcher(body);
        Matcher addends = ADDENDS.matcher(body);
        String given = exchange.getRequestHeaders().getFirst("termdrill-tick");
        int id;
        long[] numbers;
        long admitted;
        try {
            if (bytes.length > MAX_BODY || !request.find() || !addends.find() || request.group(1).equals("0")) {
                throw new NumberFormatException("no request from 1 on, or no addends");
            }
            id = Integer.parseInt(request.group(1));
            numbers = Arrays.stream(addends.group(1).split(",")).map(String::strip).filter(one -> !one.isEmpty())
                    .mapToLong(Long::parseLong).toArray();
            admitted = given == null ? (System.nanoTime() - originNs) / tickNs : Long.parseLong(given);
        } catch (NumberFormatException bad) {
            answer(exchange, 400, "{\"error\":\"the body is not an invocation\"}");
            return;
        }
        int slot = 0;
        int status = 503;
        String refusal = null;
        synchronized (this) {
            if (!phase.equals("ready")) {
                refusal = "{\"reason\":\"worker_" + phase + "\"}";
            } else if (known.contains(id)) {
                status = 409;
                refusal = "{\"error\":\"request-" + id + " runs here or is committed already\"}";
            } else {
                for (slot = 1; taken.contains(slot); slot++) {
                    // The lowest free one.
                }
                if (slot > slots) {
                    refusal = "{\"reason\":\"no_free_slot\"}";
                } else {
                    taken.add(slot);
                    known.add(id);
                }
            }
        }
        if (refusal != null) {
            answer(exchange, status, refusal);
            return;
        }
        exchange.getResponseHeaders().set("Content-Type", "application/x-ndjson");
        OutputStream lines = OutputStream.nullOutputStream();
        try {
            exchange.sendResponseHeaders(200, 0);
            lines = exchange.getResponseBody();
        } catch (IOException gone) {
            // It runs to its commit all the same.
        }
        play(lines, id, numbers, slot, admitted);
    }

    // Work.

    /** The stages and the commit, each at its own moment, so that lateness never adds up. */
    private void play(OutputStream to, int id, long[] addends, int slot, long admitted) {
        OutputStream lines = to;
        long beginNs = System.nanoTime();
        lines = say(lines, progress(beginNs, beginNs, "\"event\":\"accepted\",\"slot\":" + slot)
                + progress(beginNs, beginNs, "\"event\":\"stage_entered\",\"stage\":\"prepare\""));
        String[] stages = {"model", "tool"};
        for (int part = 1; part <= 2; part++) {
            // The first whole tick that is not before the third.
            long plannedNs = startOf(admitted + (part * invocationTicks + 2) / 3);
            sleepUntil(plannedNs);
            lines = say(lines, progress(System.nanoTime(), plannedNs,
                    "\"event\":\"stage_entered\",\"stage\":\"" + stages[part - 1] + "\""));
        }
        long plannedNs = startOf(admitted + invocationTicks);
        sleepUntil(plannedNs);
        long atNs = System.nanoTime();
        long sum = Arrays.stream(addends).sum();
        String step;
        boolean committed = false;
        try {
            commit(id, addends, sum, atNs / 1000);
            committed = true;
            step = "\"event\":\"result_committed\",\"sum\":" + sum;
        } catch (IOException problem) {
            step = "\"event\":\"commit_failed\",\"error\":\"" + problem.getMessage().replaceAll("[\"\\\\]", "'") + "\"";
        }
        synchronized (this) {
            taken.remove(slot);
            if (!committed) {
                known.remove(id);
            }
        }
        say(lines, progress(atNs, plannedNs, step));
    }

    private static String progress(long atNs, long plannedNs, String step) {
        long lateUs = Math.max(0, atNs - plannedNs) / 1000;
        return "{\"at_us\":" + atNs / 1000 + ",\"late_us\":" + lateUs + "," + step + "}\n";
    }

    /** A client that is gone misses the rest, and the work goes on: the store is the truth. */
    private static OutputStream say(OutputStream lines, String text) {
        try {
            lines.write(text.getBytes(StandardCharsets.UTF_8));
            lines.flush();
            return lines;
        } catch (IOException gone) {
            return OutputStream.nullOutputStream();
        }
    }

    /** One write, one line, one commit. */
    private void commit(int id, long[] addends, long sum, long atUs) throws IOException {
        if (store == null) {
            throw new IOException("there is no result store, so the sum " + sum + " is not stored");
        }
        String line = "{\"request\":" + id + ",\"worker\":\"" + name + "\",\"pid\":" + pid + ",\"addends\":"
                + Arrays.toString(addends) + ",\"sum\":" + sum + ",\"committed_us\":" + atUs + "}\n";
        store.write(line.getBytes(StandardCharsets.UTF_8));
    }

    private long startOf(long tick) {
        return originNs + tick * tickNs;
    }

    /** System.nanoTime is CLOCK_MONOTONIC on Linux, which all processes share. */
    private static void sleepUntil(long atNs) {
        for (long left = atNs - System.nanoTime(); left > 0; left = atNs - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    // Settings.

    private static String setting(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null ? otherwise : value;
    }

    private static String oneOf(String name, String otherwise, String... allowed) {
        String value = setting(name, otherwise);
        if (!List.of(allowed).contains(value)) {
            throw refused(name, value, "one of " + String.join(", ", allowed));
        }
        return value;
    }

    private static long number(String name, long otherwise) {
        String value = setting(name, Long.toString(otherwise));
        try {
            return Long.parseLong(value);
        } catch (NumberFormatException bad) {
            throw refused(name, value, "a whole number");
        }
    }

    private static IllegalArgumentException refused(String name, String value, String allowed) {
        System.err.println(name + "=" + value + " is not allowed: it must be " + allowed);
        System.exit(2);
        return new IllegalArgumentException(name);
    }
}
