// The JDK's HttpServer: /slow takes half a second, /endless an hour. ON_SIGTERM=drain adds a shutdown hook that stops it with up to 3 s for what
// is in flight.
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public final class Server {
    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(Integer.parseInt(System.getenv("PORT"))), 50);
        server.createContext("/", exchange -> {
            try {
                switch (exchange.getRequestURI().getPath()) {
                    case "/slow" -> Thread.sleep(500);
                    case "/endless" -> Thread.sleep(3_600_000);
                    default -> {}
                }
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
            exchange.sendResponseHeaders(200, 5);
            exchange.getResponseBody().write("done\n".getBytes());
            exchange.close();
        });
        server.setExecutor(Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        }));
        if ("drain".equals(System.getenv("ON_SIGTERM"))) {
            Runtime.getRuntime().addShutdownHook(new Thread(() -> server.stop(3)));
        }
        server.start();
    }
}
